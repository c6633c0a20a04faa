//! Connections that have proved nothing yet: how many are borne, and which one ends when there are too many.
//!
//! An honest peer proves itself within a few round trips; whoever floods has many connections, and they come from
//! somewhere. So connections are counted by [`Origin`], the origin that has most of them pays, and nobody pays
//! within a [`GRACE`] that an honest peer far away needs, but for origins that hold more than others. Where a
//! session runs, others wait behind: its new data streams come from there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::sys::clock::Instant;

/// Most unauthenticated peers at a time, however many descriptors there are: each has a thread.
const MAX_UNAUTHENTICATED_PEERS: usize = 1024;

/// Fewest of them that are worth listening for.
const MIN_UNAUTHENTICATED_PEERS: usize = 8;

/// One unauthenticated peer for so many descriptors. It takes two of them, so three quarters are left to sessions and files.
const DESCRIPTORS_A_UNAUTHENTICATED_PEERS: u64 = 8;

/// How long one is left alone: three round trips of a slow satellite link.
const GRACE: Duration = Duration::from_secs(2);

/// Where a connection comes from: an IPv4 address, or the 64 bits of an IPv6 address that one host chooses beneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    /// The origin of connections from `address`.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }
}

/// How many unauthenticated peers are borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    /// In all.
    total: usize,
    /// Of an origin with a session: it may dial many streams at once, and yet leaves half to others.
    proven: usize,
    /// Of any other origin.
    unproven: usize,
}

impl Caps {
    /// As a process with so many descriptors can bear.
    pub fn within(descriptors: u64) -> Self {
        let total = usize::try_from(descriptors / DESCRIPTORS_A_UNAUTHENTICATED_PEERS)
            .unwrap_or(MAX_UNAUTHENTICATED_PEERS);
        let total = total.clamp(MIN_UNAUTHENTICATED_PEERS, MAX_UNAUTHENTICATED_PEERS);
        Self { total, proven: total / 2, unproven: total / 4 }
    }
}

/// What becomes of a newcomer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    /// It may prove itself, and leaves by this number; `Some` must end for it.
    Welcome(u64, Option<T>),
    /// There is no room for it now.
    TurnedAway,
}

/// Everybody who has not proved himself, with what ends the connection.
#[derive(Debug)]
pub(crate) struct UnauthenticatedPeers<T> {
    caps: Caps,
    next: u64,
    /// By number, so the oldest first.
    all: BTreeMap<u64, UnauthenticatedPeer<T>>,
    by_origin: HashMap<Origin, BTreeSet<u64>>,
    /// How many sessions each origin has.
    sessions: HashMap<Origin, usize>,
}

#[derive(Debug)]
struct UnauthenticatedPeer<T> {
    origin: Origin,
    since: Instant,
    handle: T,
}

impl<T> UnauthenticatedPeers<T> {
    /// None yet.
    pub fn new(caps: Caps) -> Self {
        Self { caps, next: 0, all: BTreeMap::new(), by_origin: HashMap::new(), sessions: HashMap::new() }
    }

    /// Somebody connected.
    pub fn arrive(&mut self, origin: Origin, now: Instant, handle: T) -> Answer<T> {
        let payer = match self.room_for(origin, now) {
            Some(payer) => payer,
            None => return Answer::TurnedAway,
        };
        let ended = payer.and_then(|number| self.leave(number));
        let number = self.next;
        self.next += 1;
        self.all.insert(number, UnauthenticatedPeer { origin, since: now, handle });
        self.by_origin.entry(origin).or_default().insert(number);
        Answer::Welcome(number, ended)
    }

    /// One has proved itself, has failed to, or has left.
    pub fn leave(&mut self, number: u64) -> Option<T> {
        let peer = self.all.remove(&number)?;
        if let Some(numbers) = self.by_origin.get_mut(&peer.origin) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_origin.remove(&peer.origin);
            }
        }
        Some(peer.handle)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Descriptors have run out: one that must end, if there is any.
    pub(crate) fn relieve(&mut self, now: Instant) -> Option<T> {
        let origin = self.fullest_unproven().or_else(|| self.by_origin.keys().next().copied())?;
        let payer = self.payer_of(origin, now)?;
        self.leave(payer)
    }

    /// A peer at `origin` has proved itself and has a session.
    pub(crate) fn session_began(&mut self, origin: Origin) {
        *self.sessions.entry(origin).or_default() += 1;
    }

    /// That session is over.
    pub(crate) fn session_ended(&mut self, origin: Origin) {
        if let Some(count) = self.sessions.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&origin);
            }
        }
    }

    /// Whether a newcomer from `origin` may stay: who must leave for that, if anybody, or `None` if it may not.
    fn room_for(&self, origin: Origin, now: Instant) -> Option<Option<u64>> {
        let proven = self.is_proven(origin);
        let cap = if proven { self.caps.proven } else { self.caps.unproven };
        if self.count(origin) >= cap {
            // The oldest has had its time; younger ones may be honest and far away.
            return self.oldest_of(origin).filter(|&oldest| self.had_its_time(oldest, now)).map(Some);
        }
        if self.all.len() < self.caps.total {
            return Some(None);
        }
        if let Some(fullest) = self.fullest_unproven()
            && (proven || self.count(fullest) > self.count(origin) + 1)
        {
            return Some(self.payer_of(fullest, now));
        }
        let oldest = self.all.first_key_value().map(|(&number, _)| number)?;
        self.had_its_time(oldest, now).then_some(Some(oldest))
    }

    /// Which of an origin's unauthenticated peers ends: the oldest if it has had its time, else the one that came last, so that
    /// one who shares the origin with a flood and came before it may finish.
    fn payer_of(&self, origin: Origin, now: Instant) -> Option<u64> {
        let oldest = self.oldest_of(origin)?;
        match self.had_its_time(oldest, now) {
            true => Some(oldest),
            false => self.by_origin.get(&origin)?.last().copied(),
        }
    }

    fn fullest_unproven(&self) -> Option<Origin> {
        let unproven = self.by_origin.iter().filter(|(origin, _)| !self.is_proven(**origin));
        unproven.max_by_key(|(_, numbers)| numbers.len()).map(|(origin, _)| *origin)
    }

    fn is_proven(&self, origin: Origin) -> bool {
        self.sessions.contains_key(&origin)
    }

    fn count(&self, origin: Origin) -> usize {
        self.by_origin.get(&origin).map_or(0, BTreeSet::len)
    }

    fn oldest_of(&self, origin: Origin) -> Option<u64> {
        self.by_origin.get(&origin)?.first().copied()
    }

    fn had_its_time(&self, number: u64, now: Instant) -> bool {
        self.all.get(&number).is_some_and(|peer| now.saturating_duration_since(peer.since) >= GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    /// 64 in all, 32 of an origin with a session, 16 of any other.
    fn some() -> UnauthenticatedPeers<()> {
        UnauthenticatedPeers::new(Caps::within(512))
    }

    /// How many of `times` newcomers get in, one every `every`.
    fn flood(
        unauthenticated: &mut UnauthenticatedPeers<()>,
        origin: Origin,
        times: u32,
        start: Instant,
        every: Duration,
    ) -> u32 {
        let came = |i| matches!(unauthenticated.arrive(origin, start + i * every, ()), Answer::Welcome(..));
        (0..times).map(came).filter(|in_it| *in_it).count() as u32
    }

    #[test]
    fn addresses_of_one_host_are_one_origin() {
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    }

    #[test]
    fn few_descriptors_bear_few_strangers() {
        assert_eq!(Caps::within(256), Caps { total: 32, proven: 16, unproven: 8 });
        assert_eq!(Caps::within(0).total, MIN_UNAUTHENTICATED_PEERS);
        assert_eq!(
            Caps::within(1 << 20),
            Caps {
                total: MAX_UNAUTHENTICATED_PEERS,
                proven: MAX_UNAUTHENTICATED_PEERS / 2,
                unproven: MAX_UNAUTHENTICATED_PEERS / 4
            }
        );
        assert_eq!(Caps::within(u64::MAX).total, MAX_UNAUTHENTICATED_PEERS);
    }

    #[test]
    fn a_flood_from_one_address_ends_nobody_elsewhere() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        let Answer::Welcome(honest, None) = unauthenticated.arrive(at("10.0.0.1"), now, ()) else { panic!() };
        let came = flood(&mut unauthenticated, at("10.0.0.66"), 40_000, now, Duration::from_micros(250));
        // Ten seconds: its cap once every grace.
        assert!(came <= 16 * 6, "{came}");
        assert_eq!(unauthenticated.leave(honest), Some(()));
        // And one that comes in the midst of it gets in at once.
        let later = now + Duration::from_secs(11);
        assert!(matches!(unauthenticated.arrive(at("10.0.0.2"), later, ()), Answer::Welcome(_, None)));
    }

    #[test]
    fn when_all_is_full_the_address_with_most_pays() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        for host in 1..=4 {
            let origin = at(&format!("10.0.1.{host}"));
            assert_eq!(flood(&mut unauthenticated, origin, 100, now, Duration::ZERO), 16);
        }
        let Answer::Welcome(honest, Some(())) = unauthenticated.arrive(at("10.0.0.1"), now, ()) else {
            panic!("no room")
        };
        for host in 1..=4 {
            flood(&mut unauthenticated, at(&format!("10.0.1.{host}")), 1000, now, Duration::from_micros(250));
        }
        assert_eq!(unauthenticated.leave(honest), Some(()));
    }

    #[test]
    fn a_crowd_with_an_address_each_cannot_end_the_young() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        let Answer::Welcome(honest, None) = unauthenticated.arrive(at("10.0.0.1"), now, ()) else { panic!() };
        let crowd = |i: u32| Origin::of(IpAddr::from([172, 16, (i >> 8) as u8, i as u8]));
        for i in 0..4000 {
            unauthenticated.arrive(crowd(i), now + i * Duration::from_micros(250), ());
        }
        assert_eq!(unauthenticated.leave(honest), Some(()), "after a second");
        // Silent ones make room once they have had their time, for one that tries again.
        let later = now + GRACE + Duration::from_secs(1);
        assert!(
            matches!(unauthenticated.arrive(at("10.0.0.2"), later, ()), Answer::Welcome(_, None)),
            "honest's place"
        );
        assert!(matches!(unauthenticated.arrive(at("10.0.0.3"), later, ()), Answer::Welcome(_, Some(()))));
    }

    #[test]
    fn silent_neighbours_make_room_after_their_time() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        assert_eq!(flood(&mut unauthenticated, at("10.0.0.1"), 100, now, Duration::ZERO), 16);
        assert_eq!(unauthenticated.arrive(at("10.0.0.1"), now + GRACE / 2, ()), Answer::TurnedAway);
        let answer = unauthenticated.arrive(at("10.0.0.1"), now + GRACE, ());
        assert_eq!(answer, Answer::Welcome(16, Some(())));
    }

    #[test]
    fn where_a_session_runs_streams_find_room() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        for i in 0..200 {
            unauthenticated.arrive(Origin::of(IpAddr::from([172, 16, 0, i])), now, ());
        }
        let home = at("10.0.0.1");
        assert_eq!(unauthenticated.arrive(home, now, ()), Answer::TurnedAway);
        unauthenticated.session_began(home);
        unauthenticated.session_began(home);
        unauthenticated.session_ended(home);
        assert_eq!(flood(&mut unauthenticated, home, 100, now, Duration::ZERO), 32);
        // It leaves half to others all the same.
        assert_eq!(unauthenticated.all.len(), 64);
        unauthenticated.session_ended(home);
        assert!(!unauthenticated.is_proven(home) && unauthenticated.sessions.is_empty());
    }

    #[test]
    fn out_of_descriptors_the_fullest_address_pays() {
        let (mut unauthenticated, now) = (some(), Instant::now());
        assert_eq!(unauthenticated.relieve(now), None);
        unauthenticated.session_began(at("10.0.0.1"));
        for host in ["10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3"] {
            unauthenticated.arrive(at(host), now, ());
        }
        assert_eq!(unauthenticated.relieve(now), Some(()));
        assert_eq!(unauthenticated.count(at("10.0.0.3")), 1);
        for _ in 0..5 {
            assert_eq!(unauthenticated.relieve(now), Some(()));
        }
        assert!(unauthenticated.all.is_empty() && unauthenticated.by_origin.is_empty());
    }
}
