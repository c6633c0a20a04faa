//! Servers that go away and come back, and such as never were there.

use std::time::{Duration, Instant};

use crate::common::in_memory::{Item, Place, Rules, World, drive, record, start};
use tidegate_control::{Concurrency, Environment};
use tidegate_transfer::error::ErrorKind;

const MIB: u64 = 1 << 20;

fn down() -> Rules {
    Rules { down: true, ..Rules::default() }
}

#[test]
fn a_server_that_was_there_is_waited_for_longer_than_its_files_are_tried_again() {
    let (world, place) = (World::new(1), Place::new());
    let items: Vec<Item> = (0..6).map(|i| Item::new(i, 20 * MIB)).collect();
    let url = |i: usize| format!("http://h/{i}");
    items.iter().enumerate().for_each(|(i, item)| world.put(&url(i), item.clone()));
    let slow = Rules { rate: Some(4 * MIB), ..Rules::default() };
    world.rules("h", slow);
    let records = (0..items.len()).map(|i| record(&i.to_string(), &[&url(i)])).collect();
    let (mut download, told) = start(&world, &place, records, |settings| {
        settings.retries = 1;
        settings.retry_for = Duration::from_secs(100);
    });
    let some = Concurrency { read: 1, network: 4, write: 2 };
    while download.ledger().totals().bytes_moved < MIB {
        download.step(some).expect("no error").expect("not the end");
    }
    world.rules("h", down());
    let back = Instant::now() + Duration::from_secs(3);
    while Instant::now() < back {
        download.step(some).expect("no error").expect("not the end");
    }
    world.rules("h", Rules::default());
    drive(&mut download, |_| 4).expect("no error");
    drop(download);
    let told = told.lock();
    assert_eq!((told.done.len(), told.failed.len()), (6, 0), "{:?}", told.failed);
}

#[test]
fn a_server_that_never_was_there_and_one_that_stays_away_are_given_up() {
    for was_there in [false, true] {
        let (world, place) = (World::new(1), Place::new());
        world.put("http://h/a", Item::new(1, 64 * MIB));
        world.rules("h", if was_there { Rules { rate: Some(4 * MIB), ..Rules::default() } } else { down() });
        let (mut download, told) = start(&world, &place, vec![record("a", &["http://h/a"])], |settings| {
            settings.retry_for = Duration::from_secs(1);
        });
        while was_there && download.ledger().totals().bytes_moved < MIB {
            download
                .step(Concurrency { read: 1, network: 2, write: 1 })
                .expect("no error")
                .expect("not the end");
        }
        world.rules("h", down());
        drive(&mut download, |_| 4).expect("no error");
        drop(download);
        let told = told.lock();
        let error = told.failed.get("a").unwrap_or_else(|| panic!("{told:?}"));
        assert_eq!(error.kind, ErrorKind::Connection);
        assert!(error.message.contains("(given up after "), "{error}");
    }
}
