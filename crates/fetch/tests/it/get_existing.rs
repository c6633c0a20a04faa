//! Files that bear a name before it is got: what is ours is replaced, what is another's stays.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::common::in_memory::{
    Item, Place, Rules, Told, World, declared, drive, get, record, slow_file, start,
};
use tidegate_control::{Concurrency, Environment};
use tidegate_fetch::checksum::{Algorithm, Checksums, Hashers};
use tidegate_fetch::record::Record;
use tidegate_transfer::error::{Error, ErrorKind};

const MIB: u64 = 1 << 20;

fn get_over(world: &Arc<World>, place: &Place, records: Vec<Record>) -> Told {
    let (mut download, told) = start(world, place, records, |settings| settings.overwrite = true);
    drive(&mut download, |_| 8).expect("no error");
    drop(download);
    Arc::try_unwrap(told).expect("nobody else").into_inner()
}

/// The refusal to replace a file, which is one line that says what to do.
#[track_caller]
fn refusal<'t>(told: &'t Told, name: &str) -> &'t Error {
    let error = told.failed.get(name).unwrap_or_else(|| panic!("{name} was not refused: {told:?}"));
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.starts_with(&format!("{name}: ")), "{error}");
    assert!(error.message.contains("--overwrite") && error.message.lines().count() == 1, "{error}");
    error
}

#[test]
fn a_file_that_no_earlier_run_wrote_is_replaced_only_if_asked() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 3 * MIB);
    for name in ["same-size", "other-size", "free"] {
        world.put(&format!("http://h/{name}"), item.clone());
    }
    let theirs = [("same-size", vec![7; item.bytes as usize]), ("other-size", b"mine".to_vec())];
    for (name, content) in &theirs {
        fs::write(place.path().join(name), content).expect("written");
    }
    let records = || {
        let mut sized = record("other-size", &["http://h/other-size"]);
        sized.bytes = Some(item.bytes);
        vec![record("same-size", &["http://h/same-size"]), sized, record("free", &["http://h/free"])]
    };
    let told = get(&world, &place, records());
    for (name, content) in &theirs {
        refusal(&told, name);
        assert!(&place.read(name).expect("there") == content, "{name} was touched");
    }
    assert!(told.failed["other-size"].message.contains("it has 4 bytes, and should have 3145728"));
    assert_eq!(told.done.keys().collect::<Vec<_>>(), ["free"], "others go on");
    let asked = world.asked.lock().clone();
    assert!(
        asked.iter().all(|(url, _)| url == "http://h/free"),
        "no bytes of theirs were asked for: {asked:?}"
    );
    // Once more, and with leave; then they are ours.
    assert_eq!(get(&world, &place, records()).failed.len(), 2);
    assert_eq!(get_over(&world, &place, records()).done.len(), 2);
    for name in ["same-size", "other-size"] {
        assert!(place.read(name) == Some(item.content()), "{name}");
        world.put(&format!("http://h/{name}"), Item::new(6, item.bytes));
    }
    let told = get(&world, &place, records());
    assert_eq!((told.done.len(), told.skipped.len(), told.failed.len()), (2, 1, 0), "{told:?}");
}

#[test]
fn what_was_changed_since_is_no_longer_ours() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 5000);
    for name in ["plain", "declared"] {
        world.put(&format!("http://h/{name}"), item.clone());
    }
    let records =
        || vec![record("plain", &["http://h/plain"]), declared("declared", &["http://h/declared"], &item)];
    assert_eq!(get(&world, &place, records()).done.len(), 2);
    for name in ["plain", "declared"] {
        fs::write(place.path().join(name), vec![9; 5000]).expect("written");
    }
    let told = get(&world, &place, records());
    assert!(refusal(&told, "plain").message.contains("nothing tells that it is the same"));
    let said = &refusal(&told, "declared").message;
    let sum = |sums: Checksums| sums.hex(Algorithm::Md5).expect("computed");
    let mut theirs = Hashers::new([Algorithm::Md5]);
    theirs.update(&[9; 5000]);
    let wanted =
        format!("its md5 is {}, and should be {}", sum(theirs.finish()), sum(item.sums(Algorithm::Md5)));
    assert!(said.contains(&wanted), "{said}");
    // What has the right sum is there, whoever wrote it.
    fs::write(place.path().join("declared"), item.content()).expect("written");
    let told = get(&world, &place, records()[1..].to_vec());
    assert!(told.skipped["declared"].checked, "{told:?}");
    // And from then on it is ours.
    let other = Item::new(6, 4000);
    world.put("http://h/declared", other.clone());
    let told = get(&world, &place, vec![declared("declared", &["http://h/declared"], &other)]);
    assert_eq!(told.done.len(), 1, "{told:?}");
}

#[test]
fn a_servers_word_for_what_a_file_sums_up_to_counts() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 2 * MIB);
    let vouched = Item { vouches: item.sums(Algorithm::Md5), ..item.clone() };
    world.put("http://h/same", vouched.clone());
    world.put("http://h/other", vouched);
    fs::write(place.path().join("same"), item.content()).expect("written");
    fs::write(place.path().join("other"), vec![1; item.bytes as usize]).expect("written");
    let records = || vec![record("same", &["http://h/same"]), record("other", &["http://h/other"])];
    let told = get(&world, &place, records());
    assert!(told.skipped["same"].checked, "{told:?}");
    assert!(refusal(&told, "other").message.contains("its md5 is "), "{told:?}");
    assert_eq!(world.served("h").opens.load(Relaxed), 0, "nothing was fetched");
    let told = get_over(&world, &place, records());
    assert_eq!((told.skipped.len(), told.done.len()), (1, 1), "{told:?}");
    assert!(told.done["other"].checked);
}

#[test]
fn what_cannot_be_told_from_other_versions_is_ours_all_the_same() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item { tag: None, modified: None, ..Item::new(5, 5000) };
    let stream = Item { sized: false, ranges: false, ..item.clone() };
    world.put("http://h/a", item);
    world.put("http://h/b", stream);
    let records = || vec![record("a", &["http://h/a"]), record("b", &["http://h/b"])];
    for _ in 0..2 {
        let told = get(&world, &place, records());
        assert_eq!((told.done.len(), told.failed.len()), (2, 0), "{told:?}");
    }
}

#[test]
fn a_link_is_no_file_of_ours() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 5000);
    world.put("http://h/f", item.clone());
    let elsewhere = tempfile::NamedTempFile::new().expect("a file");
    std::os::unix::fs::symlink(elsewhere.path(), place.path().join("f")).expect("linked");
    let records = || vec![declared("f", &["http://h/f"], &item)];
    let told = get(&world, &place, records());
    assert!(refusal(&told, "f").message.contains("no regular file"), "{told:?}");
    assert!(place.path().join("f").is_symlink());
    assert_eq!(get_over(&world, &place, records()).done.len(), 1);
    assert!(!place.path().join("f").is_symlink() && place.read("f") == Some(item.content()));
    assert_eq!(fs::metadata(elsewhere.path()).expect("there").len(), 0, "what it led to is as it was");
}

#[test]
fn a_name_that_is_taken_meanwhile_stays_taken() {
    let (world, place, item) = slow_file();
    let (mut download, told) = start(&world, &place, vec![record("f", &["http://h/f"])], |_| {});
    let one = Concurrency { read: 1, network: 1, write: 1 };
    while download.ledger().totals().bytes_moved < MIB {
        download.step(one).expect("no error").expect("not the end");
    }
    fs::write(place.path().join("f"), "somebody else's").expect("written");
    world.rules("h", Rules::default());
    drive(&mut download, |_| 2).expect("no error");
    drop(download);
    refusal(&told.lock(), "f");
    assert_eq!(place.read("f").expect("there"), b"somebody else's");
    fs::rename(place.path().join("f"), place.path().join("theirs")).expect("moved away");
    assert_eq!(get(&world, &place, vec![record("f", &["http://h/f"])]).done.len(), 1);
    assert!(place.read("f") == Some(item.content()));
}
