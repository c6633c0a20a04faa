//! Jobs as Stork's users write them, and the log that their tools read.

use std::process::Command;

use crate::common::service::Service;
use crate::common::{World, eventually};

/// A Python with HTCondor's own reader of logs; `scripts/test` makes it.
const PYTHON: &str = "htcondor-python";

/// What the reader makes of a log: type, cluster, and what tells how a job ended, an event a line.
const READ: &str = "
import sys, htcondor2
for event in htcondor2.JobEventLog(sys.argv[1]).events(stop_after=0):
    told = [str(event[key]) for key in ('ReturnValue', 'Info', 'Reason', 'LogNotes') if key in event]
    print(int(event.type), event.cluster, event.timestamp, *told)
";

#[test]
fn ads_of_any_name_are_taken_and_their_log_is_htcondors_own() {
    let world = World::new();
    let (service, endpoint) = (Service::start(&world, "service", &[]), world.endpoint("there", &[]));
    world.fill("data", 1 << 20, 3);
    let gone = world.endpoint("gone", &[]).at("x");
    let ad = |kind: &str, source: &str, to: &str, more: &str| {
        format!(
            "[ dap_type = {kind}; src_url = \"{source}\"; dest_url = \"{to}\"; log = \"jobs.log\"; {more} ]"
        )
    };
    world.write("one.dap", ad("transfer", "data", &endpoint.at("in"), "optimization = \"NO\";"));
    world.write("two.submit", ad("transfer", "nowhere", &endpoint.at("in"), "max_retry = 0;"));
    let more = "bytes = 1000000000; sample_time = \"400ms\"; err = \"three.err\"; output = \"three.out\";";
    world.write("three.ad", ad("estimation", "data", &gone, more));
    let (code, taken) = service.json(&world, &["submit", "one.dap", "two.submit", "three.ad"]);
    assert_eq!((code, &taken["ids"]), (0, &serde_json::json!([1, 2, 3])), "{taken}");
    for (id, state) in [(1, "done"), (2, "failed"), (3, "failed")] {
        eventually(|| service.job(&world, id)["state"] == state);
    }
    assert_eq!(service.job(&world, 2)["summary"]["error_kind"], "not_found");
    // Why there is no estimate stands where messages were to be written, in a line.
    eventually(|| world.path("three.err").exists());
    let why = String::from_utf8(world.read("three.err")).expect("text");
    assert!(why.lines().count() == 1 && why.len() > 10 && !why.contains("tg://TICKET"), "{why:?}");
    assert!(!world.path("three.out").exists());

    let text = || String::from_utf8(world.read("jobs.log")).expect("text");
    eventually(|| text().matches("Job terminated.").count() == 3);
    let log = text();
    for part in [
        "000 (001.000.000) ",
        "001 (001.000.000) ",
        "005 (001.000.000) ",
        "(return value 0)",
        "(return value 1)",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(log.ends_with("...\n") && !log.contains(endpoint.secret()), "{log}");

    let test = "ads_of_any_name_are_taken_and_their_log_is_htcondors_own";
    let read = Command::new(PYTHON).args(["-c", READ]).arg(world.path("jobs.log")).output();
    let Ok(read) = read else {
        return testkit::skip(
            test,
            "no htcondor-python: the package htcondor of the Python index is missing",
        );
    };
    let events = String::from_utf8(read.stdout).expect("text");
    assert!(read.status.success(), "{events} {}", String::from_utf8_lossy(&read.stderr));
    let begin = |text: &str| events.lines().any(|line| line.starts_with(text));
    assert!(begin("0 1 ") && begin("1 1 ") && begin("5 1 ") && begin("5 2 ") && begin("5 3 "), "{events}");
    let ended = |id: &str, code: &str| {
        let mut lines = events.lines().filter(|line| line.starts_with(&format!("5 {id} ")));
        lines.next().is_some_and(|line| line.ends_with(&format!(" {code}")))
    };
    assert!(ended("1", "0") && ended("2", "1") && ended("3", "1"), "{events}");
    assert!(events.contains("DONE 1 MiB"), "{events}");
    assert_eq!(service.terminate(), 0);
}
