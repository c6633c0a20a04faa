use super::*;

fn host(most: u16) -> (Host, Instant) {
    (Host::new(most, Rng::new(1)), Instant::now())
}

/// Lets `n` workers ask; the first `answered` of them get an answer.
fn fill(host: &Host, now: Instant, n: u16, answered: u16) {
    for i in 0..n {
        assert!(host.enter(now, false, true), "room for {i}");
    }
    (0..answered).for_each(|_| host.answered(true));
}

/// How long a busy host is tried again.
const RETRY_FOR: Duration = Duration::from_secs(100);

#[test]
fn a_refusal_halves_what_is_asked_for_and_lowers_it_to_what_worked() {
    for (asked, answered, left) in [(12, 8, 6), (12, 6, 6), (12, 2, 2), (9, 8, 4)] {
        let (host, now) = host(16);
        fill(&host, now, asked, answered);
        for _ in answered..asked {
            assert!(host.refused(now, now, false, None, RETRY_FOR).is_none());
            host.leave(false);
        }
        assert_eq!(host.ceiling(now), left, "{answered} of {asked}");
    }
}

#[test]
fn who_was_served_goes_on_after_a_refusal_and_others_wait() {
    let (host, now) = host(16);
    fill(&host, now, 12, 6);
    for _ in 0..6 {
        assert!(host.refused(now, now, false, None, RETRY_FOR).is_none());
        host.leave(false);
    }
    assert!(!host.has_room(now, true, true), "all six are in use");
    host.leave(true);
    assert!(host.has_room(now, true, true), "one that worked goes on at once");
    assert!(host.has_room(now + LONGEST_WAIT, false, true), "and any other after a wait");
}

#[test]
fn answers_that_a_refusal_overtook_count() {
    let (host, now) = host(16);
    fill(&host, now, 12, 2);
    host.refused(now, now, false, None, RETRY_FOR);
    host.leave(false);
    assert_eq!(host.ceiling(now), 2);
    (0..6).for_each(|_| host.answered(true));
    assert_eq!(host.ceiling(now), 6, "half of what was asked for");
}

#[test]
fn the_ceiling_comes_back_one_by_one_and_more_slowly_if_refused() {
    let (host, mut now) = host(4);
    fill(&host, now, 4, 2);
    for _ in 0..2 {
        host.refused(now, now, false, None, RETRY_FOR);
        host.leave(false);
    }
    assert_eq!(host.ceiling(now), 2);
    now += FIRST_RAISE;
    assert_eq!(host.ceiling(now), 3);
    assert!(host.enter(now, false, true));
    host.refused(now, now, false, None, RETRY_FOR);
    host.leave(false);
    assert_eq!(host.ceiling(now + FIRST_RAISE), 2, "not so soon again");
    now += 2 * FIRST_RAISE;
    assert_eq!(host.ceiling(now), 3);
    now += 2 * FIRST_RAISE;
    assert_eq!(host.ceiling(now), 3, "nobody has asked for so many");
    assert!(host.enter(now, false, true));
    now += 2 * FIRST_RAISE;
    assert_eq!(host.ceiling(now), 4, "it worked");
    assert_eq!(host.ceiling(now + LONGEST_RAISE), 4, "never more than the settings say");
}

#[test]
fn what_pushed_back_is_remembered_and_tried_again_one_by_one() {
    let held = Arc::new(HeldCeilings::new([("h:80".to_owned(), 6), ("wide:80".to_owned(), 40)]));
    let hosts = Hosts::new(Ceilings::all(16), Arc::clone(&held), 100, 7);
    let of = |url: &str| hosts.of(&Url::parse(url).expect("a URL"));
    let now = Instant::now();
    let host = of("http://h/f");
    assert_eq!(host.ceiling(now), 6);
    assert_eq!(of("http://other/f").ceiling(now), 16);
    assert_eq!(of("http://wide/f").ceiling(now), 16, "never more than the settings say");
    assert_eq!(held.noted(), [], "nothing has pushed back in this run");
    let later = Instant::now() + FIRST_RAISE;
    assert_eq!(host.ceiling(later), 7);
    fill(&host, later, 7, 4);
    host.refused(later, later, false, None, RETRY_FOR);
    host.leave(false);
    assert_eq!(held.noted(), [("h:80".to_owned(), 4)]);
}

#[test]
fn connections_that_are_turned_away_while_others_are_served_are_too_many() {
    let held = Arc::new(HeldCeilings::default());
    let hosts = Hosts::new(Ceilings::all(16), Arc::clone(&held), 100, 7);
    let host = hosts.of(&Url::parse("http://h/f").expect("a URL"));
    let now = Instant::now();
    fill(&host, now, 12, 6);
    for _ in 0..6 {
        assert!(host.turned_away(now, now));
        host.leave(false);
    }
    assert_eq!((host.ceiling(now), held.noted()), (6, Vec::new()), "it may be a network that goes away");
    host.answered(false);
    assert_eq!(held.noted(), [("h:80".to_owned(), 6)]);
}

#[test]
fn a_network_that_goes_away_is_no_push_back() {
    let (host, now) = host(16);
    fill(&host, now, 12, 8);
    assert!(host.turned_away(now, now));
    host.leave(false);
    assert_eq!(host.ceiling(now), 6);
    for _ in 0..8 {
        host.lost(now, true);
        host.leave(false);
    }
    assert_eq!(host.ceiling(now), 16);
    assert!(!host.lock().pushed_back);
}

#[test]
fn first_bytes_that_come_later_for_nothing_halve_the_ceiling() {
    let (host, now) = host(16);
    let ask = |connections: u16, ms: u64, rate| {
        for _ in 0..8 {
            host.measured(now, rate, Some((Duration::from_millis(ms), connections)));
        }
    };
    ask(4, 20, 8e6);
    ask(8, 20, 4e6);
    assert_eq!(host.ceiling(now), 16, "no later");
    ask(8, 50, 7e6);
    assert_eq!(host.ceiling(now), 16, "later, and it brings more");
    ask(8, 50, 4e6);
    assert_eq!(host.ceiling(now), 4);
    assert_eq!(host.ceiling(now + FIRST_RAISE), 5, "one more is tried later");
}

#[test]
fn a_host_that_answers_nobody_is_left_alone_as_long_as_it_asks() {
    let (host, now) = host(4);
    assert!(host.enter(now, false, true));
    assert!(host.refused(now, now, false, Some(Duration::from_secs(7)), RETRY_FOR).is_some());
    host.leave(false);
    assert_eq!(host.ceiling(now), 1);
    assert!(!host.has_room(now + Duration::from_secs(6), true, true));
    assert!(host.has_room(now + Duration::from_secs(7), false, true));
    assert!(!host.refused_long(now), "a wait has an end");
}

impl Host {
    fn refused_long(&self, now: Instant) -> bool {
        self.enter(now + RETRY_FOR, false, true);
        self.refused(now, now, false, Some(Duration::from_secs(1 << 40)), RETRY_FOR);
        self.leave(false);
        !self.has_room(now + RETRY_FOR, false, true)
    }
}

#[test]
fn a_host_that_cannot_be_reached_rests_until_it_answers() {
    let (host, now) = host(8);
    let mut told = None;
    for _ in 0..LOST_IN_A_ROW {
        assert_eq!(told, None);
        assert!(host.has_room(now, false, true));
        told = host.lost(now, false);
    }
    let waits = host.lock().rest.expect("it rests").until - now;
    assert_eq!(told, Some(waits));
    assert!(waits <= FIRST_WAIT);
    let again = now + waits;
    assert!(host.enter(again, false, true));
    assert!(host.lost(again, false).is_some());
    assert!(host.lock().rest.expect("it rests again").everybody);
    host.answered(true);
    assert!(host.has_room(again, true, true), "whom it answers goes on");
}

#[test]
fn a_host_that_is_away_is_looked_for_often_enough_to_say_so_every_minute() {
    let hour = Duration::from_secs(3600);
    for seed in 0..20 {
        let host = Host::new(8, Rng::new(seed));
        let begun = Instant::now();
        let (mut now, mut told) = (begun, begun);
        host.answered(true);
        while let outage::Next::Again { failures, tell, .. } = host.unreachable(now, false, hour) {
            let silent = now - told;
            assert_eq!(tell, failures == 1 || silent >= Duration::from_secs(60));
            assert!(silent <= Duration::from_secs(60) + LONGEST_AWAY, "seed {seed}: silent for {silent:?}");
            told = if tell { now } else { told };
            now = host.lock().rest.map_or(now, |rest| rest.until.max(now));
        }
        assert_eq!(now - begun, hour, "seed {seed}: the last try is at the end");
    }
}

#[test]
fn room_is_that_of_hosts_with_work() {
    let mut ceilings = Ceilings::default();
    ceilings.set("a.example", 3);
    ceilings.set("b.example", 4);
    let hosts = Hosts::new(ceilings, Arc::default(), 100, 7);
    let now = Instant::now();
    assert_eq!(hosts.room(now), 1);
    let url = |text| Url::parse(text).expect("a URL");
    let (a, b) = (hosts.of(&url("http://a.example/x")), hosts.of(&url("http://b.example/x")));
    a.want(true);
    b.want(true);
    assert_eq!(hosts.room(now), 7);
    a.want(false);
    assert_eq!(hosts.room(now), 4);
    assert!(Arc::ptr_eq(&hosts.of(&url("http://b.example/other")), &b));
    assert!(!Arc::ptr_eq(&hosts.of(&url("https://b.example/other")), &b));
}
