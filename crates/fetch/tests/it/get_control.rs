//! What the control loop asks of a download, and what survives its end.

use crate::common::in_memory as scripted;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::common::in_memory::{
    Item, Place, Rules, World, declared, drive, get, named, record, slow_file, start, start_with,
};
use tidegate_control::{BitRate, Bounds, Concurrency, Environment};
use tidegate_fetch::get::{Download, DownloadSettings};
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_fetch::host::held::HeldCeilings;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::transfer::Paced;

const MIB: u64 = 1 << 20;

fn step(download: &mut Paced<Download>, n: u16) {
    download.step(Concurrency { read: 1, network: n, write: 2 }).expect("no error").expect("not the end");
}

/// Steps until `what` comes true.
fn until(download: &mut Paced<Download>, n: u16, what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !what() {
        assert!(Instant::now() < end, "it never came true");
        step(download, n);
    }
}

#[test]
fn a_setpoint_takes_effect_in_the_middle_of_a_file() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 400 * MIB);
    world.put("http://h/f", item.clone());
    // A claim takes far longer than the test waits: only giving work back can free a worker.
    world.rules("h", Rules { rate: Some(MIB), ..Rules::default() });
    let (mut download, _) = start(&world, &place, vec![record("f", &["http://h/f"])], |_| {});
    let served = world.served("h");
    until(&mut download, 8, || served.active.load(Relaxed) == 8);
    until(&mut download, 2, || served.active.load(Relaxed) == 2);
    until(&mut download, 5, || served.active.load(Relaxed) == 5);
    let seen = download.step(Concurrency { read: 1, network: 5, write: 1 }).unwrap().unwrap();
    assert_eq!(seen.concurrency, Concurrency { read: 1, network: 5, write: 1 });
    assert_eq!(seen.throughput.read, seen.throughput.network);
    assert_eq!(seen.staging_free.sender, seen.staging_capacity.sender);
    assert!(seen.throughput.network > BitRate::ZERO && seen.loss.is_none() && seen.rtt.is_none());
    let watch = download.watch();
    until(&mut download, 5, || watch.active()[0].done > 0);
    let active = download.active();
    assert_eq!((active.len(), active[0].bytes), (1, Some(item.bytes)));
}

#[test]
fn a_worker_that_is_not_needed_any_more_closes_its_connection() {
    let (world, place) = (World::new(1), Place::new());
    // Parts that end soon leave connections that could be used again.
    for i in 0..40 {
        world.put(&format!("http://h/{i}"), Item::new(i, 64 * MIB));
    }
    world.rules("h", Rules { rate: Some(16 * MIB), ..Rules::default() });
    let records = (0..40).map(|i| record(&i.to_string(), &[&format!("http://h/{i}")])).collect();
    let (mut download, _) = start(&world, &place, records, |_| {});
    until(&mut download, 8, || world.connections.load(Relaxed) == 8);
    until(&mut download, 2, || world.connections.load(Relaxed) == 2);
    // One that is needed again opens another.
    until(&mut download, 5, || world.connections.load(Relaxed) == 5);
}

#[test]
fn bounds_are_what_hosts_with_work_bear() {
    let (world, place) = (World::new(1), Place::new());
    let mut ceilings = Ceilings::default();
    ceilings.set("a", 3);
    ceilings.set("b", 4);
    for host in ["a", "b"] {
        world.put(&format!("http://{host}/f"), Item::new(5, 4 * MIB));
        world.rules(host, Rules { rate: Some(MIB), ..Rules::default() });
    }
    let records = vec![record("a", &["http://a/f"]), record("b", &["http://b/f"])];
    let (mut download, _) = start(&world, &place, records, |settings| settings.ceilings = ceilings);
    let watch = download.watch();
    until(&mut download, 32, || watch.active().len() == 2);
    let bounds = download.bounds();
    assert_eq!((bounds.read, bounds.network), (Bounds::fixed(1), Bounds::new(1, 7)));
    assert_eq!(bounds.write, Bounds::new(1, 32));
    until(&mut download, 32, || world.served("a").active.load(Relaxed) == 3);
    assert_eq!(world.served("a").most.load(Relaxed), 3);
}

#[test]
fn open_connections_and_the_first_set_point_keep_to_what_a_host_bears() {
    let (world, place) = (World::new(1), Place::new());
    let mut ceilings = Ceilings::default();
    ceilings.set("a", 3);
    ceilings.set("b", 9);
    // Workers that are told of both hosts in turn would each keep a connection to either.
    let mut records = Vec::new();
    for i in 0..120 {
        let url = format!("http://{}/{i}", if i % 2 == 0 { "a" } else { "b" });
        world.put(&url, Item::new(i, 40_000));
        records.push(record(&i.to_string(), &[&url]));
    }
    for host in ["a", "b"] {
        world.rules(host, Rules { latency: Duration::from_millis(3), ..Rules::default() });
    }
    let (mut download, told) = start(&world, &place, records, |settings| settings.ceilings = ceilings);
    let first = download.bounds().network.max;
    assert!((3..=12).contains(&first), "{first} before the first set-point");
    drive(&mut download, |_| 12).unwrap();
    assert_eq!(told.lock().done.len(), 120);
    for (host, ceiling) in [("a", 3), ("b", 9)] {
        let most = world.served(host).most_open.load(Relaxed);
        assert!((1..=ceiling).contains(&most), "{most} were open to {host} at once");
    }
}

#[test]
fn before_anything_is_known_of_hosts_there_are_few_connections() {
    let (world, place) = (World::new(1), Place::new());
    let (send, names) = std::sync::mpsc::channel();
    world.put("http://a/f", Item::new(5, 1000));
    let mut ceilings = Ceilings::default();
    ceilings.set("a", 8);
    let names = Box::new(names.into_iter().flat_map(|one| named(vec![one])));
    let (mut download, _) = start_with(&world, &place, names, |settings| settings.ceilings = ceilings);
    assert_eq!(download.bounds().network, Bounds::new(1, 4), "as while an archive is asked");
    send.send(record("f", &["http://a/f"])).expect("heard");
    let end = Instant::now() + Duration::from_secs(60);
    while download.bounds().network.max != 8 {
        assert!(Instant::now() < end, "the host is known");
    }
    drop(send);
    drive(&mut download, |_| 8).unwrap();
}

#[test]
fn a_server_that_refuses_above_a_number_gets_that_number_and_the_next_run_begins_there() {
    for bears in [6, 10, 20] {
        let (world, place) = (World::new(1), Place::new());
        let items: Vec<_> = (0..40).map(|i| (i.to_string(), Item::new(i, 2 * MIB))).collect();
        for (name, item) in &items {
            world.put(&format!("http://h/{name}"), item.clone());
        }
        let rules = Rules { bears: Some(bears), rate: Some(4 * MIB), ..Rules::default() };
        world.rules("h", rules);
        let declared = |(name, item): &(String, Item)| declared(name, &[&format!("http://h/{name}")], item);
        let records = items.iter().map(declared).collect();
        let held = Arc::new(HeldCeilings::default());
        let (mut download, told) = start(&world, &place, records, |settings| {
            settings.held = Arc::clone(&held);
        });
        drive(&mut download, |_| 32).unwrap();
        assert_eq!(told.lock().done.len(), items.len(), "bears {bears}");
        for (name, item) in &items {
            assert!(place.read(name) == Some(item.content()), "{name}, bears {bears}");
        }
        let noted = held.noted();
        let [(server, bore)] = &noted[..] else { panic!("one server has pushed back: {noted:?}") };
        assert_eq!(server, "h:80");
        // Halved once; and again where first bytes come late, as on a machine that is busy.
        assert!((bears / 4..=bears).contains(&usize::from(*bore)), "{bore} of {bears}");
        // Those that asked before the first was refused, and hardly any after.
        let refused = world.served("h").busy.load(Relaxed);
        assert!(refused <= 32, "{refused} were refused by who bears {bears}");

        // The next run is allowed no more to begin with.
        let next = Place::new();
        let records = items.iter().map(declared).collect();
        let (mut download, _) = start(&world, &next, records, |settings| {
            settings.held = Arc::new(HeldCeilings::new(noted.clone()));
        });
        let watch = download.watch();
        until(&mut download, 32, || !watch.active().is_empty());
        assert_eq!(download.bounds().network, Bounds::new(1, *bore), "bears {bears}");
    }
}

#[test]
fn a_server_that_only_answers_later_when_more_is_asked_of_it_is_asked_for_less() {
    let (world, place) = (World::new(1), Place::new());
    let items: Vec<_> = (0..120).map(|i| (i.to_string(), Item::new(i, MIB / 4))).collect();
    for (name, item) in &items {
        world.put(&format!("http://h/{name}"), item.clone());
    }
    let crowd = Some((4, Duration::from_millis(300)));
    world.rules(
        "h",
        Rules { rate: Some(4 * MIB), latency: Duration::from_millis(20), crowd, ..Rules::default() },
    );
    let records = items.iter().map(|(name, _)| record(name, &[&format!("http://h/{name}")])).collect();
    let held = Arc::new(HeldCeilings::default());
    let (mut download, told) = start(&world, &place, records, |settings| settings.held = Arc::clone(&held));
    let served = world.served("h");
    drive(&mut download, |_| if served.opens.load(Relaxed) < 30 { 4 } else { 16 }).unwrap();
    assert_eq!(told.lock().done.len(), items.len());
    let noted = held.noted();
    let [(server, bears)] = &noted[..] else { panic!("it has pushed back: {noted:?}") };
    assert!(server == "h:80" && (4..=8).contains(bears), "{noted:?}");
    assert_eq!(served.busy.load(Relaxed), 0, "and has refused nothing");
}

#[test]
fn an_idle_connection_takes_half_of_the_last_part() {
    let (world, place, item) = slow_file();
    let (mut download, told) = start(&world, &place, vec![record("f", &["http://h/f"])], |_| {});
    drive(&mut download, |_| 4).unwrap();
    assert_eq!(told.lock().done.len(), 1);
    assert!(place.read("f") == Some(item.content()));
    let asked = world.asked.lock();
    assert!(asked.len() >= 3, "{asked:?}");
    assert!(asked.iter().any(|(_, range)| range.start > 0 && range.end == 8 * MIB), "{asked:?}");
    let again = download.ledger().totals().bytes_again;
    assert_eq!(again, 0, "what is taken is fetched once");
}

#[test]
fn a_connection_that_falls_silent_holds_up_nobody() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 16 * MIB);
    world.put("http://h/f", item.clone());
    world.rules("h", Rules { silent: Some(2), ..Rules::default() });
    let (mut download, told) = start(&world, &place, vec![declared("f", &["http://h/f"], &item)], |_| {});
    let begun = Instant::now();
    drive(&mut download, |_| 4).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(50), "it waited for the silent one");
    assert_eq!(told.lock().done.len(), 1);
    assert!(place.read("f") == Some(item.content()));
}

#[test]
fn offsets_beyond_32_bits_are_right() {
    let (world, place) = (World::new(1), Place::new());
    let bytes = (4 << 30) + 5 * MIB + 1;
    world.put("http://h/f", Item::new(0, bytes));
    let (mut download, told) = start(&world, &place, vec![record("f", &["http://h/f"])], |settings| {
        settings.chunk = Some(tidegate_control::ByteCount::mib(64));
    });
    drive(&mut download, |_| 4).unwrap();
    assert_eq!(told.lock().done["f"].bytes, bytes);
    let there = std::fs::metadata(place.path().join("f")).unwrap();
    assert_eq!(there.len(), bytes);
    use std::os::unix::fs::MetadataExt;
    assert!(there.blocks() * 512 < bytes / 100, "zeros take no room");
}

#[test]
fn small_files_share_a_connection_and_large_ones_are_split() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 64 * MIB);
    world.put("http://h/large", item.clone());
    let mut records = vec![declared("large", &["http://h/large"], &item)];
    for i in 0..100 {
        let small = Item::new(i + 10, 1000 + i);
        let url = format!("http://h/{i}");
        world.put(&url, small.clone());
        records.push(record(&i.to_string(), &[&url]));
    }
    let told = get(&world, &place, records);
    assert_eq!(told.done.len(), 101, "{told:?}");
    let asked = world.asked.lock();
    assert_eq!(asked.iter().filter(|(url, _)| !url.ends_with("large")).count(), 100, "one request each");
    let parts = asked.iter().filter(|(url, _)| url.ends_with("large"));
    assert!(parts.clone().count() >= 8, "{:?}", parts.collect::<Vec<_>>());
}

#[test]
fn without_chunks_a_file_stays_with_one_connection() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 30 * MIB + 3);
    let mut records = Vec::new();
    for name in ["a", "b", "c"] {
        let url = format!("http://h/{name}");
        world.put(&url, item.clone());
        records.push(declared(name, &[&url], &item));
    }
    let (mut download, told) = start(&world, &place, records, |settings| settings.chunk = None);
    drive(&mut download, |_| 8).unwrap();
    assert_eq!(told.lock().done.len(), 3);
    assert_eq!(world.served("h").opens.load(Relaxed), 3);
    assert!(place.read("c") == Some(item.content()));
}

#[test]
fn without_pipelining_each_file_has_a_connection_of_its_own() {
    for (pipelining, wanted) in [(true, 2), (false, 12)] {
        let (world, place) = (World::new(1), Place::new());
        let mut records = Vec::new();
        for i in 0..12 {
            let url = format!("http://h/{i}");
            world.put(&url, Item::new(i, 3000));
            records.push(record(&i.to_string(), &[&url]));
        }
        let (mut download, told) = start(&world, &place, records, |settings| {
            (settings.pipelining, settings.chunk) = (pipelining, None);
        });
        drive(&mut download, |_| 2).unwrap();
        assert_eq!(told.lock().done.len(), 12);
        let made = world.served("h").made.load(Relaxed);
        assert!(if pipelining { made <= wanted } else { made == wanted }, "{made} connections");
        assert!(world.served("h").most_open.load(Relaxed) <= 2);
    }
}

#[test]
fn what_was_safe_when_it_was_stopped_is_not_fetched_again() {
    for sums in [true, false] {
        let (world, place) = (World::new(1), Place::new());
        let item = Item::new(5, 96 * MIB);
        world.put("http://h/f", item.clone());
        world.rules("h", Rules { rate: Some(16 * MIB), ..Rules::default() });
        let records = || match sums {
            true => vec![declared("f", &["http://h/f"], &item)],
            false => vec![record("f", &["http://h/f"])],
        };
        let (mut download, _) = start(&world, &place, records(), |_| {});
        until(&mut download, 4, || world.served("h").bytes.load(Relaxed) > 48 * MIB);
        let ledger = Arc::clone(download.ledger());
        drop(download);
        assert!(place.read("f").is_none() && place.path().join(".tidegate").exists());
        let kept = ledger.bytes_unfinished();
        assert!((4 * MIB..96 * MIB).contains(&kept), "{kept} bytes are said to be kept");
        // Stopped before it has gone on, it keeps as much.
        world.rules(
            "h",
            Rules { rate: Some(16 * MIB), latency: Duration::from_millis(300), ..Rules::default() },
        );
        let (mut download, _) = start(&world, &place, records(), |_| {});
        let ledger = Arc::clone(download.ledger());
        until(&mut download, 1, || ledger.totals().files_listed == 1);
        drop(download);
        assert!(ledger.bytes_unfinished() >= kept, "{} of {kept} bytes", ledger.bytes_unfinished());
        world.rules("h", Rules::default());
        let before = world.served("h").bytes.load(Relaxed);
        let told = get(&world, &place, records());
        assert_eq!(told.done.len(), 1, "{told:?}");
        assert!(place.read("f") == Some(item.content()));
        let fetched = world.served("h").bytes.load(Relaxed) - before;
        let most = item.bytes - kept + 16 * MIB;
        assert!(fetched <= most, "{fetched} bytes were fetched again, and {kept} kept");
        assert!(!place.path().join(".tidegate").exists(), "nothing is left over");
        // The same, but the file has changed meanwhile.
        let (world, place) = (World::new(1), Place::new());
        world.put("http://h/f", item.clone());
        world.rules("h", Rules { rate: Some(16 * MIB), ..Rules::default() });
        let (mut download, _) = start(&world, &place, records(), |_| {});
        until(&mut download, 4, || world.served("h").bytes.load(Relaxed) > 48 * MIB);
        drop(download);
        let other = Item::new(6, 96 * MIB);
        world.put("http://h/f", other.clone());
        let told = get(&world, &place, records());
        if sums {
            assert_eq!(told.failed["f"].kind, ErrorKind::Corrupt);
            assert!(place.read("f").is_none());
        } else {
            assert!(place.read("f") == Some(other.content()), "bytes of two versions are mixed");
        }
    }
}

#[test]
fn what_got_its_name_just_before_a_crash_is_recognised() {
    // Nothing is remembered but the journal, which is kept because one file is not complete.
    let (world, mut place) = (World::new(1), Place::new());
    place.memory = tidegate_fetch::get::memory::none();
    let item = Item::new(5, 6 * MIB);
    world.put("http://quick/a", item.clone());
    world.put("http://slow/b", item.clone());
    world.rules("slow", Rules { rate: Some(MIB / 2), ..Rules::default() });
    let records = || vec![record("a", &["http://quick/a"]), record("b", &["http://slow/b"])];
    let (mut download, told) = start(&world, &place, records(), |_| {});
    until(&mut download, 2, || told.lock().done.contains_key("a"));
    drop(download);
    world.rules("slow", Rules::default());
    let opens = world.served("quick").opens.load(Relaxed);
    let told = get(&world, &place, records());
    assert_eq!((told.skipped.len(), told.done.len()), (1, 1), "{told:?}");
    assert_eq!(world.served("quick").opens.load(Relaxed), opens, "no bytes were asked for");
    assert!(place.read("a") == Some(item.content()) && place.read("b") == Some(item.content()));
    assert!(!place.path().join(".tidegate").exists(), "nothing is left over");
}

#[test]
fn an_interrupt_ends_a_step_and_keeps_what_is_safe() {
    let (world, place) = (World::new(1), Place::new());
    world.put("http://h/f", Item::new(5, 64 * MIB));
    world.rules("h", Rules { rate: Some(4 * MIB), ..Rules::default() });
    let mut interrupt = None;
    let (mut download, _) = start(&world, &place, vec![record("f", &["http://h/f"])], |settings| {
        interrupt = Some(settings.interrupt.clone());
    });
    step(&mut download, 4);
    interrupt.unwrap().raise();
    let error = download.step(Concurrency { read: 1, network: 4, write: 1 }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Interrupted);
    // The journal is free while the download still exists.
    let (next, _) = start(&world, &place, Vec::new(), |_| {});
    drop(next);
    drop(download);
}

#[test]
fn a_list_is_read_no_further_than_work_is_needed() {
    let (world, place) = (World::new(1), Place::new());
    let count = if testkit::is_long() { 1_000_000 } else { 5_000 };
    let token = Arc::new(std::collections::BTreeMap::new());
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for seed in 0..10 {
        world.put(&format!("http://h/{seed}"), Item::new(seed, 0));
    }
    let names = {
        let (token, most) = (Arc::clone(&token), Arc::clone(&most));
        (0..count).map(move |i| {
            let mut record = record(&format!("{}/{i}", i % 100), &[&format!("http://h/{}", i % 10)]);
            record.meta = Arc::clone(&token);
            most.fetch_max(Arc::strong_count(&token), Relaxed);
            tidegate_fetch::record::Named::Record(Box::new(record))
        })
    };
    let settings = place.settings();
    let remotes = Arc::new(scripted::Servers(Arc::clone(&world)));
    let mut download = Download::start(Box::new(names), remotes, settings, Box::new(|_| {})).unwrap();
    // Nobody asks for anything yet: no more is read than may be under way.
    std::thread::sleep(Duration::from_millis(300));
    drive(&mut download, |_| 4).unwrap();
    assert_eq!(download.ledger().totals().files_done, count);
    let most = most.load(Relaxed);
    assert!((1000..1100).contains(&most), "{most} records were held at once");
}

#[test]
fn rates_are_kept() {
    let (world, place) = (World::new(1), Place::new());
    world.put("http://h/f", Item::new(5, 4 * MIB));
    let (mut download, told) = start(&world, &place, vec![record("f", &["http://h/f"])], |settings| {
        settings.limits.link = Some(BitRate::mbps(64));
        settings.limits.network = Some(BitRate::mbps(48));
        settings.limits.write = Some(BitRate::mbps(200));
    });
    let begun = Instant::now();
    drive(&mut download, |_| 4).unwrap();
    // 33.5 Mbit at 64 Mbit/s in all.
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert_eq!(told.lock().done.len(), 1);
}

#[test]
fn an_output_directory_that_does_not_stay_is_no_success() {
    type Fate = fn(&Path);
    let elsewhere = |directory: &Path| directory.with_file_name("elsewhere");
    let fates: [(&str, Fate); 4] = [
        ("moved", |directory| std::fs::rename(directory, directory.with_file_name("elsewhere")).unwrap()),
        ("removed", |directory| {
            while directory.exists() {
                let _ = std::fs::remove_dir_all(directory);
            }
        }),
        ("replaced by a file", |directory| {
            std::fs::rename(directory, directory.with_file_name("elsewhere")).unwrap();
            std::fs::write(directory, "a file").unwrap();
        }),
        ("replaced", |directory| {
            std::fs::rename(directory, directory.with_file_name("elsewhere")).unwrap();
            std::fs::create_dir(directory).unwrap();
        }),
    ];
    // While a file comes, and after the last has its name.
    for (name, befalls) in fates {
        for late in [false, true] {
            let (world, place) = (World::new(1), Place::new());
            world.put("http://h/first", Item::new(5, 1000));
            world.put("http://h/second", Item::new(6, MIB));
            world.rules("h", Rules { rate: Some(4 * MIB), ..Rules::default() });
            let out = place.path().join("out");
            std::fs::create_dir(&out).unwrap();
            let records = ["first", "second"].map(|name| record(name, &[&format!("http://h/{name}")]));
            let (mut download, told) = start(&world, &place, records.into(), |settings| {
                let made = DownloadSettings::new(out.as_os_str().as_bytes()).unwrap();
                (settings.out, settings.base, settings.typed) = (made.out, made.base, made.typed);
            });
            let done = || told.lock().done.len();
            until(&mut download, 1, || done() == 1);
            if late {
                while done() < 2 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            befalls(&out);
            let error = drive(&mut download, |_| 2).expect_err(name);
            let message = &error.message;
            assert_eq!(error.kind, ErrorKind::Changed, "{name}: {message}");
            assert!(
                message.contains("out was moved or replaced") && message.ends_with("start again"),
                "{message}"
            );
            drop(download);
            let kept = elsewhere(&out).join("first");
            assert!(name == "removed" || kept.exists(), "{name}");
        }
    }
}
