//! What happens to a download's files between two runs, or beside a run, is never published.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::common::in_memory::{Item, Place, Rules, World, drive, record, start};
use tidegate_control::{Concurrency, Environment};

const SETPOINT: Concurrency = Concurrency { read: 1, network: 2, write: 2 };

/// The unfinished files of `place`.
fn parts(place: &Place) -> Vec<PathBuf> {
    let all = place.path().join(".tidegate");
    let names =
        place.names().into_iter().filter_map(|name| Some(name.strip_prefix(".tidegate/")?.to_owned()));
    names.filter(|name| !name.ends_with("journal")).map(|name| all.join(name)).collect()
}

#[test]
fn what_is_continued_is_read_again_and_damage_in_it_is_fetched_again() {
    // Nothing says what the file must sum up to: only what was written down of it can tell.
    for zeros in [false, true] {
        let (world, place) = (World::new(3), Place::new());
        world.rules("h", Rules { rate: Some(24 << 20), ..Rules::default() });
        let item = Item::new(1, (48 << 20) + 7);
        world.put("http://h/file", item.clone());
        let records = || vec![record("file", &["http://h/file"])];
        let (mut download, _) = start(&world, &place, records(), |_| {});
        while download.ledger().totals().bytes_moved < 24 << 20 {
            download.step(SETPOINT).expect("no error").expect("not done yet");
        }
        drop(download);
        let parts = parts(&place);
        assert_eq!(parts.len(), 1, "{parts:?}");
        let part = fs::OpenOptions::new().read(true).write(true).open(&parts[0]).expect("opened");
        if zeros {
            let bytes = part.metadata().expect("there").len();
            part.set_len(0).and_then(|()| part.set_len(bytes)).expect("zeroed");
        } else {
            let mut byte = [0];
            part.read_exact_at(&mut byte, 1_000_000).expect("read");
            part.write_all_at(&[byte[0] ^ 1], 1_000_000).expect("written");
        }
        let (mut download, told) = start(&world, &place, records(), |_| {});
        drive(&mut download, |_| 2).expect("no error");
        let kept = download.ledger().totals().bytes_skipped;
        drop(download);
        assert!(told.lock().failed.is_empty());
        assert!(place.read("file") == Some(item.content()), "damage was published (zeros: {zeros})");
        assert_eq!(kept > 0, !zeros, "{kept} bytes were kept");
    }
}

#[test]
fn a_directory_that_is_moved_away_is_no_success() {
    let (world, place) = (World::new(4), Place::new());
    world.rules("h", Rules { rate: Some(4 << 20), ..Rules::default() });
    let names: Vec<String> = (0..4).map(|i| format!("sub/{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        world.put(&format!("http://h/{name}"), Item::new(i as u64, 3 << 20));
    }
    let records = names.iter().map(|name| record(name, &[&format!("http://h/{name}")])).collect();
    let (mut download, told) = start(&world, &place, records, |_| {});
    while !place.path().join("sub").is_dir() || parts(&place).is_empty() {
        download.step(SETPOINT).expect("no error").expect("not done yet");
    }
    fs::rename(place.path().join("sub"), place.path().join("elsewhere")).expect("moved");
    let before = fs::read_dir(place.path().join("elsewhere")).expect("listed").count();
    drive(&mut download, |_| 2).expect("no error");
    drop(download);
    let told = told.lock();
    let there = names.iter().filter(|name| place.path().join(name).exists()).count();
    assert!(told.done.len() <= there + before, "{} done, {there} there, {before} before", told.done.len());
    assert_eq!(told.done.len() + told.failed.len(), names.len());
}
