//! Downloads from scripted servers: what arrives is right, whatever the servers do.

use crate::common::in_memory as scripted;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::in_memory::{Item, Place, Rules, World, declared, get, record};
use tidegate_fetch::checksum::{Algorithm, Hashers, PartSizes, SumOfParts};
use tidegate_fetch::remote::Why;
use tidegate_transfer::error::ErrorKind;

const MIB: u64 = 1 << 20;

fn at(host: &str, name: &str) -> String {
    format!("http://{host}/{name}")
}

#[test]
fn files_of_all_sizes_arrive() {
    let (world, place) = (World::new(1), Place::new());
    let sizes = [0, 1, 7, 128 << 10, (128 << 10) + 1, 4 * MIB, 4 * MIB + 1, 30 * MIB + 12345];
    let mut records = Vec::new();
    for (i, &bytes) in sizes.iter().enumerate() {
        let item = Item::new(i as u64 + 1, bytes);
        let (plain, known) = (at("h", &format!("{i}")), at("h", &format!("known{i}")));
        records.push(record(&format!("plain/{i}"), &[&plain]));
        records.push(declared(&format!("deep/er/{i}"), &[&known], &item));
        world.put(&plain, item.clone());
        world.put(&known, item);
    }
    let told = get(&world, &place, records);
    assert_eq!((told.done.len(), told.failed.len()), (2 * sizes.len(), 0), "{told:?}");
    for (i, &bytes) in sizes.iter().enumerate() {
        let item = Item::new(i as u64 + 1, bytes);
        for path in [format!("plain/{i}"), format!("deep/er/{i}")] {
            assert!(place.read(&path) == Some(item.content()), "{path}");
            assert_eq!(told.done[&path].bytes, bytes);
            assert_eq!(told.done[&path].modified, item.modified);
        }
        assert_eq!(told.done[&format!("deep/er/{i}")].checksums, item.sums(Algorithm::Md5));
    }
    assert!(!place.path().join(".tidegate").exists(), "nothing is left over");
}

#[test]
fn a_server_that_ignores_ranges_is_read_in_one_go() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item { ranges: false, ..Item::new(3, 20 * MIB + 5) };
    world.put("http://h/a", item.clone());
    world.put("http://h/b", item.clone());
    let told = get(&world, &place, vec![record("a", &["http://h/a"]), declared("b", &["http://h/b"], &item)]);
    assert_eq!(told.done.len(), 2, "{told:?}");
    assert!(place.read("a") == Some(item.content()) && place.read("b") == Some(item.content()));
    assert_eq!(world.served("h").opens.load(Relaxed), 2, "asked once each");
}

#[test]
fn a_file_of_unknown_size_is_streamed() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item { sized: false, ranges: false, ..Item::new(3, 3 * MIB + 5) };
    let empty = Item { bytes: 0, ..item.clone() };
    world.put("http://h/a", item.clone());
    world.put("http://h/b", item.clone());
    world.put("http://h/short", item.clone());
    world.put("http://h/empty", empty);
    let mut short = declared("short", &["http://h/short"], &item);
    short.bytes = Some(item.bytes - 1);
    let records = vec![
        record("a", &["http://h/a"]),
        declared("b", &["http://h/b"], &item),
        short,
        record("empty", &["http://h/empty"]),
    ];
    let told = get(&world, &place, records);
    assert_eq!(told.done["a"].bytes, item.bytes);
    assert!(place.read("a") == Some(item.content()) && place.read("b") == Some(item.content()));
    assert_eq!(place.read("empty"), Some(Vec::new()));
    assert_eq!(told.failed["short"].kind, ErrorKind::Corrupt);
    assert!(place.read("short").is_none());
}

#[test]
fn what_is_not_as_declared_never_gets_its_name() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 9 * MIB);
    world.put("http://h/sum", item.clone());
    world.put("http://h/size", item.clone());
    world.put("http://h/more", Item { surplus: 3, ..item.clone() });
    world.put("http://h/less", Item { promises: Some(10 * MIB), ..item.clone() });
    let mut sum = declared("sum", &["http://h/sum"], &item);
    sum.checksums = Item::new(6, 9 * MIB).sums(Algorithm::Md5);
    let mut size = declared("size", &["http://h/size"], &item);
    size.bytes = Some(9 * MIB - 1);
    let told = get(
        &world,
        &place,
        vec![sum, size, record("more", &["http://h/more"]), record("less", &["http://h/less"])],
    );
    assert!(told.done.is_empty(), "{told:?}");
    assert_eq!(told.failed["sum"].kind, ErrorKind::Corrupt);
    let said = &told.failed["sum"].message;
    for hex in [item.sums(Algorithm::Md5), Item::new(6, 9 * MIB).sums(Algorithm::Md5)] {
        assert!(said.contains(&hex.hex(Algorithm::Md5).unwrap()), "{said}");
    }
    assert_eq!(told.failed["size"].kind, ErrorKind::Corrupt);
    assert!(told.failed["size"].message.contains("9437183"), "{}", told.failed["size"]);
    assert_eq!(told.failed["more"].kind, ErrorKind::Protocol);
    assert_eq!(told.failed["less"].kind, ErrorKind::Connection);
    let names: Vec<_> = place.names().into_iter().filter(|name| !name.starts_with(".tidegate")).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_file_that_changes_under_way_is_begun_anew_and_comes_in_one_answer_in_the_end() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 40 * MIB);
    world.put("http://h/once", Item { changes_every: Some(4), ..item.clone() });
    world.put("http://h/always", Item { changes_every: Some(2), ..item });
    // Slow enough that several parts are asked for.
    let told =
        get(&world, &place, vec![record("once", &["http://h/once"]), record("always", &["http://h/always"])]);
    for name in ["once", "always"] {
        let got = place.read(name).unwrap_or_else(|| panic!("{told:?}"));
        let mut versions = (0..20).map(|k| Item::new(5 + 1000 * k, 40 * MIB).content());
        assert!(versions.any(|version| version == got), "{name}: bytes of two versions are mixed");
    }
}

#[test]
fn mirrors_are_used_together_and_stand_in_for_each_other() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 32 * MIB);
    for host in ["a", "b"] {
        world.put(&at(host, "f"), item.clone());
        world.rules(host, Rules { rate: Some(20 * MIB), ..Rules::default() });
    }
    let told = get(&world, &place, vec![declared("f", &["http://a/f", "http://b/f"], &item)]);
    assert_eq!(told.done.len(), 1, "{told:?}");
    assert!(place.read("f") == Some(item.content()));
    for host in ["a", "b"] {
        assert!(world.served(host).bytes.load(Relaxed) > 0, "{host} was not used");
    }
    // One is down, one has it no more, one has another file of the same name.
    world.rules("a", Rules { down: true, ..Rules::default() });
    world.put("http://c/f", Item { refuses: Some(Why::Missing), ..item.clone() });
    world.put("http://d/f", Item::new(9, 31 * MIB));
    let urls = ["http://c/f", "http://d/f", "http://a/f", "http://b/f"];
    let mut undeclared = record("h", &urls);
    undeclared.urls.remove(1);
    let told = get(&world, &place, vec![declared("g", &urls, &item), undeclared]);
    assert_eq!(told.done.len(), 2, "{told:?}");
    assert!(place.read("g") == Some(item.content()) && place.read("h") == Some(item.content()));
}

#[test]
fn a_mirror_with_wrong_bytes_is_found_out() {
    let item = Item::new(5, 24 * MIB);
    for order in [["http://good/f", "http://bad/f"], ["http://bad/f", "http://good/f"]] {
        let (world, place) = (World::new(1), Place::new());
        world.put("http://good/f", item.clone());
        world.put("http://bad/f", Item { seed: 6, ..item.clone() });
        let told = get(&world, &place, vec![declared("f", &order, &item)]);
        assert_eq!(told.done.len(), 1, "{told:?}");
        assert!(place.read("f") == Some(item.content()));
    }
    // Without a checksum nobody could tell: then all bytes come from one mirror.
    let mut arrived = 0;
    for seed in 1..6 {
        let (world, place) = (World::new(seed), Place::new());
        world.put("http://one/f", item.clone());
        world.put("http://other/f", Item { seed: 6, ..item.clone() });
        let rules = Rules { drops: Some(4), ..Rules::default() };
        world.rules("one", rules.clone());
        world.rules("other", rules);
        let told = get(&world, &place, vec![record("f", &["http://one/f", "http://other/f"])]);
        let Some(got) = place.read("f") else {
            assert_eq!(told.failed["f"].kind, ErrorKind::Connection, "too many drops in a row: {told:?}");
            continue;
        };
        let other = Item::new(6, 24 * MIB).content();
        assert!(got == item.content() || got == other, "two mirrors' bytes are mixed");
        arrived += 1;
    }
    assert!(arrived > 0, "none of five arrived");
}

#[test]
fn a_server_that_always_breaks_off_is_given_up() {
    let (world, place) = (World::new(3), Place::new());
    world.rules("h", Rules { drops: Some(1), ..Rules::default() });
    let small = Item::new(5, 1000);
    let large = Item::new(5, 3 * MIB);
    world.put("http://h/small", small);
    world.put("http://h/whole", Item { ranges: false, ..large.clone() });
    world.put("http://h/stream", Item { ranges: false, sized: false, ..large.clone() });
    world.put("http://h/parts", large.clone());
    let urls = ["small", "whole", "stream", "parts"].map(|name| record(name, &[&at("h", name)]));
    let told = get(&world, &place, urls.into());
    for name in ["small", "whole", "stream"] {
        assert_eq!(told.failed[name].kind, ErrorKind::Connection, "{told:?}");
        assert!(told.failed[name].message.contains("given up"), "{}", told.failed[name]);
    }
    // Parts get on a little each time, and may end before a try brings nothing.
    assert!(told.failed.contains_key("parts") || place.read("parts") == Some(large.content()));
}

#[test]
fn one_that_fails_does_not_stop_the_list() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 1000);
    let mut records = Vec::new();
    for i in 0..50 {
        let url = at("h", &format!("{i}"));
        let refuses = match i % 10 {
            3 => Some(Why::Missing),
            6 => Some(Why::Denied),
            _ => None,
        };
        world.put(&url, Item { refuses, ..item.clone() });
        records.push(record(&format!("{i}"), &[&url]));
    }
    records.push(record("7", &["http://h/8"]));
    records.push(record("8", &["http://h/8"]));
    let told = get(&world, &place, records);
    assert_eq!(told.done.len(), 40, "{told:?}");
    assert_eq!(told.failed["13"].kind, ErrorKind::NotFound);
    assert_eq!(told.failed["16"].kind, ErrorKind::Denied);
    assert_eq!(told.failed["7"].kind, ErrorKind::UnsafeName, "two files cannot have one name");
    assert_eq!(told.notes.len(), 1, "one that is named twice is fetched once: {:?}", told.notes);
    assert!(place.read("7") == Some(item.content()));
}

#[test]
fn a_file_that_cannot_fit_fails_before_a_byte_is_asked_for() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 1000);
    world.put("http://h/small", item);
    let mut large = record("large", &["http://h/large"]);
    large.bytes = Some(1 << 60);
    let told = get(&world, &place, vec![large, record("small", &["http://h/small"])]);
    assert_eq!(told.failed["large"].kind, ErrorKind::NoSpace);
    assert_eq!(told.done.len(), 1, "{told:?}");
    assert_eq!(world.requests(), 1);
}

#[test]
fn a_busy_host_is_asked_for_less() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 48 * MIB);
    world.put("http://h/f", item.clone());
    let rules = Rules { bears: Some(3), rate: Some(8 * MIB), ..Rules::default() };
    world.rules("h", rules);
    let told = get(&world, &place, vec![declared("f", &["http://h/f"], &item)]);
    assert_eq!(told.done.len(), 1, "{told:?}");
    assert!(place.read("f") == Some(item.content()));
    let served = world.served("h");
    assert!(served.busy.load(Relaxed) > 0 && served.most.load(Relaxed) == 3);
    assert!(served.busy.load(Relaxed) <= 16, "refused {} times", served.busy.load(Relaxed));
}

#[test]
fn a_busy_host_with_many_small_files_gets_them_all_across() {
    let (world, place) = (World::new(1), Place::new());
    world.rules("h", Rules { bears: Some(3), latency: Duration::from_millis(1), ..Rules::default() });
    let mut records = Vec::new();
    for i in 0..300 {
        let url = at("h", &format!("{i}"));
        world.put(&url, Item::new(i + 1, 1000 + i));
        records.push(record(&i.to_string(), &[&url]));
    }
    let told = get(&world, &place, records);
    assert_eq!(told.done.len(), 300, "{:?}", told.failed);
}

#[test]
fn what_a_server_vouches_for_is_verified() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 2 * MIB);
    let md5 = item.sums(Algorithm::Md5);
    world.put("http://h/right", Item { vouches: md5.clone(), ..item.clone() });
    let wrong = Item::new(6, 2 * MIB).sums(Algorithm::Sha256);
    world.put("http://h/wrong", Item { vouches: wrong, ..item });
    let told = get(&world, &place, vec![record("r", &["http://h/right"]), record("w", &["http://h/wrong"])]);
    assert_eq!(told.done["r"].checksums, md5);
    assert_eq!(told.failed["w"].kind, ErrorKind::Corrupt, "{told:?}");
    assert!(place.read("w").is_none());
}

#[test]
fn a_sum_of_parts_that_a_server_vouches_for_is_verified() {
    let (world, mut place) = (World::new(1), Place::new());
    let item = Item::new(5, 2 * MIB + 5);
    let of_parts = |content: &[u8], sizes: PartSizes| {
        let expected = SumOfParts { algorithm: Algorithm::Sha256, sizes, sum: Box::default() };
        let mut hashers = Hashers::new([]).and_of_parts(Some(&expected));
        hashers.update(content);
        hashers.finish()
    };
    let (told, supposed) = (PartSizes::even(item.bytes, MIB / 2), PartSizes::supposed(item.bytes, MIB / 2));
    let other = Item::new(6, item.bytes).content();
    let cases = [
        ("right", of_parts(&item.content(), told.clone())),
        ("wrong", of_parts(&other, told)),
        ("even", of_parts(&item.content(), supposed.clone())),
        ("uneven", of_parts(&other, supposed)),
    ];
    let mut records = Vec::new();
    for (name, vouches) in cases {
        world.put(&at("h", name), Item { vouches, ..item.clone() });
        records.push(record(name, &[&at("h", name)]));
    }
    let first = get(&world, &place, records.clone());
    let failed = &first.failed["wrong"];
    assert_eq!(failed.kind, ErrorKind::Corrupt, "{first:?}");
    assert!(failed.message.contains("wrong: sha256 of its parts' sha256 is "), "{failed}");
    // What does not fit sizes that nobody has told proves nothing, either way.
    let again = get(&world, &place, records[..1].iter().chain(&records[2..]).cloned().collect());
    place.memory = tidegate_fetch::get::memory::none();
    for (name, checked) in [("right", true), ("even", true), ("uneven", false)] {
        assert_eq!(first.done[name].checked, checked, "{name}");
        assert_eq!(again.skipped[name].checked, checked, "{name}");
        assert!(place.read(name) == Some(item.content()), "{name}");
    }
    // Nor is a file that is there taken for what it may not be.
    let forgotten = get(&world, &place, records);
    assert_eq!(forgotten.skipped.len(), 2, "{forgotten:?}");
    assert!(forgotten.failed["uneven"].message.contains("nothing proves what it is"), "{forgotten:?}");
}

#[test]
fn what_is_there_already_is_not_asked_for_again() {
    let (world, mut place) = (World::new(1), Place::new());
    let item = Item::new(5, 5 * MIB);
    let records = || {
        let mut other = record("other", &["http://h/other"]);
        other.bytes = Some(item.bytes);
        vec![declared("known", &["http://h/known"], &item), record("plain", &["http://h/plain"]), other]
    };
    for name in ["known", "plain", "other"] {
        world.put(&at("h", name), item.clone());
    }
    assert_eq!(get(&world, &place, records()).done.len(), 3);
    let before = world.served("h").opens.load(Relaxed);
    let told = get(&world, &place, records());
    assert_eq!((told.skipped.len(), told.done.len()), (3, 0), "{told:?}");
    assert_eq!(world.served("h").opens.load(Relaxed), before, "no bytes were asked for");
    assert_eq!(world.served("h").looks.load(Relaxed), 2, "one look for each without a checksum");
    // Another version there, and a file that is gone here.
    world.put("http://h/plain", Item::new(77, 5 * MIB));
    std::fs::remove_file(place.path().join("known")).unwrap();
    let told = get(&world, &place, records());
    assert_eq!((told.skipped.len(), told.done.len()), (1, 2), "{told:?}");
    assert!(place.read("plain") == Some(Item::new(77, 5 * MIB).content()));
    assert!(place.read("known") == Some(item.content()));
    // Nothing is remembered, but what is declared can be checked by reading.
    let requests = world.requests();
    place.memory = tidegate_fetch::get::memory::none();
    let forgetful = place;
    let told = get(&world, &forgetful, records()[..1].to_vec());
    assert_eq!(told.skipped.len(), 1, "{told:?}");
    assert_eq!(world.requests(), requests);
    let same = vec![0; item.bytes as usize];
    std::fs::write(forgetful.path().join("known"), same).unwrap();
    let told = get(&world, &forgetful, records()[..1].to_vec());
    assert_eq!(told.failed.len(), 1, "of the right size, but other bytes: {told:?}");
}

#[test]
fn checksums_are_computed_on_request() {
    let (world, place) = (World::new(1), Place::new());
    let item = Item::new(5, 13 * MIB + 1);
    let stream = Item { sized: false, ranges: false, ..item.clone() };
    world.put("http://h/f", item.clone());
    world.put("http://h/s", stream);
    let records = || vec![record("f", &["http://h/f"]), record("s", &["http://h/s"])];
    let run = || {
        let (mut download, told) =
            scripted::start(&world, &place, records(), |settings| settings.extra = Algorithm::ALL.into());
        scripted::drive(&mut download, |_| 6).unwrap();
        drop(download);
        Arc::try_unwrap(told).unwrap().into_inner()
    };
    let (first, second) = (run(), run());
    for algorithm in Algorithm::ALL {
        let sum = item.sums(algorithm);
        for name in ["f", "s"] {
            assert_eq!(
                first.done[name].checksums.get(algorithm),
                sum.get(algorithm),
                "{algorithm} of {name}"
            );
        }
        assert_eq!(second.skipped["f"].checksums.get(algorithm), sum.get(algorithm), "remembered");
    }
}
