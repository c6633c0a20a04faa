//! A bad scenario is refused in one line that names the key.

use tidegate_control::Scenario;

const GOOD: &str = r#"
name = "small"
description = "a test"

[network]
worker_rate = "100Mbit/s"

[link]
rate = "1Gbit/s"
"#;

fn refused(text: &str) -> String {
    let error = Scenario::from_toml(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn defaults_fill_what_is_left_out() {
    let scenario = Scenario::from_toml(GOOD).expect("good");
    assert!(scenario.read.is_none() && scenario.dataset.is_none() && scenario.timeline.is_empty());
    assert!(scenario.bounds().read.is_fixed());
    assert_eq!((scenario.bounds().network.min, scenario.bounds().network.max), (1, 64));
}

#[test]
fn numbers_need_their_units() {
    let error = refused(&GOOD.replace("\"1Gbit/s\"", "1000"));
    assert!(error.contains("rate = 1000") && error.starts_with("line 9"), "{error}");
    let error = refused(&GOOD.replace("\"1Gbit/s\"", "\"1000\""));
    assert!(error.contains("200Mbit/s"), "{error}");
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    for line in ["[link.extra]", "[network.knee]\nworkers = 1\nslop = 2", "[noise]\nthruput = 0.1", "[foo]"] {
        assert!(refused(&format!("{GOOD}\n{line}\n")).contains("unknown field"), "{line}");
    }
    let timeline = format!("{GOOD}\n[[timeline]]\nat = \"5s\"\nlink.speed = \"1Gbit/s\"\n");
    assert!(refused(&timeline).contains("speed"));
}

#[test]
fn senseless_values_name_their_key() {
    let with = |extra: &str| refused(&format!("{GOOD}\n{extra}\n"));
    for (extra, key) in [
        ("[background.bursts]\nstreams = 4\non = \"0s\"\noff = \"5s\"", "background.bursts.on"),
        ("[background.bursts]\nrate = \"1Gbit/s\"\non = \"5s\"\noff = \"5s\"", "background.rate"),
        ("[noise]\nthroughput = 1.5", "noise.throughput"),
        ("[background]\nrate = \"1Gbit/s\"", "background.rate"),
        ("[dataset]\nsize = \"0B\"", "dataset.size"),
        ("[read]\nworker_rate = \"0Mbit/s\"", "read.worker_rate"),
        ("[write]\nworker_rate = \"1Mbit/s\"\nmin_workers = 0", "write.min_workers"),
        ("[write]\nworker_rate = \"1Mbit/s\"\nmin_workers = 9\nmax_workers = 2", "write.max_workers"),
        ("[expected]\noptimum = { read = 1, network = 900, write = 1 }", "expected.optimum"),
        ("[expected]\nthroughput_share_min = 85.0", "expected.throughput_share_min"),
        ("[[timeline]]\nat = \"5s\"\n[[timeline]]\nat = \"5s\"", "timeline[1].at"),
        ("[[timeline]]\nat = \"5s\"\nread.worker_rate = \"1Mbit/s\"", "timeline[0].read"),
        ("[[timeline]]\nat = \"5s\"\nlink.rate = \"0Mbit/s\"", "timeline[0].link.rate"),
    ] {
        let error = with(extra);
        assert!(error.starts_with(key), "{error}");
    }
    assert!(refused(&GOOD.replace("small", "Not a name")).starts_with("name"));
}
