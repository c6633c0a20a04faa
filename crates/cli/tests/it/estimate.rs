//! `tidegate estimate` against real endpoints: how many streams, how fast, how long, and what it says when it
//! cannot tell.

use crate::common;
use crate::common::World;
use serde_json::{Value, json};
use testkit::scripted::{Request, Scripted, Then, http};

/// 10 Mbit/s a stream and 40 Mbit/s in all: four streams.
const FOUR: [&str; 4] = ["--limit-network", "10Mbit/s", "--limit-link", "40Mbit/s"];

fn streams(answer: &Value) -> u64 {
    answer["streams"].as_u64().expect("a number")
}

/// The address of an endpoint that has ended.
fn nowhere(world: &World) -> String {
    world.endpoint("gone", &[]).at("x")
}

#[test]
fn the_knee_of_a_path_is_found_between_two_endpoints_and_from_here() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    for (from, to) in
        [(a.at(""), b.at("x")), ("./here".to_owned(), b.at("x")), (a.at("x"), "here".to_owned())]
    {
        let arguments = ["estimate", &from, &to, "--bytes", "1GiB", "--sample-time", "400ms"];
        let (code, answer) = world.json(&[&arguments[..], &FOUR].concat());
        assert_eq!(code, 0, "{answer}");
        let sampled = answer["samples"].as_array().expect("samples");
        // On a busy machine a sample may show the machine instead of the limits.
        let undisturbed = sampled.iter().all(|sample| {
            let allowed = (10e6 * streams(sample) as f64).min(40e6);
            (sample["throughput_bps"].as_f64().expect("a rate") / allowed - 1.0).abs() < 0.15
        });
        let expected = if undisturbed { 3..=6 } else { 2..=32 };
        assert!(expected.contains(&streams(&answer)), "{from} {to}: {answer}");
        let ns: Vec<u64> = sampled.iter().map(streams).collect();
        assert!(ns.starts_with(&[1, 2, 4]), "{answer}");
        assert_eq!((&answer["origin"]["kind"], &answer["sampler"]), (&"sampled".into(), &"native".into()));
        assert!(answer["pays"] == true && answer["cost_ms"].as_u64() > Some(0), "{answer}");
        let bytes: u64 = sampled.iter().map(|sample| sample["bytes"].as_u64().expect("bytes")).sum();
        assert_eq!(answer["cost_bytes"].as_u64(), Some(bytes));
        assert!(bytes > 0, "{answer}");
        assert!(!answer.to_string().contains(a.secret()) && !answer.to_string().contains(b.secret()));
    }
    // Under a limit of one's own nothing is learned about the path.
    let arguments = ["estimate", "here", &b.at("x"), "--bytes", "1MiB", "--use-history"];
    let (_, answer) = world.json(&arguments);
    assert_eq!(answer["origin"]["kind"], "not_sampled", "{answer}");
}

/// Samples of such rates in Mbit/s with 1, 2, 4, … streams from here to `address`, as an export has them.
fn samples_to(address: &str, mtu: Option<u64>, mbps: &[u64]) -> String {
    let site = format!("tg://{}", address.split_once('@').expect("a ticket").1.trim_end_matches("/x"));
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis();
    let line = |(i, mbps): (usize, &u64)| {
        let conditions = mtu.map_or_else(|| json!({}), |mtu| json!({ "mtu_bytes": mtu }));
        let sample = json!({
            "kind": "sample", "source": "local", "destination": site, "method": "native", "streams": 1 << i,
            "throughput_bps": mbps * 1_000_000, "bytes": 1_000_000, "duration_ms": 1000, "conditions": conditions,
            "beside_jobs": 0, "beside_bps": 0, "at_ms": now as u64,
        });
        sample.to_string() + "\n"
    };
    mbps.iter().enumerate().map(line).collect()
}

#[test]
fn published_models_answer_where_they_are_asked_for() {
    let world = World::new();
    let nowhere = nowhere(&world);
    // A link of 800 Mbit/s that gives a stream 100.
    world.write("known.jsonl", samples_to(&nowhere, None, &[100, 200, 400, 800, 800]));
    assert_eq!(world.run(&["history", "import", "known.jsonl"]).code, 0);
    let ask = |model: &[&str]| {
        let arguments = ["estimate", "x", &nowhere, "--bytes", "10GiB", "--use-history"];
        let (code, answer) = world.json(&[&arguments[..], model].concat());
        assert_eq!((code, &answer["origin"]["kind"]), (0, &"history".into()), "{answer}");
        answer
    };
    let (ours, published) = (ask(&[]), ask(&["--model", "published"]));
    assert_eq!((streams(&ours), &ours["model"]), (8, &"knee".into()), "{ours}");
    assert!(streams(&published) > 8 && published["model"] == "full_second_order", "{published}");
    assert_eq!(ask(&["--model", "averaged"])["streams"], ours["streams"]);
    assert_eq!(ask(&["--model=full_second_order"])["streams"], published["streams"]);
    assert_eq!(streams(&ask(&["--model=hacker"])), 32, "twice what was sampled: it knows no end");
    let refused = world.run(&["estimate", "x", &nowhere, "--bytes", "1GiB", "--model", "newton"]);
    assert!(refused.code == 2 && refused.err.lines().count() == 1, "{refused:?}");
    for name in ["averaged", "published", "full_second_order", "dynamic_order", "dinda", "hacker"] {
        assert!(refused.err.contains(name), "{refused:?}");
    }
}

#[test]
fn a_path_whose_mtu_has_changed_is_measured_anew() {
    let name = "a_path_whose_mtu_has_changed_is_measured_anew";
    if !testkit::is_root() {
        return testkit::skip(name, "no network namespace can be made here");
    }
    let world = World::new();
    let nowhere = nowhere(&world);
    world.write("known.jsonl", samples_to(&nowhere, Some(9000), &[100, 200, 400, 800, 800]));
    assert_eq!(world.run(&["history", "import", "known.jsonl"]).code, 0);
    // Loopbacks of our own, on which nobody listens.
    let script = "for mtu in 9000 1500; do ip link set lo up mtu $mtu || exit 77; \
        tidegate estimate x \"$0\" --bytes 10GiB --use-history --json; echo $?; done";
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().expect("a directory");
    let mut command = std::process::Command::new("unshare");
    command.args(["--net", "--map-root-user", "sh", "-c", script, &nowhere]).current_dir(world.path(""));
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
    command.env("XDG_STATE_HOME", world.path("state")).env("HOME", world.path("home"));
    let ran = common::finish(&mut command);
    let lines: Vec<&str> = ran.out.lines().collect();
    let [same, "0", other, code] = lines[..] else {
        assert!(ran.code == 77 || ran.err.contains("unshare"), "{ran:?}");
        return testkit::skip(name, "no network namespace can be made here");
    };
    let (same, other): (Value, Value) =
        (serde_json::from_str(same).expect("JSON"), serde_json::from_str(other).expect("JSON"));
    assert_eq!((streams(&same), &same["origin"]["kind"]), (8, &"history".into()), "{same}");
    // There what it was at another MTU is no answer, and it cannot be measured now.
    assert_eq!((code, &other["status"]), ("1", &"failed".into()), "{other}");
}

/// The processes that an endpoint runs.
fn children(endpoint: &common::Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", endpoint.id())).expect("it runs");
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flatten().map(|task| of(task).split_whitespace().count()).sum()
}

#[test]
fn an_endpoint_runs_iperf3_for_whoever_holds_a_ticket() {
    if !testkit::has("an_endpoint_runs_iperf3_for_whoever_holds_a_ticket", &["iperf3"]) {
        return;
    }
    let world = World::new();
    let (a, b) = (world.endpoint("a", &["--iperf3=0"]), world.endpoint("b", &[]));
    let all = ["--sampler", "iperf3", "--max-streams", "2", "--bytes", "10TiB"];
    for (from, to) in [("x".to_owned(), a.at("x")), (a.at("x"), "x".to_owned())] {
        let (code, answer) = world.json(&[&["estimate", &from, &to][..], &all].concat());
        assert_eq!(
            (code, &answer["sampler"], &answer["origin"]["kind"]),
            (0, &"iperf3".into(), &"sampled".into()),
            "{answer}"
        );
        // Each sample has a server of its own.
        assert_eq!(answer["samples"].as_array().map(Vec::len), Some(2), "{answer}");
        assert!(!answer.to_string().contains(a.secret()));
    }
    common::eventually(|| children(&a) == 0);
    // The ticket of another endpoint opens nothing, and no server is started.
    let stranger = format!("tg://{}@{}/x", b.secret(), a.place());
    let cases = [(stranger.as_str(), "certificate"), (&b.at("x"), "--iperf3")];
    // Where nothing is remembered.
    let database = format!("sqlite:{}", world.text("other.db"));
    for (to, part) in cases {
        let ran = world.run(&[&["estimate", "x", to, "--database", &database][..], &all].concat());
        assert!(ran.code == 1 && ran.err.lines().count() == 1 && ran.err.contains(part), "{to}: {ran:?}");
        assert!(!ran.err.contains(b.secret()), "{ran:?}");
        assert_eq!(children(&a), 0);
    }
    assert_eq!(a.terminate(), 0);
}

/// The address of an endpoint with a ticket that is narrower by `option`.
fn narrowed(world: &World, endpoint: &common::Server, option: &str) -> String {
    let name = endpoint.root.file_name().and_then(|name| name.to_str()).expect("text");
    let state = world.state_of(name);
    let state = state.to_str().expect("text");
    world.ok(&["ticket", &endpoint.place(), "--state", state, option]).trim_end().to_owned()
}

fn reads_of(world: &World, endpoint: &common::Server) -> String {
    narrowed(world, endpoint, "--read-only")
}

fn writes_of(world: &World, endpoint: &common::Server) -> String {
    narrowed(world, endpoint, "--write-only")
}

/// A directory with an iperf3 that is `script`, or the real one.
fn programs(world: &World, name: &str, script: Option<&str>) -> std::path::PathBuf {
    let place = format!("{name}/iperf3");
    match script {
        Some(script) => world.write(&place, format!("#!/bin/sh\n{script}\n")),
        None => world.write(&place, "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin exec iperf3 \"$@\"\n"),
    }
    let mut executable = std::process::Command::new("chmod");
    assert!(executable.arg("700").arg(world.path(&place)).status().expect("started").success());
    world.path(name)
}

#[test]
fn two_endpoints_measure_between_them_by_iperf3() {
    if !testkit::has("two_endpoints_measure_between_them_by_iperf3", &["iperf3"]) {
        return;
    }
    let world = World::new();
    let (a, b) = (world.endpoint("a", &["--iperf3=0"]), world.endpoint("b", &["--iperf3=0"]));
    for (from, to) in [(&a, &b), (&b, &a)] {
        let arguments =
            ["--sampler", "iperf3", "--max-streams", "2", "--bytes", "10TiB", "--tcp-buffer", "128KiB"];
        let (code, answer) =
            world.json(&[&["estimate", &from.at("x"), &to.at("x")][..], &arguments].concat());
        assert_eq!(
            (code, &answer["sampler"], &answer["origin"]["kind"]),
            (0, &"iperf3".into(), &"sampled".into()),
            "{answer}"
        );
        let samples = answer["samples"].as_array().expect("samples");
        let streams: Vec<_> = samples.iter().filter_map(|sample| sample["streams"].as_u64()).collect();
        assert_eq!(streams, [1, 2], "{answer}");
        assert!(samples.iter().all(|sample| sample["bytes"].as_u64() > Some(0)), "{answer}");
        assert!(!answer.to_string().contains(a.secret()) && !answer.to_string().contains(b.secret()));
    }
    // Tickets are those of a copy the same way: to read where data comes from, to write where it goes to.
    let test = ["--streams", "3", "--bytes", "1MiB"];
    let (from, to) = (reads_of(&world, &a), writes_of(&world, &b));
    let out = world.ok(&[&["iperf3", &from, "--to", &to][..], &test].concat());
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["end"]["streams"].as_array().map(Vec::len), Some(3), "{out}");
    assert_eq!(report["start"]["test_start"]["reverse"], 0);
    let late = ["--time", "1s", "--omit", "1s"];
    let out = world.ok(&[&["iperf3", &from, "--to", &to][..], &late].concat());
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&report["start"]["test_start"]["omit"], &report["start"]["test_start"]["duration"]),
        (&1.into(), &1.into())
    );
    let (from, to) = (writes_of(&world, &a), reads_of(&world, &b));
    let out = world.ok(&[&["iperf3", &from, "--to", &to, "--reverse"][..], &test].concat());
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["start"]["test_start"]["reverse"], 1);
    common::eventually(|| children(&a) + children(&b) == 0);
    let none = world.endpoint("none", &[]);
    for (from, to, more, part) in [
        (writes_of(&world, &a), b.at(""), "--streams=1", "the ticket does not allow reading"),
        (a.at(""), reads_of(&world, &b), "--streams=1", "the ticket does not allow writing"),
        (reads_of(&world, &a), b.at(""), "--reverse", "the ticket does not allow writing"),
        (a.at(""), writes_of(&world, &b), "--reverse", "the ticket does not allow reading"),
        (a.at(""), none.at(""), "--streams=1", "start the endpoint with --iperf3"),
        (none.at(""), b.at(""), "--streams=1", "start the endpoint with --iperf3"),
    ] {
        let ran = world.run(&["iperf3", &from, "--to", &to, more]);
        assert!(ran.code != 0 && ran.err.lines().count() == 1 && ran.err.contains(part), "{part}: {ran:?}");
        assert_eq!(children(&a) + children(&b), 0, "{part}");
    }
    for arguments in [
        &["iperf3", "--to", "/here", "tg://h"][..],
        &["iperf3", "--to", "tg://h", "/here"],
        &["iperf3", "tg://h", "--streams", "2"],
        &["iperf3", "tg://h", "--to", "tg://i", "--streams", "129"],
        &["iperf3", "tg://h", "--to", "tg://i", "--", "-P", "4"],
        &["iperf3", "tg://h", "--to", "tg://i", "--omit", "61s"],
        &["iperf3", "tg://h", "--to", "tg://i", "--bytes", "1MiB", "--omit", "1s"],
    ] {
        assert_eq!(world.run(arguments).code, 2, "{arguments:?}");
    }
    assert_eq!((a.terminate(), b.terminate()), (0, 0));
}

#[test]
fn what_fails_between_two_endpoints_is_told_in_one_line() {
    if !testkit::has("what_fails_between_two_endpoints_is_told_in_one_line", &["iperf3"]) {
        return;
    }
    let world = World::new();
    let real = world.endpoint("real", &["--iperf3=0"]);
    // Says that it listens where nobody does.
    let deaf = "case \"$*\" in --version) exit 0;; esac; echo 'Server listening on 5201'; exec /bin/sleep 60";
    let deaf = world.endpoint_with(&programs(&world, "deaf-programs", Some(deaf)), "deaf", &["--iperf3=0"]);
    // Had one when it was started.
    let place = programs(&world, "gone-programs", None);
    let gone = world.endpoint_with(&place, "gone", &["--iperf3=0"]);
    std::fs::remove_file(place.join("iperf3")).expect("removed");
    for (from, to, part) in [
        (&real, &deaf, "Connection refused"),
        (&real, &gone, "iperf3 is not installed there"),
        (&gone, &real, "iperf3 is not installed there"),
    ] {
        let ran = world.run(&["iperf3", &from.address, "--to", &to.address]);
        assert!(ran.code == 1 && ran.err.lines().count() == 1 && ran.err.contains(part), "{part}: {ran:?}");
        assert!(!ran.err.contains(from.secret()) && !ran.err.contains(to.secret()), "{ran:?}");
        common::eventually(|| children(&real) + children(&deaf) + children(&gone) == 0);
    }
    // Whoever asked has left, and the time is over: nothing runs on.
    let other = world.endpoint("other", &["--iperf3=0"]);
    let start = |limit: &str| {
        let mut command = world.command();
        command.args(["iperf3", &real.address, "--to", &other.address, "--time", "60s", "--limit", limit]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("started")
    };
    let child = start("60s");
    common::eventually(|| children(&real) == 1 && children(&other) == 1);
    common::signal(child.id(), rustix::process::Signal::KILL);
    assert_eq!(common::wait(child).code, -1);
    common::eventually(|| children(&real) + children(&other) == 0);
    let ran = common::wait(start("1s"));
    assert!(ran.code == 1 && !ran.err.is_empty(), "{ran:?}");
    common::eventually(|| children(&real) + children(&other) == 0);
}

#[test]
fn an_iperf3_server_lives_no_longer_than_who_asked_for_it() {
    if !testkit::has("an_iperf3_server_lives_no_longer_than_who_asked_for_it", &["iperf3"]) {
        return;
    }
    let world = World::new();
    let a = world.endpoint("a", &["--iperf3=0"]);
    let start = |limit: &str| {
        let mut command = world.command();
        command.args(["iperf3", "--limit", limit, &a.address, "--", "-t", "60"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("started")
    };
    let child = start("60s");
    common::eventually(|| children(&a) == 1);
    common::signal(child.id(), rustix::process::Signal::KILL);
    assert_eq!(common::wait(child).code, -1);
    common::eventually(|| children(&a) == 0);
    // Its time is over.
    let ran = common::wait(start("1s"));
    assert!(ran.code == 1 && !ran.err.is_empty(), "{ran:?}");
    common::eventually(|| children(&a) == 0);
    // There are so many at a time, and one more is told so.
    let mut many: Vec<_> = (0..4).map(|_| start("60s")).collect();
    common::eventually(|| {
        if let Some(ended) = many.iter_mut().position(|one| one.try_wait().expect("ours").is_some()) {
            panic!("one ended before its time: {:?}", common::wait(many.remove(ended)));
        }
        children(&a) == 4
    });
    let ran = common::wait(start("60s"));
    assert!(ran.code != 0 && ran.err.contains("iperf3 servers run already"), "{ran:?}");
    // And they end with the endpoint.
    assert_eq!(a.terminate(), 0);
    for child in many {
        assert_ne!(common::wait(child).code, 0);
    }
}

#[test]
fn what_was_sampled_answers_the_next_time() {
    let world = World::new();
    let b = world.endpoint("b", &[]);
    let all = ["--max-streams", "4", "--sample-time", "400ms"];
    let first = ["estimate", "here", &b.at("x"), "--bytes", "10PB"];
    let text = world.ok(&[&first[..], &all].concat());
    assert!(text.starts_with("local → tg://127.0.0.1:") && text.contains("◆"), "{text}");
    assert!(text.contains(" days\n") && !text.contains(b.secret()), "{text}");
    let again = ["estimate", "other", &b.at("y"), "--bytes", "1GiB", "--max-streams", "4"];
    for age in ["--use-history", "--use-history=1h"] {
        let (code, answer) = world.json(&[&again[..], &[age]].concat());
        assert_eq!((code, &answer["origin"]["kind"]), (0, &"history".into()), "{answer}");
        assert_eq!(answer["cost_ms"], 0);
        assert!(answer["samples"].as_array().is_some_and(|samples| samples.len() == 3), "{answer}");
        assert!(text.contains(&format!("streams     {} (", streams(&answer))), "{text}\n{answer}");
    }
    // A small file is not worth a sample, but what is known costs nothing.
    let small = ["estimate", "other", &b.at("y"), "--bytes", "1MiB"];
    let (_, answer) = world.json(&small);
    assert_eq!(answer["origin"]["kind"], "history", "{answer}");
    assert!(answer["notes"][0].as_str().is_some_and(|note| note.contains("sooner")), "{answer}");
    // Neither is there a path any more, and it is still known.
    drop(b);
    let (code, answer) = world.json(&again);
    assert_eq!((code, &answer["origin"]["kind"]), (0, &"history".into()), "{answer}");
    assert!(
        answer["notes"][0].as_str().is_some_and(|note| note.contains("could not be measured")),
        "{answer}"
    );
}

#[test]
fn nothing_and_little_are_answered_without_a_sample() {
    let world = World::new();
    world.write("empty", "");
    let nowhere = nowhere(&world);
    let (code, answer) = world.json(&["estimate", "empty", &nowhere]);
    assert_eq!((code, streams(&answer), answer["time_ms"].as_u64()), (0, 1, Some(0)), "{answer}");
    let text = world.ok(&["estimate", "x", &nowhere, "--bytes", "900KiB"]);
    assert!(
        text.contains("900 KiB is moved sooner than sampling pays") && text.contains("not known"),
        "{text}"
    );
    let text = world.ok(&["estimate", "x", &nowhere, "--bytes", "99MiB", "--sample-size", "10MiB"]);
    assert!(text.contains("less than 10 samples of 10 MiB"), "{text}");
}

#[test]
fn files_of_a_server_are_sampled_by_ranges_of_them() {
    const SIZE: usize = 32 << 20;
    let world = World::new();
    let web = Scripted::http(|request| {
        let size = SIZE.to_string();
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let number = |text: &str| text.parse::<usize>().expect("a number");
        if !request.path().ends_with("/big") {
            return (http("404 Not Found", &[("Content-Length", "0")], b""), Then::Keep);
        }
        match range.filter(|_| request.lines[0].starts_with("GET ")) {
            Some((first, last)) => {
                let (first, last) = (number(first), number(last));
                let range = format!("bytes {first}-{last}/{SIZE}");
                let length = (last + 1 - first).to_string();
                let headers = [("Content-Length", length.as_str()), ("Content-Range", &range)];
                (http("206 Partial Content", &headers, &vec![0; last + 1 - first]), Then::Keep)
            }
            None => {
                let headers = [("Content-Length", size.as_str()), ("Accept-Ranges", "bytes")];
                (http("200 OK", &headers, b""), Then::Keep)
            }
        }
    });
    let estimate = |name: &str| {
        let url = web.url(name);
        let arguments = ["estimate", url.as_str(), "here/", "--bytes", "1GiB", "--sample-time", "400ms"];
        world.json(&[&arguments[..], &FOUR, &["--max-streams", "2"]].concat())
    };
    let (code, missing) = estimate("none");
    assert!(code == 1 && missing["error"].as_str().is_some_and(|why| why.contains("404")), "{missing}");
    let (code, answer) = estimate("big");
    assert_eq!(
        (code, &answer["sampler"], &answer["origin"]["kind"]),
        (0, &"ranges".into(), &"sampled".into())
    );
    let ns: Vec<u64> = answer["samples"].as_array().expect("samples").iter().map(streams).collect();
    assert_eq!(ns, [1, 2], "{answer}");
    // Each byte once a sample at the most, and nothing else.
    let cost = answer["cost_bytes"].as_u64().expect("bytes");
    assert!(cost > 0 && cost <= 2 * SIZE as u64, "{answer}");
    let got = |request: &Request| request.lines[0].starts_with("GET ");
    let requests = web.requests();
    assert!(requests.iter().filter(|request| got(request)).count() >= 3, "{requests:?}");
    let of_the_file = |request: &&Request| request.path() == "/big" && request.header("range").is_some();
    assert!(
        requests.iter().filter(|request| got(request)).all(|request| of_the_file(&request)),
        "{requests:?}"
    );
}

#[test]
fn what_cannot_be_measured_is_one_line() {
    let world = World::new();
    let nowhere = nowhere(&world);
    let secret = nowhere.split_once('@').expect("a ticket").0.trim_start_matches("tg://");
    let big = ["--bytes", "1GiB"];
    let cases: &[(&[&str], i32, &str)] = &[
        (&["x", &nowhere], 1, "onnection refused"),
        (&["x", "ftp://127.0.0.1:1/x", "--sample-size", "1MiB"], 1, "globus-url-copy"),
        (&["x", "https://127.0.0.1:1/x", "--iperf3", "127.0.0.1:1"], 1, "iperf3"),
        (&["x", "y"], 2, "no sampler speaks to both ends"),
        (&["x", "https://h/y"], 2, "no sampler speaks to both ends"),
        (&["http://127.0.0.1:1/x", "y"], 1, "127.0.0.1:1"),
        (&["https://h/x", "y", "--sampler", "native"], 2, "both ends are on this host"),
        (&["s3://b/x", "gsiftp://h/y", "--sampler", "ranges"], 2, "destination is to be a path"),
        (&["x", "y", "--sampler", "ranges"], 2, "ranges sampler reads files of"),
        (&["tg://h", "tg://i", "--iperf3", "h"], 2, "one end is to be here"),
        (&["x", "ftp://h/y", "--sampler", "iperf3"], 2, "iperf3 needs a server"),
        (&["x", &nowhere, "--sampler", "ping"], 2, "no sampler"),
        (&["x", &nowhere, "--sample-time", "1ms"], 2, "400ms"),
        (&["x", &nowhere, "--threshold", "7"], 2, "share"),
        (&["x", "unknown:y"], 2, "no endpoint is called 'unknown'"),
    ];
    for (arguments, code, part) in cases {
        let arguments = [&["estimate"], *arguments, &big].concat();
        let ran = world.run(&arguments);
        assert!(ran.code == *code && ran.err.lines().count() == 1, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(part) && !ran.err.contains(secret), "{arguments:?}: {ran:?}");
    }
    let (code, answer) = world.json(&["estimate", "x", &nowhere, "--bytes", "1GiB"]);
    assert_eq!((code, &answer["status"]), (1, &"failed".into()), "{answer}");
    let ran = world.run(&["estimate", "missing", &nowhere]);
    assert!(ran.code == 2 && ran.err.contains("--bytes SIZE is needed"), "{ran:?}");
}

#[test]
fn an_interrupted_estimate_ends_at_once_and_so_does_its_sample() {
    let world = World::new();
    let b = world.endpoint("b", &[]);
    let mut command = world.command();
    command.args(["estimate", "x", &b.at("x"), "--bytes", "1PB", "--sample-time", "60s"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("started");
    // The log of the run that measures.
    common::eventually(|| world.path("state/tidegate/runs").exists());
    common::signal(child.id(), rustix::process::Signal::TERM);
    let ran = common::wait(child);
    assert!(ran.code == 130 && ran.err.contains("interrupted"), "{ran:?}");
}
