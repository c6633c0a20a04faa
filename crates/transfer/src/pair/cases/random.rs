//! Whatever is there, is lost, fails or changes: what both ends say is so, and in the end all of it has arrived.

use super::*;
use crate::sys::thread;

/// Tells which seed it was.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it was seed {}", self.0);
        }
    }
}

fn settings(seed: u64, rng: &mut Rng) -> PairSettings {
    let one_of = |rng: &mut Rng, most: u64| rng.below(most) == 0;
    let mirrors = one_of(rng, 3);
    let compare = if one_of(rng, 3) { Compare::Checksum } else { Compare::Recorded };
    // As it is refused elsewhere: what is moved is compared end to end, and not into a mirror.
    let moves = !mirrors && compare == Compare::Checksum && one_of(rng, 3);
    PairSettings {
        seed,
        verify: if !moves && one_of(rng, 4) { Verify::Block } else { Verify::Blake3 },
        compare,
        pulls: one_of(rng, 2),
        mirrors,
        most_deleted: Some(1000),
        moves,
        asks_hashes: !one_of(rng, 4),
        leave: one_of(rng, 4).then_some(true),
        streams: 1 + rng.below(5) as u32,
        batch: 1 + rng.below(8) as usize,
        names_remembered: 4 + rng.below(60) as usize,
        delay: 1..2 + rng.below(3000),
        disk_delay: rng.below(2) * rng.below(4000),
        loses: rng.below(2) * rng.below(60),
        repeats: rng.below(2) * rng.below(60),
        damages: rng.below(2) * rng.below(60),
        ..PairSettings::default()
    }
}

fn path(rng: &mut Rng) -> String {
    let name = format!("f{}", rng.below(8));
    match rng.below(3) {
        0 => format!("d/e/{name}"),
        1 => format!("d/{name}"),
        _ => name,
    }
}

/// Puts something into a tree, most of it small.
fn plant(tree: &mut tree::ModelTree, rng: &mut Rng) {
    if rng.below(6) == 0 {
        tree.link(&format!("l{}", rng.below(4)), ["x", "y"][rng.below(2) as usize]);
        return;
    }
    let few = if rng.below(4) == 0 { 6 } else { 3 };
    let size = SIZES[rng.below(few) as usize];
    let node = tree.file(&path(rng), size, 1 + rng.below(3));
    // What is written later has another time: by that and its size what was verified is known.
    node.mtime = rng.below(1 << 40) as i64;
    node.mode = [0o644, 0o600][rng.below(2) as usize];
}

fn plant_all(tree: &mut tree::ModelTree, rng: &mut Rng) {
    tree.directory("d");
    tree.directory("d/e").mtime = rng.below(100) as i64;
    (0..rng.below(25)).for_each(|_| plant(tree, rng));
}

/// Something goes wrong, or changes.
fn disturb(pair: &mut Pair, rng: &mut Rng) {
    use Deed::{Begin, Commit, Conclude, Delete, Digest, Look, Name, Read, Remove, Settle, Write};
    let path = path(rng);
    let kind = [ErrorKind::Io, ErrorKind::Denied, ErrorKind::NoSpace][rng.below(3) as usize];
    match rng.below(6) {
        0 => plant(&mut pair.source.tree, rng),
        1 => {
            let deed = [Read, Remove][rng.below(2) as usize];
            pair.source.faults.fail(deed, &path, ErrorKind::Io);
        }
        2 => pair.source.faults.fail(Name, "", ErrorKind::Io),
        3 => pair.disk.faults.fail(Conclude, "", ErrorKind::Io),
        _ => {
            let deed = [Begin, Commit, Delete, Digest, Look, Settle, Write][rng.below(7) as usize];
            pair.disk.faults.fail(deed, &path, kind);
        }
    }
}

fn one(seed: u64) {
    let _told = Seed(seed);
    let mut rng = Rng::new(seed);
    let mut pair = Pair::new(settings(seed, &mut rng));
    plant_all(&mut pair.source.tree, &mut rng);
    plant_all(&mut pair.disk.tree, &mut rng);
    for (path, node) in pair.source.tree.iter().filter(|(_, node)| node.content().is_some()) {
        match rng.below(6) {
            0 | 1 => drop(pair.disk.tree.put(path, node.clone()).mode),
            2 => {
                let (size, mtime) = (node.content().expect("a file").size, node.mtime);
                pair.disk.tree.file(path, size, 9).mtime = mtime;
            }
            _ => {}
        }
    }
    for _ in 0..rng.below(5) {
        (0..rng.below(4)).for_each(|_| disturb(&mut pair, &mut rng));
        if pair.run_for(rng.below(120)) {
            (0..rng.below(2)).for_each(|_| disturb(&mut pair, &mut rng));
            match rng.below(3) {
                0 => pair.cut(),
                1 => pair.crash(),
                _ => pair.run(),
            }
        }
        if rng.below(2) == 0 {
            pair.disk.faults.mend();
            pair.source.faults.mend();
        }
    }
    pair.disk.faults.mend();
    pair.source.faults.mend();
    let source = pair.source.tree.clone();
    pair.succeed();
    assert_eq!(pair.sent().files_failed, 0, "{:?}", pair.failures());
    let left = std::mem::replace(&mut pair.source.tree, source);
    pair.assert_same();
    let is_moved = |path: &str| left.get(path).is_none();
    let mut files = pair.source.tree.iter().filter(|(_, node)| node.content().is_some());
    assert!(files.all(|(path, _)| is_moved(path) == pair.settings.moves));
    if pair.settings.mirrors && !pair.settings.moves {
        assert_eq!(pair.disk.tree.names(), pair.source.tree.names());
    }
}

#[test]
fn in_the_end_all_of_it_has_arrived() {
    (0..200).for_each(one);
}
