//! `tidegate history`: logs come in, are shown, go out as they came, and are forgotten.

use std::os::unix::fs::PermissionsExt;

use crate::common::World;
use serde_json::Value;

/// A log of a GridFTP server: transfers of 10 s at 1, 2, 4 and 8 streams one after the other, and a bad line.
fn log() -> String {
    let line = |(minute, (streams, mbps)): (usize, (u64, u64))| {
        format!(
            "DATE=202611210{minute}0010.000000 HOST=dtn1 PROG=globus-gridftp-server NL.EVNT=FTP_INFO \
             START=202611210{minute}0000.000000 USER=u FILE=/data/a b BUFFER=131072 BLOCK=262144 NBYTES={} VOLUME=/ \
             STREAMS={streams} STRIPES=1 DEST=[192.0.2.7] TYPE=STOR CODE=226 TASKID=none retrans=0\n",
            mbps * 1_250_000
        )
    };
    let lines: String = [(1, 100), (2, 190), (4, 340), (8, 520)].into_iter().enumerate().map(line).collect();
    format!("[77] Server started in daemon mode.\n{lines}DATE=1 NL.EVNT=FTP_INFO\n")
}

const IMPORT: [&str; 5] = ["history", "import", "gridftp.log", "--site", "dtn1=tg://dtn1:7700"];

/// A world with that log in its history.
fn imported() -> World {
    let world = World::new();
    world.write("gridftp.log", log());
    world.run(&IMPORT);
    world
}

#[test]
fn a_log_is_imported_and_shown() {
    let world = World::new();
    world.write("gridftp.log", log());
    let ran = world.run(&IMPORT);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.err, "tidegate: gridftp.log:6: has no TYPE\n");
    assert!(ran.out.contains("4 records (gridftp), 4 new, 1 bad line left out"), "{ran:?}");
    assert!(ran.out.contains("4 samples made of the transfers of logs"), "{ran:?}");
    let mode = world.path("state/tidegate/history.db").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (code, seen) = world.json(&IMPORT);
    assert_eq!(
        (code, &seen["files"][0]["records"], &seen["files"][0]["new"]),
        (0, &4.into(), &0.into()),
        "{seen}"
    );
    assert_eq!(seen["files"][0]["problems"][0]["line"], 6);
    assert_eq!(seen["samples_of_transfers"], 0);

    let (_, seen) =
        world.json(&["history", "samples", "--destination", "tg://dtn1:7700/any/path", "--limit", "3"]);
    let streams: Vec<_> =
        seen["records"].as_array().expect("a list").iter().map(|s| s["streams"].as_u64()).collect();
    assert_eq!(streams, [Some(8), Some(4), Some(2)], "{seen}");
    let next = seen["next"].as_str().expect("a cursor").to_owned();
    let (_, seen) = world.json(&["history", "samples", "--after", &next]);
    assert_eq!(
        (seen["records"][0]["throughput_bps"].as_u64(), &seen["next"]),
        (Some(100_000_000), &Value::Null)
    );

    let (_, seen) = world.json(&["history", "pairs"]);
    assert_eq!(seen["pairs"][0]["source"], "gsiftp://192.0.2.7");
    assert_eq!((&seen["pairs"][0]["samples"], &seen["pairs"][0]["transfers"]), (&4.into(), &4.into()));
    let out = world.ok(&["history"]);
    assert_eq!(out.lines().count(), 8, "{out}");
    assert!(out.contains("complete: 620 MiB in 10.0 s, 520 Mbit/s, network 8.0 (gridftp log)"), "{out}");
    assert!(out.contains("1 stream: 100 Mbit/s"), "{out}");
    assert!(world.ok(&["history", "pairs"]).contains("gsiftp://192.0.2.7 → tg://dtn1:7700"));
    assert_eq!(world.ok(&["history", "decisions"]), "");
}

#[test]
fn an_export_gives_the_same_back() {
    let world = imported();
    let lines = world.ok(&["history", "export"]);
    assert_eq!(lines.lines().count(), 8);
    world.write("all.jsonl", &lines);
    assert_eq!(
        world.ok(&["history", "export", "--kind", "samples", "--format", "csv", "-o", "s.csv"]),
        "4 records\n"
    );
    world.ok(&["history", "export", "--kind", "transfers", "--format", "csv", "-o", "t.csv"]);
    for files in [&["all.jsonl"][..], &["s.csv", "t.csv"]] {
        let database = format!("sqlite:{}", world.text(&format!("{}.db", files[0])));
        let arguments = [&["history", "import", "--database", &database], files].concat();
        let (code, seen) = world.json(&arguments);
        assert_eq!((code, &seen["samples_of_transfers"]), (0, &0.into()), "{seen}");
        assert_eq!(world.ok(&["history", "export", "--database", &database]), lines);
    }
}

#[test]
fn what_is_asked_for_is_forgotten() {
    let world = imported();
    let ran = world.run(&["history", "forget"]);
    assert!(ran.code == 2 && ran.err.contains("--older-than"), "{ran:?}");
    assert_eq!(world.json(&["history", "forget", "--source", "s3://other"]).1["forgotten"], 0);
    assert_eq!(world.json(&["history", "forget", "--keep", "3"]).1["forgotten"], 2);
    assert_eq!(world.json(&["history", "forget", "--source", "gsiftp://192.0.2.7"]).1["forgotten"], 6);
    assert_eq!(world.ok(&["history", "forget", "--all"]), "0 records forgotten\n");
    let ran = world.run(&["history"]);
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("nothing is remembered"), "{ran:?}");
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let world = World::new();
    world.write("noise", [0xff, 0x00, b'\n'].repeat(100));
    for (arguments, code, part) in [
        (&["history", "--database", "postgres://me:hush@127.0.0.1:1/x"][..], 1, "postgres://127.0.0.1:1/x"),
        (&["history", "--database", "mysql://me:hush@h/x"], 1, "sqlite:PATH or postgres://"),
        (&["history", "import", "noise"], 1, "none of the known formats"),
        (&["history", "import", "nowhere"], 1, "nowhere: No such file"),
        (&["history", "import", "noise", "--site", "hush"], 2, "HOST=URL"),
        (&["history", "export", "--format", "csv"], 2, "--kind"),
        (&["history", "samples", "--after", "nonsense"], 2, "no cursor"),
        (&["history", "samples", "--source", "http://u:hush@"], 2, "http://"),
    ] {
        let ran = world.run(arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (code, 1), "{ran:?}");
        assert!(ran.err.contains(part), "{ran:?}");
        assert!(!ran.err.contains("me:hush"), "{ran:?}");
    }
}
