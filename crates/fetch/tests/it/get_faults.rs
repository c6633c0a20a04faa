//! Downloads under random faults, sizes and set-points: every file ends verified, or failed for a reason
//! that is true, and nothing else ever bears a final name.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::in_memory::{Item, Place, Rules, World, declared, drive, record, seeds, start};
use tidegate_control::{Concurrency, Environment, Rng};
use tidegate_fetch::remote::Why;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::manifest::{BLOCK, SEGMENT};

/// How a file may end.
struct Expected {
    /// What it may contain, if it arrives.
    contents: Vec<Item>,
    /// Whether it must arrive; else it must fail, in one of these ways.
    kinds: Vec<ErrorKind>,
    must_fail: bool,
}

fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[usize::from(rng.integer(0, of.len() as u16 - 1))].clone()
}

fn size(rng: &mut Rng) -> u64 {
    match rng.integer(0, 9) {
        0 => 0,
        1 => 1,
        2..=5 => rng.log_uniform(1.0, 300_000.0) as u64,
        6..=8 => rng.log_uniform(300_000.0, 6e6) as u64,
        _ => rng.log_uniform(6e6, 3e7) as u64,
    }
}

#[test]
fn every_file_ends_verified_or_failed_for_a_true_reason() {
    for seed in seeds(4) {
        println!("seed {seed}");
        one_world(seed);
    }
}

fn one_world(seed: u64) {
    let mut rng = Rng::new(seed);
    let (world, place) = (World::new(rng.next_u64()), Place::new());
    let hosts = ["a", "b", "c"];
    for host in hosts {
        let rules = Rules {
            rate: pick(&mut rng, &[None, Some(20 << 20), Some(60 << 20)]),
            latency: Duration::from_micros(rng.next_u64() % 3000),
            bears: pick(&mut rng, &[None, None, Some(2), Some(5)]),
            retry_after: pick(&mut rng, &[None, Some(Duration::from_millis(100))]),
            breaks: pick(&mut rng, &[None, Some(25), Some(60)]),
            drops: pick(&mut rng, &[None, Some(12), Some(40)]),
            ..Rules::default()
        };
        println!("{host}: {rules:?}");
        world.rules(host, rules);
    }
    let mut records = Vec::new();
    let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
    for i in 0..rng.integer(20, 60) {
        let path = format!("d{}/f{i}", i % 3);
        let item = Item::new(u64::from(i) + 1, size(&mut rng));
        let mut urls: Vec<String> =
            hosts.iter().filter(|_| rng.unit() < 0.5).map(|host| format!("http://{host}/{i}")).collect();
        if urls.is_empty() {
            urls.push(format!("http://a/{i}"));
        }
        let names: Vec<&str> = urls.iter().map(String::as_str).collect();
        let mut wanted =
            if rng.unit() < 0.6 { declared(&path, &names, &item) } else { record(&path, &names) };
        // Changes and wrong mirrors are told apart only where something is declared; a server's fault may
        // outlast the tries of any file.
        let mut fate = Expected {
            contents: vec![item.clone()],
            kinds: vec![ErrorKind::Connection, ErrorKind::Busy],
            must_fail: false,
        };
        let ranges = rng.unit() < 0.8;
        let sized = ranges || rng.unit() < 0.5;
        for url in &urls {
            world.put(url, Item { ranges, sized, ..item.clone() });
        }
        let has_sums = !wanted.checksums.is_empty();
        match rng.integer(0, 11) {
            0 => {
                urls.iter()
                    .for_each(|url| world.put(url, Item { refuses: Some(Why::Missing), ..item.clone() }));
                fate.kinds.push(ErrorKind::NotFound);
                fate.must_fail = true;
            }
            1 if has_sums && item.bytes > 0 => {
                // One mirror has other bytes of the same size.
                world.put(&urls[0], Item { seed: item.seed + 500, ..item.clone() });
                fate.kinds.push(ErrorKind::Corrupt);
                fate.must_fail = urls.len() == 1;
            }
            2 if !has_sums && ranges => {
                let changes_every = Some(rng.next_u64() % 4 + 2);
                urls.truncate(1);
                wanted.urls.truncate(1);
                world.put(&urls[0], Item { changes_every, ..item.clone() });
                fate.contents =
                    (0..40).map(|k| Item { seed: item.seed + 1000 * k, ..item.clone() }).collect();
                fate.kinds.push(ErrorKind::Changed);
            }
            3 => {
                wanted.bytes = Some(item.bytes + 1);
                fate.kinds.push(ErrorKind::Corrupt);
                fate.must_fail = true;
            }
            _ => {}
        }
        records.push(wanted);
        expected.insert(path, fate);
    }
    let total = records.len();
    let (mut download, told) = start(&world, &place, records, |settings| {
        settings.seed = seed;
        settings.max_workers = 16;
    });
    drive(&mut download, |i| [1, 4, 16, 2, 9][(i + seed as usize) % 5]).unwrap();
    let totals = download.ledger().totals();
    drop(download);
    let told = told.lock();
    assert_eq!(told.done.len() + told.failed.len(), total);
    assert_eq!((totals.files_done, totals.files_failed), (told.done.len() as u64, told.failed.len() as u64));
    for (path, fate) in &expected {
        match (place.read(path), told.failed.get(path)) {
            (Some(bytes), None) => {
                assert!(!fate.must_fail, "{path} should have failed");
                assert!(fate.contents.iter().any(|item| item.content() == bytes), "{path} has wrong bytes");
                assert_eq!(told.done[path].bytes, bytes.len() as u64);
            }
            (None, Some(error)) => assert!(fate.kinds.contains(&error.kind), "{path}: {error:?}"),
            (there, failed) => panic!("{path}: there {}, failed {failed:?}", there.is_some()),
        }
    }
    let strangers: Vec<_> = place
        .names()
        .into_iter()
        .filter(|name| !name.starts_with(".tidegate/") && !told.done.contains_key(name))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn stops_at_any_moment_cost_no_more_than_what_was_in_flight() {
    for seed in seeds(2) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (world, place) = (World::new(seed), Place::new());
        world.rules("h", Rules { rate: Some(12 << 20), ..Rules::default() });
        let mut items = BTreeMap::new();
        for i in 0..6u64 {
            let bytes = pick(&mut rng, &[100_000, 9 << 20, (30 << 20) + 7]);
            let item = Item::new(i + 1, bytes);
            world.put(&format!("http://h/{i}"), item.clone());
            items.insert(i.to_string(), (item, rng.unit() < 0.5));
        }
        let records = || {
            let record = |(path, (item, sums)): (&String, &(Item, bool))| {
                let url = format!("http://h/{path}");
                if *sums { declared(path, &[&url], item) } else { record(path, &[&url]) }
            };
            items.iter().map(record).collect::<Vec<_>>()
        };
        let workers = 4u64;
        let mut stops = 0;
        loop {
            let (mut download, told) = start(&world, &place, records(), |settings| {
                settings.max_workers = workers as u16;
                settings.staging = tidegate_control::ByteCount::mib(1);
            });
            let steps = if stops < 5 { rng.integer(1, 25) } else { u16::MAX };
            let mut over = false;
            for _ in 0..steps {
                let setpoint = Concurrency { read: 1, network: workers as u16, write: 2 };
                over = download.step(setpoint).expect("no error").is_none();
                if over {
                    break;
                }
            }
            drop(download);
            let told = told.lock();
            assert!(told.failed.is_empty(), "{told:?}");
            if over {
                assert_eq!(told.done.len() + told.skipped.len(), items.len());
                break;
            }
            stops += 1;
        }
        for (path, (item, _)) in &items {
            assert!(place.read(path) == Some(item.content()), "{path} has wrong bytes");
        }
        let wanted: u64 = items.values().map(|(item, _)| item.bytes).sum();
        let served = world.served("h").bytes.load(Relaxed);
        // Each worker may have begun a segment or two, and has a block in its hands; so may the staging.
        let lost = workers * (2 * SEGMENT + BLOCK) + (2 << 20);
        assert!(served <= wanted + stops * lost, "{served} bytes for {wanted}, with {stops} stops");
        assert!(!place.path().join(".tidegate").exists(), "nothing is left over");
    }
}
