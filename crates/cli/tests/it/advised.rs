//! What jobs and clients say of their estimate: a service that is asked for one, and jobs that bring a policy.

use crate::common;
use crate::common::service::Service;
use crate::common::{World, eventually};
use serde_json::Value;

/// 10 Mbit/s a stream and 40 Mbit/s in all.
const FOUR: [&str; 4] = ["--limit-network", "10Mbit/s", "--limit-link", "40Mbit/s"];

const POLICY: &[u8] = include_bytes!("../../../control/policies/universal.safetensors");

#[test]
fn a_running_service_measures_remembers_and_tells_how_it_goes() {
    let world = World::new();
    let (service, endpoint) = (Service::start(&world, "service", &[]), world.endpoint("there", &[]));
    let arguments = [
        "estimate",
        "/data/x",
        &endpoint.at("x"),
        "--bytes",
        "1GiB",
        "--server",
        &service.url,
        "--sample-time=400ms",
    ];
    let (code, answer) = service.json(&world, &[&arguments[..], &FOUR].concat());
    assert_eq!((code, &answer["origin"]["kind"]), (0, &"sampled".into()), "{answer}");
    assert!(answer["samples"].as_array().is_some_and(|samples| samples.len() >= 2), "{answer}");
    assert_eq!((&answer["beside_jobs"], answer["source"].as_str()), (&0.into(), Some("local")), "{answer}");
    // Under the same limits the service knows it now, and under others it does not take it for an answer.
    let (_, known) = service.json(&world, &[&arguments[..], &FOUR, &["--use-history"]].concat());
    assert_eq!(known["origin"]["kind"], "history", "{known}");
    // It answers by the models that are asked for.
    let hacker = [&arguments[..], &FOUR, &["--use-history", "--model=hacker"]].concat();
    let (_, hacker) = service.json(&world, &hacker);
    assert_eq!(
        (&hacker["origin"]["kind"], &hacker["model"]),
        (&"history".into(), &"hacker".into()),
        "{hacker}"
    );
    let (_, other) =
        service.json(&world, &[&arguments[..], &FOUR[..2], &["--use-history", "--max-streams=2"]].concat());
    assert_eq!(other["origin"]["kind"], "sampled", "{other}");
    let samples = service.run(&world, &["history", "samples", "--json"]);
    let samples: Value = serde_json::from_str(&samples.out).expect("JSON");
    assert_eq!(samples["records"][0]["conditions"]["limits_bps"]["network"], 10_000_000, "{samples}");
    // A client that accepts events is told of each sample.
    let body = serde_json::json!({
        "source": "/data/y", "destination": endpoint.at("x"), "bytes": 1u64 << 40, "max_streams": 2,
        "limit_network": 20_000_000,
    });
    let told =
        common::service::post_for(&service, "/api/v1/estimates", "text/event-stream", &body.to_string());
    assert!(told.contains("event: sampling") && told.contains("\"event\":\"sampled\""), "{told}");
    assert!(told.contains("event: answer") && !told.contains(endpoint.secret()), "{told}");
    // What makes no sense, and who is not there, are one line.
    let wrong = service
        .run(&world, &["estimate", "ftp://h/x", "tg://T@h/y", "--bytes=1GiB", "--server", &service.url]);
    assert!(
        wrong.code == 2 && wrong.err.lines().count() == 1 && wrong.err.contains("no sampler speaks"),
        "{wrong:?}"
    );
    let away =
        service.run(&world, &["estimate", "/a", "/b", "--bytes=1GiB", "--server", "http://127.0.0.1:9"]);
    assert!(
        away.code == 1 && away.err.lines().count() == 1 && away.err.contains("does not answer"),
        "{away:?}"
    );
    assert_eq!(service.terminate(), 0);
}

#[test]
fn the_content_of_a_policy_goes_with_a_job() {
    let world = World::new();
    let (service, endpoint) = (Service::start(&world, "service", &[]), world.endpoint("there", &[]));
    world.fill("data", 1 << 20, 3);
    world.write("mine.policy", POLICY);
    let submit = |more: &[&str]| {
        service.run(
            &world,
            &[&["submit", "data", &endpoint.at("in"), "--no-optimization", "--wait"][..], more].concat(),
        )
    };
    let ran = submit(&["--option=--optimizer=policy", "--policy", "mine.policy"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    let job = service.job(&world, 1);
    assert!(job["request"]["policy"].as_str().is_some_and(|policy| policy.starts_with("blake3:")), "{job}");
    assert_eq!(job["summary"]["optimizer"], "policy", "{job}");
    assert_eq!(world.read("there/in"), world.read("data"));
    // It is handed on as a file, which is gone afterwards.
    eventually(|| {
        let left = std::fs::read_dir(world.path("service/jobs")).expect("a directory").flatten();
        left.into_iter().all(|entry| !entry.path().to_string_lossy().ends_with(".policy"))
    });
    // A record is written while the job goes on to its end.
    eventually(|| {
        let (_, history) = service.json(&world, &["history", "transfers"]);
        let record = &history["records"][0];
        record["beside_jobs"] == 0 && record["conditions"].is_object()
    });
    for (more, part) in [
        (&["--option=--optimizer=policy"][..], "needs a policy"),
        (&["--policy", "mine.policy"], "no policy"),
        (&["--option=--optimizer=policy", "--policy", "data"], "its policy"),
        (&["--option=--optimizer=policy", "--policy", "nowhere"], "nowhere"),
        (&["--sampler=gridftp"], "gridftp"),
    ] {
        let ran = submit(more);
        assert!(ran.code == 2 && ran.err.lines().count() == 1 && ran.err.contains(part), "{more:?}: {ran:?}");
    }
    assert_eq!(service.terminate(), 0);
}
