//! How many connections `tidegate get` asks a server for: more where they bring more, and never again what was refused.

use std::sync::OnceLock;
use testkit::standin;

use crate::common::{World, finish};
use serde_json::Value;
use testkit::standin::{DataSet, Standin, id};

/// Connections that are opened at once against a server that bears fewer.
const ASKED: u64 = 32;

/// Forty files of a quarter of a MiB.
fn runs() -> &'static DataSet {
    static DATA: OnceLock<DataSet> = OnceLock::new();
    DATA.get_or_init(|| DataSet::make(&["--runs", "20", "--mb", "0.5", "--seed", "3", "--shapes", "paired"]))
}

/// Gets all of it from an archive with these faults; answers with what was remembered of the server, and what it saw.
fn get(faults: &[&str], options: &[&str]) -> (Option<u64>, u64, u64) {
    // A second a file: those served first are not done when the last that asked with them is refused.
    let archive = Standin::start(runs(), &[faults, &["--connection-rate", "262144"]].concat());
    let world = World::new();
    let names: Vec<&str> = runs().runs.iter().map(|run| id(run, "run_accession")).collect();
    let mut command = world.command();
    archive.lead(&mut command);
    command.args(["get", "--quiet", "--json", "-o", "out", "--epoch", "200ms"]).args(options).args(names);
    let ran = finish(&mut command);
    let all: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.code, &all["verified"], &all["files"]["ok"]), (0, &true.into(), &40.into()), "{ran:?}");
    let (_, known) = world.json(&["history", "show"]);
    let is_ours = |known: &&Value| known["path"]["terms"] == serde_json::json!(["pushed back"]);
    let ours = known["paths"].as_array().expect("paths").iter().find(is_ours);
    let held = ours.map(|path| path["memory"]["stages"]["network"]["workers"].as_u64().expect("a number"));
    let seen = archive.requests();
    (held, seen["bodies_at_once"], seen["bodies_refused"])
}

fn bears(connections: u64, how: &str) {
    let faults = ["--connections", &connections.to_string(), "--busy", how];
    let (held, _, refused) = get(&faults, &["--fixed", &ASKED.to_string()]);
    let held = held.expect("it pushed back");
    println!("bears {connections} ({how}): {held} are remembered, {refused} were refused");
    assert!(held <= connections, "{held} are remembered of a server that bears {connections}");
    // Those that asked before the first was refused, and hardly any after.
    assert!(refused <= ASKED, "{refused} were refused");
}

#[test]
fn what_a_server_refuses_above_is_remembered_and_hardly_ever_asked_for() {
    if !standin::is_there("what_a_server_refuses_above_is_remembered_and_hardly_ever_asked_for") {
        return;
    }
    // All at once: they wait for the servers most of the time.
    std::thread::scope(|scope| {
        for (connections, how) in [(6, "429"), (10, "503"), (10, "0"), (20, "429")] {
            scope.spawn(move || bears(connections, how));
        }
    });
}

#[test]
fn a_server_that_never_pushes_back_is_asked_for_more_than_the_start() {
    if !standin::is_there("a_server_that_never_pushes_back_is_asked_for_more_than_the_start") {
        return;
    }
    let (held, at_once, refused) = get(&[], &[]);
    println!("{at_once} at once");
    assert_eq!((held, refused), (None, 0));
    assert!(at_once > 4, "{at_once} at once");
}
