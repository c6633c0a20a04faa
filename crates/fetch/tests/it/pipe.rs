//! Files as one stream: in order, whole, verified, in little memory, over connections that break.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::in_memory::{Item, Rules, Servers, World, declared, record, seeds};
use tidegate_control::optimizer::{OptimizerOptions, build};
use tidegate_control::{ByteCount, Rng};
use tidegate_fetch::host::ceilings::Ceilings;
use tidegate_fetch::pipe::{PipeEnd, PipeSettings, Piped, pipe};
use tidegate_fetch::record::Record;
use tidegate_fetch::remote::{Remotes, Why};
use tidegate_transfer::error::{ErrorKind, Result};
use tidegate_transfer::throttle::Limits;
use tidegate_transfer::transfer::{Interrupt, Pace};

const MIB: u64 = 1 << 20;

fn settings() -> PipeSettings {
    PipeSettings {
        connections: 4,
        pace: Pace::new(Duration::from_secs(1)),
        window: ByteCount::mib(4),
        ceilings: Ceilings::default(),
        held: Arc::default(),
        limits: Limits::default(),
        retries: 4,
        retry_for: Duration::from_secs(20),
        verify: true,
        interrupt: Interrupt::default(),
        seed: 1,
    }
}

fn run(world: &Arc<World>, records: Vec<Record>, out: &mut dyn Write) -> Result<PipeEnd> {
    run_by("fixed:4", settings(), world, records, out)
}

fn run_by(
    rule: &str,
    settings: PipeSettings,
    world: &Arc<World>,
    records: Vec<Record>,
    out: &mut dyn Write,
) -> Result<PipeEnd> {
    let servers: Arc<dyn Remotes> = Arc::new(Servers(Arc::clone(world)));
    let rule = build(rule, &OptimizerOptions::default()).expect("there is one");
    pipe(records, &servers, settings, rule, out, &mut |_| {})
}

#[test]
fn files_flow_in_order_whatever_their_servers_do() {
    for seed in seeds(6) {
        println!("seed {seed}");
        let (world, mut rng) = (World::new(seed), Rng::new(seed));
        let rules = Rules {
            drops: [None, Some(3), Some(10)][usize::from(rng.integer(0, 2))],
            bears: [None, Some(2)][usize::from(rng.integer(0, 1))],
            retry_after: Some(Duration::from_millis(20)),
            ..Rules::default()
        };
        println!("{rules:?}");
        world.rules("a", rules);
        let mut records = Vec::new();
        let mut wanted = Vec::new();
        for i in 0..4 {
            let bytes = [0, 1, 100_000, 3 * MIB + 17, 9 * MIB][usize::from(rng.integer(0, 4))];
            let ranges = rng.unit() < 0.7;
            let item = Item { ranges, sized: ranges || rng.unit() < 0.5, ..Item::new(i + 1, bytes) };
            // Another mirror has the same, and is asked if the first one fails.
            for host in ["a", "b"] {
                world.put(&format!("http://{host}/{i}"), item.clone());
            }
            let urls = [format!("http://a/{i}"), format!("http://b/{i}")];
            records.push(declared(&i.to_string(), &[&urls[0], &urls[1]], &item));
            wanted.extend(item.content());
        }
        let mut out = Vec::new();
        let end = run(&world, records, &mut out).expect("all of it");
        assert_eq!(end, PipeEnd::Whole(Piped { files: 4, bytes: wanted.len() as u64, unchecked: 0 }));
        assert!(out == wanted, "seed {seed}: other bytes");
    }
}

/// A reader that takes its time, and looks how far ahead the server was asked.
struct Slow {
    world: Arc<World>,
    taken: u64,
    furthest: u64,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(5));
        let ahead = self.world.served("h").bytes.load(Relaxed).saturating_sub(self.taken);
        self.furthest = self.furthest.max(ahead);
        self.taken += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_more_is_fetched_than_memory_allows() {
    let world = World::new(1);
    world.put("http://h/parts", Item::new(1, 24 * MIB));
    world.put("http://h/whole", Item { ranges: false, ..Item::new(2, 24 * MIB) });
    for name in ["parts", "whole"] {
        let mut out =
            Slow { world: Arc::clone(&world), taken: world.served("h").bytes.load(Relaxed), furthest: 0 };
        run(&world, vec![record(name, &[&format!("http://h/{name}")])], &mut out).expect("all of it");
        println!("{name}: at most {} bytes ahead", out.furthest);
        // The window, and a block in each worker's and the writer's hands.
        assert!(out.furthest <= 4 * MIB + 6 * (128 << 10), "{name}: {} bytes ahead", out.furthest);
    }
}

#[test]
fn wrong_content_ends_with_an_error_after_the_stream() {
    let world = World::new(1);
    let item = Item::new(1, 2 * MIB);
    world.put("http://h/f", item.clone());
    let mut wrong = declared("f", &["http://h/f"], &Item::new(2, 2 * MIB));
    let mut out = Vec::new();
    let error = run(&world, vec![wrong.clone()], &mut out).expect_err("another sum");
    assert_eq!((error.kind, out == item.content()), (ErrorKind::Corrupt, true), "{error}");
    assert!(error.message.contains("do not use it"), "{error}");
    // Another size is told before anything is written.
    wrong.bytes = Some(5);
    out.clear();
    let error = run(&world, vec![wrong], &mut out).expect_err("another size");
    assert_eq!((error.kind, out.len()), (ErrorKind::Corrupt, 0), "{error}");
}

#[test]
fn what_changes_or_goes_away_under_way_is_no_stream() {
    let world = World::new(1);
    world.put("http://h/changes", Item { changes_every: Some(3), ..Item::new(1, 16 * MIB) });
    world.put("http://h/missing", Item { refuses: Some(Why::Missing), ..Item::new(1, 1) });
    for (name, kind) in [("changes", ErrorKind::Changed), ("missing", ErrorKind::NotFound)] {
        let records = vec![record(name, &[&format!("http://h/{name}")])];
        let error = run(&world, records, &mut Vec::new()).expect_err(name);
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    struct Leaves(usize);
    impl Write for Leaves {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let world = World::new(1);
    world.put("http://h/f", Item::new(1, 8 * MIB));
    let end = run(&world, vec![record("f", &["http://h/f"])], &mut Leaves(300_000)).expect("no error");
    assert_eq!(end, PipeEnd::ReaderLeft(2 * (128 << 10)));
}

#[test]
fn a_rule_decides_how_many_connections_fetch_ahead() {
    let wide = || PipeSettings { connections: 16, window: ByteCount::mib(32), ..settings() };
    // More than it begins with, which are four; and as many as are asked for.
    for (rule, least, most) in [("auto", 5, 16), ("fixed:3", 3, 3)] {
        let world = World::new(1);
        // One connection brings little, and each further one as much again; there is time for epochs of a busy machine.
        world.rules("h", Rules { rate: Some(MIB), ..Rules::default() });
        let item = Item::new(1, 24 * MIB);
        world.put("http://h/f", item.clone());
        let mut out = Vec::new();
        let records = vec![declared("f", &["http://h/f"], &item)];
        run_by(rule, wide(), &world, records, &mut out).expect("all of it");
        assert!(out == item.content(), "{rule}: other bytes");
        let asked = world.served("h").most.load(Relaxed);
        println!("{rule}: at most {asked} connections");
        assert!((least..=most).contains(&asked), "{rule}: {asked} connections");
    }
}
