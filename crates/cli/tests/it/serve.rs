//! The service as a program: jobs given by the command line are moved, survive a crash, and tell no secrets.

use crate::common;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::common::service::Service;
use crate::common::{World, eventually, signal};
use rustix::process::Signal;
use serde_json::Value;

/// The numbers of the jobs that were taken.
fn ids(submitted: &Value) -> Vec<u64> {
    submitted["ids"].as_array().expect("numbers").iter().filter_map(Value::as_u64).collect()
}

#[test]
fn jobs_are_submitted_moved_shown_and_cancelled() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("data/a", 300_000, 1);
    world.fill("data/b", 200_000, 2);
    let service = Service::start(&world, "svc", &[]);

    let ran = service.run(&world, &["submit", "data", &endpoint.at("in"), "--wait"]);
    assert!(ran.code == 0 && ran.out.contains("job 1 submitted"), "{ran:?} {}", service.log());
    assert_eq!(world.read("there/in/data/a"), world.read("data/a"));
    let (code, job) = service.json(&world, &["job", "1"]);
    assert_eq!(
        (code, job["state"].as_str(), job["summary"]["verified"].as_bool()),
        (0, Some("done"), Some(true))
    );
    assert_eq!(job["summary"]["bytes"], 500_000);
    assert_eq!(job["actions"].as_array().map(Vec::len), Some(0));
    let history = service.run(&world, &["history", "transfers", "--json"]);
    assert!(history.code == 0 && history.out.contains("\"goodput_bps\""), "{history:?}");

    // A job file of ours and one of Stork's, with paths relative to the file and a dependency.
    let toml = format!(
        "[[job]]\nname = \"first\"\nsource = \"data/a\"\ndestination = \"{0}\"\n\n\
         [[job]]\nsource = \"data/b\"\ndestination = \"{0}\"\nafter = [\"first\"]\noptimization = false\n",
        endpoint.at("toml/")
    );
    world.write("two.toml", toml);
    let stork = format!(
        "[\n  dap_type = transfer;\n  src_url = \"file://{}\";\n  dest_url = \"{}\";\n  log = \"{}\";\n]\n",
        world.text("data/b"),
        endpoint.at("stork/"),
        world.text("stork.log")
    );
    world.write("one.stork", stork);
    let (code, taken) = service.json(&world, &["submit", "two.toml", "one.stork"]);
    assert_eq!((code, ids(&taken)), (0, vec![2, 3, 4]));
    for id in [2, 3, 4] {
        eventually(|| service.job(&world, id)["state"] == "done");
    }
    assert_eq!(world.read("there/stork/b"), world.read("data/b"));
    assert!(String::from_utf8_lossy(&world.read("stork.log")).contains("DONE"));

    // One that takes long: followed, paused, resumed, cancelled.
    world.fill("long", 8 << 20, 3);
    let slow = ["submit", "long", &endpoint.at("slow"), "--option=--limit-link=2Mbit/s", "--no-optimization"];
    let (_, taken) = service.json(&world, &slow);
    assert_eq!(ids(&taken), [5]);
    let (mut following, mut epochs) = service.follow(&world, "5");
    let first = epochs.next().expect("an epoch");
    assert!(first["data"]["throughput_bps"]["network"].is_u64(), "{first}");
    let (code, job) = service.json(&world, &["job", "5", "--pause"]);
    assert!(code == 0 && ["pausing", "paused"].iter().any(|state| job["state"] == *state), "{job}");
    eventually(|| service.job(&world, 5)["state"] == "paused");
    let again = service.run(&world, &["job", "5", "--pause"]);
    assert!(again.code == 1 && again.err.contains("paused"), "{again:?}");
    assert_eq!(service.run(&world, &["job", "5", "--resume"]).code, 0);
    eventually(|| service.job(&world, 5)["state"] == "running");
    let (code, cancelled) = service.json(&world, &["cancel", "5"]);
    assert!(code == 0 && cancelled[0]["id"] == 5, "{cancelled}");
    eventually(|| service.job(&world, 5)["state"] == "cancelled");
    assert_eq!(service.json(&world, &["job", "5"]).0, 130);
    drop(epochs);
    assert_eq!(following.wait().expect("waited").code(), Some(130));

    let (code, page) = service.json(&world, &["jobs", "--limit", "2"]);
    assert_eq!(
        (code, page["jobs"][0]["id"].as_u64(), page["jobs"].as_array().map(Vec::len)),
        (0, Some(5), Some(2))
    );
    assert_eq!((page["counts"]["done"].as_u64(), page["counts"]["cancelled"].as_u64()), (Some(4), Some(1)));
    let (_, done) = service.json(&world, &["jobs", "--only", "done"]);
    assert_eq!(done["jobs"].as_array().map(Vec::len), Some(4));
    let text = service.run(&world, &["jobs"]);
    assert!(text.code == 0 && text.out.contains("1 cancelled"), "{text:?}");

    // No secret leaves it.
    let told = [page.to_string(), text.out, service.run(&world, &["job", "1"]).out, service.log()].concat();
    assert!(!told.contains(endpoint.secret()) && !told.contains(&service.token()), "a secret was told");
    assert_eq!(service.terminate(), 0);
}

#[test]
fn a_job_copies_what_its_rules_and_lists_choose_and_has_them_with_it() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    for (name, size) in
        [("a.c", 10), ("a.tmp", 10), ("d/b.c", 10), ("d/large", 5000), ("e/c.c", 10), ("f", 10)]
    {
        world.fill(format!("data/{name}"), size, 1);
    }
    world.write("data/d/.rules", "- b.*\n");
    world.write("rules", "# not this\n*.tmp\n+ f\n");
    world.write("list", "a.c\na.tmp\nd\nf\n");
    let service = Service::start(&world, "svc", &[]);
    let options = ["--exclude-from", "rules", "-f", ":e .rules", "--max-size=1K", "--files-from", "list"];
    let taken = service.run(&world, &[&["submit"], &options[..], &["data/", &endpoint.at("in/")]].concat());
    assert_eq!(taken.code, 0, "{taken:?}");
    // The job needs them no more.
    for file in ["rules", "list"] {
        fs::remove_file(world.path(file)).expect("removed");
    }
    eventually(|| service.job(&world, 1)["state"] == "done");
    assert_eq!(world.tree("there/in"), ["a.c", "d/", "f"]);
    let request = service.job(&world, 1)["request"].clone();
    let options = &request["options"];
    assert_eq!(options["filter"], serde_json::json!(["- *.tmp", "+ f", ":e .rules"]));
    assert_eq!(options["max_size"], 1024);

    // The same from a file of jobs, to and from here; the first rule that matches decides.
    let toml = "source = \"data/\"\ndestination = \"out/\"\n[options]\nupdate = true\n\
                filter = [{ exclude = \"e/\" }, \"+ e/***\", \"+ *.c\", \"+ */\", \"- *\"]\n";
    world.write("job.toml", toml);
    let ran = service.run(&world, &["submit", "job.toml", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(world.tree("out"), ["a.c", "d/", "d/b.c"]);

    // Rules of files that the service would read, and lists that are none.
    for body in [
        "options.filter = [\". /etc/passwd\"]",
        "options.filter = [\"merge /etc/passwd\"]",
        "options.filter = [{ filter = \". /etc/passwd\" }]",
        "options.filter = [{ exclude_from = \"/etc/passwd\" }]",
        "options.files_from = \"/etc/passwd\"",
        "options.ssh = \"sh -c id\"",
        "options.install_remote = \"/bin/sh\"",
        "options.remote_path = \"/bin/sh\"",
        "options.files = [\"a\\u0000b\"]",
        "options = [\"--update\"]",
        "files-from = \"/etc/passwd\"",
    ] {
        world.write("bad.toml", format!("source = \"/a/\"\ndestination = \"/b/\"\n{body}\n"));
        let ran = service.run(&world, &["submit", "bad.toml"]);
        assert!(ran.code == 2 && ran.err.lines().count() == 1, "{body}: {ran:?}");
    }
    let refused = post(
        &service,
        "",
        r#"{"source": "/a/", "destination": "/b/", "options": {"filter": [". /etc/passwd"]}}"#,
    );
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("where the service runs"), "{refused}");
    fs::write(world.path("list"), b"caf\xe9\n").expect("written");
    let ran = service.run(&world, &["submit", "--files-from", "list", "data/", "out/"]);
    assert!(ran.code == 2 && ran.err.contains("is not valid UTF-8"), "{ran:?}");
    assert_eq!(service.terminate(), 0);
}

/// What the service answers to a POST about jobs, its head included.
fn post(service: &Service, path: &str, body: &str) -> String {
    common::service::post_for(service, &format!("/api/v1/jobs{path}"), "*/*", body)
}

#[test]
fn what_failed_is_tried_again_by_command_and_by_the_api() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let service = Service::start(&world, "svc", &[]);
    for (source, name) in [("late", "1"), ("later", "2"), ("later", "3"), ("never", "4")] {
        let submit = ["submit", source, &endpoint.at(name), "--no-optimization"];
        assert_eq!(service.run(&world, &submit).code, 0);
    }
    let is = |id: u64, state: &str, attempts: u64| {
        eventually(|| {
            let job = service.job(&world, id);
            job["state"] == state && job["attempts"].as_u64() == Some(attempts)
        });
    };
    (1..=4).for_each(|id| is(id, "failed", 1));
    let shown = service.run(&world, &["job", "1"]);
    assert!(shown.code == 1 && shown.out.starts_with("job 1 failed\n"), "{shown:?}");
    // Alone.
    world.fill("late", 1000, 1);
    let retried = service.run(&world, &["job", "1", "--retry"]);
    assert!(retried.code == 0 && !retried.out.contains("tried again with it"), "{retried:?}");
    is(1, "done", 2);
    assert_eq!(world.read("there/1"), world.read("late"));
    // With all that failed for the same reason.
    world.fill("later", 1000, 2);
    let retried = service.run(&world, &["job", "2", "--retry", "--alike"]);
    assert!(
        retried.code == 0 && retried.out.ends_with("\n1 other job is tried again with it\n"),
        "{retried:?}"
    );
    is(2, "done", 2);
    is(3, "done", 2);
    is(4, "failed", 1);
    // By the API.
    let answer = post(&service, "/4/retry", "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"retried\":1"), "{answer}");
    is(4, "failed", 2);
    let answer = post(&service, "/1/retry?alike=true", "");
    assert!(
        answer.starts_with("HTTP/1.1 409") && answer.contains("a job that is done cannot be tried again"),
        "{answer}"
    );
    let refused = service.run(&world, &["job", "1", "--retry"]);
    assert_eq!(refused.err, "tidegate: job 1: a job that is done cannot be tried again\n");
}

#[test]
fn the_log_tells_who_had_what_moved_and_how_it_went() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("data", 300_000, 1);
    let service = Service::start(&world, "svc", &["-v"]);
    let submit = |source: &str, more: &[&str]| {
        let destination = endpoint.at("in");
        service.run(&world, &[&["submit", source, &destination, "--wait"], more].concat())
    };
    assert_eq!(submit("data", &[]).code, 0);
    // A name that would turn the direction of the line.
    assert_eq!(submit("no\u{202e}such", &["--no-optimization"]).code, 1);
    let answer = post(&service, "", "{\"source\":\"/a\u{202e}\",\"destination\":\"gopher://h/b\"}");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let log = service.log();
    let line = |parts: &[&str]| {
        let fits = |line: &&str| parts.iter().all(|part| line.contains(part));
        let found: Vec<&str> = log.lines().filter(fits).collect();
        assert_eq!(found.len(), 1, "{parts:?} in {log}");
        found[0].to_owned()
    };
    let there = format!("→ tg://{}/in", endpoint.place());
    line(&["INFO", "127.0.0.1:", "submitted job 1: ", "/data → tg://", &there]);
    let moved = line(&["INFO", "job 1 complete: ", "/data → tg://", "KiB in 1 file,", "bit/s"]);
    assert!(moved.contains(&there), "{moved}");
    line(&["INFO", "submitted job 2: ", "/no\\xe2\\x80\\xaesuch → tg://"]);
    line(&["INFO", "job 2 failed (not_found): ", "/no\\xe2\\x80\\xaesuch", "No such file"]);
    line(&["INFO", "127.0.0.1:", "submitted what was refused: ", "gopher"]);
    // With a second -v also what was decided, and why.
    line(&["DEBUG", "job 2: begin with up to 1 stream: priority 0, waited"]);
    line(&["DEBUG", "job 2: give up: not_found: "]);
    assert!(!log.contains(endpoint.secret()) && !log.contains(&service.token()), "a secret was told: {log}");
    assert!(!log.contains('\u{202e}'), "{log}");
}

#[test]
fn what_cannot_be_asked_is_said_in_one_line() {
    let world = World::new();
    let nobody = world.run(&["jobs", "--state-dir-that-is-none"]);
    assert_eq!(nobody.code, 2);
    let nobody = world.run(&["jobs"]);
    assert!(nobody.code == 2 && nobody.err.contains("tidegate serve"), "{nobody:?}");
    let service = Service::start(&world, "svc", &[]);
    for (arguments, code, wanted) in [
        (vec!["job", "7"], 3, "no job 7"),
        (vec!["cancel", "7"], 3, "no job 7"),
        (vec!["job", "x"], 2, "number"),
        (vec!["jobs", "--only", "x"], 2, "state"),
        (vec!["submit", "data"], 2, "SRC DST"),
        (vec!["submit", "none.toml"], 2, "none.toml"),
        (vec!["submit", "/a", "gopher://h/x"], 2, "gopher"),
    ] {
        let ran = service.run(&world, &arguments);
        assert!(ran.code == code && ran.err.contains(wanted), "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {ran:?}");
    }
    let wrong = common::finish(service.command(&world, &["jobs"]).env("TIDEGATE_TOKEN", "x".repeat(43)));
    assert!(wrong.code == 5 && wrong.err.contains("token"), "{wrong:?}");
    let second = common::finish(
        world.command().args(["serve", "--listen", "127.0.0.1:0"]).arg("--state").arg(world.path("svc")),
    );
    assert!(second.code == 2 && second.err.contains("in use"), "{second:?}");
    let open = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert!(open.code == 2 && open.err.contains("--tls-cert"), "{open:?}");
    let url = service.url.clone();
    assert_eq!(service.terminate(), 0);
    let gone = common::finish(
        world.command().args(["jobs", "--server", &url]).env("TIDEGATE_TOKEN", "x".repeat(43)),
    );
    assert!(gone.code == 1 && gone.err.contains(&format!("{url} does not answer")), "{gone:?}");
}

#[test]
fn five_thousand_connections_are_held_without_an_error() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    const CONNECTIONS: usize = 5000;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if limit.maximum.is_some_and(|most| most < CONNECTIONS as u64 + 500)
        || setrlimit(Resource::Nofile, limit).is_err()
    {
        return testkit::skip(
            "five_thousand_connections_are_held_without_an_error",
            "too few files may be open",
        );
    }
    let world = World::new();
    let service = Service::start(&world, "svc", &[]);
    let address = service.url.strip_prefix("http://").expect("a URL").to_owned();
    let body = r#"{"source":"/a","destination":"tg://h/","bytes":0}"#;
    let request = format!(
        "POST /api/v1/estimates HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        service.token(),
        body.len()
    );
    let ask = |stream: &mut TcpStream| {
        stream.write_all(request.as_bytes()).expect("written");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("answered");
        assert_eq!(&head, b"HTTP/1.1 200");
        let mut rest = [0; 4096];
        let count = stream.read(&mut rest).expect("answered");
        assert!(rest[..count].ends_with(b"}"), "{}", String::from_utf8_lossy(&rest[..count]));
    };
    let mut streams: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(&address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        ask(&mut stream);
        streams.push(stream);
    }
    // Those that idled are answered as well.
    streams.iter_mut().step_by(97).for_each(ask);
    let status = fs::read_to_string(format!("/proc/{}/status", service.id())).expect("its status");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 300 << 10, "{CONNECTIONS} connections take {kib} KiB");
    drop(streams);
    assert_eq!(service.terminate(), 0);
}

#[test]
fn a_service_that_was_killed_goes_on_with_its_jobs() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    let count: u64 = if testkit::is_long() { 40 } else { 12 };
    let mut jobs = String::new();
    for i in 0..count {
        world.fill(format!("data/{i}"), 40_000, i + 1);
        jobs.push_str(&format!(
            "[[job]]\nsource = \"data/{i}\"\ndestination = \"{}\"\noptimization = false\n\n",
            endpoint.at("in/")
        ));
    }
    world.write("jobs.toml", jobs);
    let mut service = Service::start(&world, "svc", &["--max-jobs", "2"]);
    let (code, taken) = service.json(&world, &["submit", "jobs.toml"]);
    assert_eq!((code, ids(&taken).len() as u64), (0, count));
    for round in 0..3 {
        // At some moment of its work, whichever that is.
        thread::sleep(Duration::from_millis(150 + 170 * round));
        service.kill();
        service = Service::start(&world, "svc", &["--max-jobs", "2"]);
    }
    eventually(|| {
        let (_, page) = service.json(&world, &["jobs", "--limit", "1"]);
        page["counts"]["done"].as_u64() == Some(count)
    });
    for i in 0..count {
        assert_eq!(world.read(format!("there/in/{i}")), world.read(format!("data/{i}")), "job {i}");
    }
    assert_eq!(fs::read_dir(world.path("there/in")).expect("listed").count() as u64, count);
    assert_eq!(service.terminate(), 0);
}

/// Bounds the size of files that a process writes, as a disk does that is full.
fn bound_files(service: &Service, most: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let id = Pid::from_raw(service.id() as i32);
    prlimit(id, Resource::Fsize, Rlimit { current: most, maximum: None }).expect("set");
}

#[test]
fn a_moment_without_room_wedges_neither_the_service_nor_a_job() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("data", 1_000_000, 1);
    let service = Service::start(&world, "svc", &[]);
    // A log of other jobs, longer than all of the service's own files.
    let before = "another job\n".repeat(1 << 20);
    world.write("job.log", &before);
    let job = format!(
        "source = \"data\"\ndestination = \"{}\"\noptimization = false\noptions.limit_link = \"4Mbit/s\"\n\
         log = \"job.log\"\noutput = \"out.json\"\n",
        endpoint.at("in")
    );
    world.write("job.toml", job);
    assert_eq!(service.json(&world, &["submit", "job.toml"]).0, 0);
    eventually(|| service.job(&world, 1)["progress"]["bytes"].as_u64() > Some(0));
    bound_files(&service, Some(100));
    let submit = || service.run(&world, &["submit", "data", &endpoint.at("more")]);
    for _ in 0..3 {
        let refused = submit();
        assert!(refused.code != 0 && refused.err.contains("has room"), "{refused:?}");
    }
    let status = |path: &str| get(&service, path)[9..12].to_owned();
    eventually(|| status("/readyz") == "503");
    assert_eq!(status("/healthz"), "200");
    eventually(|| world.path("there/in").exists());
    let log = || String::from_utf8(world.read("job.log")).expect("text")[before.len()..].to_owned();
    let begun = log();
    // There is room again, but in the log for a part of an event alone.
    bound_files(&service, Some((before.len() + begun.len()) as u64 + 10));
    eventually(|| service.job(&world, 1)["state"] == "done");
    assert!(submit().code == 0 && status("/readyz") == "200", "{}", service.log());
    eventually(|| world.path("out.json").exists() && !world.read("out.json").is_empty());
    let result: Value = serde_json::from_slice(&world.read("out.json")).expect("JSON");
    assert_eq!(result["bytes"], 1_000_000);
    eventually(|| service.log().contains("cannot write the log"));
    assert_eq!(log(), begun, "a part of an event is left");
    bound_files(&service, None);
    eventually(|| log().ends_with('\n') && log().contains(" job 1 DONE "));
    assert!(log().lines().all(|line| line.contains("Z job 1 ")), "{}", log());
}

/// What the service answers to a GET.
fn get(service: &Service, path: &str) -> String {
    let mut stream = TcpStream::connect(service.url.trim_start_matches("http://")).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: there\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

#[test]
fn a_job_of_a_named_endpoint_is_remembered_as_its_own() {
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("data", 300_000, 1);
    world.ok(&["remote", "add", "store", &endpoint.address]);
    let service = Service::start(&world, "svc", &[]);
    let ran = service.run(&world, &["submit", "data", "store:/in", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    assert_eq!(world.read("there/in"), world.read("data"));
    let pair = format!("local → tg://{}", endpoint.place());
    eventually(|| service.run(&world, &["history", "transfers"]).out.contains(&pair));
    // It can be measured by its name, too.
    let estimation = ["submit", "data", "store:/x", "--bytes", "1TiB", "--estimation", "--wait"];
    assert_eq!(service.run(&world, &estimation).code, 0, "{}", service.log());
    let job = service.job(&world, 2);
    assert_eq!(job["summary"]["estimate"]["destination"], format!("tg://{}", endpoint.place()), "{job}");
    let ran = service.run(&world, &["submit", "data", "nobody:/in"]);
    assert!(ran.code == 2 && ran.err.contains("no endpoint is called 'nobody'"), "{ran:?}");
    // Its ticket is in nothing that the service wrote.
    let told = [job.to_string(), service.log(), service.run(&world, &["jobs", "--json"]).out].concat();
    assert!(!told.contains(endpoint.secret()));
    assert_eq!(service.terminate(), 0);
    let mut directories = vec![world.path("svc")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("listed").flatten() {
            if entry.file_type().expect("known").is_dir() {
                directories.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).expect("read");
            let secret = endpoint.secret().as_bytes();
            assert!(!bytes.windows(secret.len()).any(|part| part == secret), "{}", entry.path().display());
        }
    }
}

#[test]
fn jobs_under_a_key_are_taken_once_also_after_a_crash() {
    let world = World::new();
    world.write("a", "content");
    let service = Service::start(&world, "svc", &[]);
    let submit = ["submit", "a", "/nowhere/b", "--retries", "0", "--idempotency-key", "night-1"];
    let (code, first) = service.json(&world, &submit);
    assert_eq!((code, ids(&first), first.get("repeated")), (0, vec![1], None));
    service.kill();
    let service = Service::start(&world, "svc", &[]);
    let (code, again) = service.json(&world, &submit);
    assert_eq!((code, ids(&again), &again["repeated"]), (0, vec![1], &true.into()));
    assert!(service.run(&world, &submit).out.contains("submitted before"));
    let other = ["submit", "a", "/nowhere/c", "--idempotency-key", "night-1"];
    let ran = service.run(&world, &other);
    assert!(ran.code != 0 && ran.err.lines().count() == 1 && ran.err.contains("night-1"), "{ran:?}");
    assert_eq!(service.json(&world, &["jobs"]).1["jobs"].as_array().map(Vec::len), Some(1));
    let ran = service.run(&world, &["submit", "a", "/b", "--idempotency-key", " x"]);
    assert!(ran.code == 2 && ran.err.contains("printable"), "{ran:?}");
    assert_eq!(service.terminate(), 0);
}

/// An authority, `ca.pem` with its `ca.key`, and what it certifies: `us` and `there`.
fn certificates(world: &World) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    world.write("ca.pem", params.self_signed(&key).expect("signed").pem());
    world.write("ca.key", key.serialize_pem());
    let authority = Issuer::new(params, key);
    for name in ["us", "there"] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        world.write(format!("{name}.pem"), params.signed_by(&key, &authority).expect("signed").pem());
        world.write(format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn a_service_whose_certificate_is_not_trusted_is_not_taken_for_one_that_is_away() {
    let world = World::new();
    certificates(&world);
    let service = Service::start(&world, "svc", &["--tls-cert", "us.pem", "--tls-key", "us.key"]);
    let trusting = ["jobs", "--server-ca", "ca.pem"];
    assert_eq!(service.run(&world, &trusting).code, 0);
    let stranger = service.run(&world, &["jobs"]);
    let started =
        format!("tidegate: the certificate of the service at {} is not trusted: no authority", service.url);
    assert!(stranger.code == 5 && stranger.err.starts_with(&started), "{stranger:?}");
    assert!(stranger.err.contains("--server-ca") && !stranger.err.contains("tidegate serve"), "{stranger:?}");
    drop(service);
    // The authority's own certificate is no server's.
    let service = Service::start(&world, "svc", &["--tls-cert", "ca.pem", "--tls-key", "ca.key"]);
    let odd = service.run(&world, &trusting);
    assert!(odd.code == 5 && odd.err.contains("it is that of an authority"), "{odd:?}");
    assert_eq!(odd.err.lines().count(), 1, "{odd:?}");
}

#[test]
fn jobs_trust_what_the_service_was_told_to() {
    let world = World::new();
    certificates(&world);
    let server = ["--tls-ca", "ca.pem", "--tls-cert", "there.pem", "--tls-key", "there.key"];
    let endpoint = world.endpoint("there", &server);
    assert!(!endpoint.address.contains('@'), "no ticket is printed");
    world.fill("data", 300_000, 1);
    let trust = ["--tls-ca", "ca.pem", "--peer-cert", "us.pem", "--peer-key", "us.key"];
    // Jobs do not run where the service was started, and trust the same files.
    let service = Service::start(&world, "svc", &trust);
    let ran = service.run(&world, &["submit", "data", &endpoint.at("in"), "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    assert_eq!(world.read("there/in"), world.read("data"));
    let estimate = ["submit", "data", &endpoint.at("x"), "--bytes", "1TiB", "--estimation", "--wait"];
    assert_eq!(service.run(&world, &estimate).code, 0, "{}", service.log());
    assert_eq!(service.terminate(), 0);
    let stranger = Service::start(&world, "stranger", &[]);
    let ran = stranger.run(&world, &["submit", "data", &endpoint.at("never"), "--retries", "0", "--wait"]);
    assert!(ran.code != 0 && !world.path("there/never").exists(), "{ran:?}");
    // What cannot be used is told at the start.
    world.write("empty.pem", "");
    for (arguments, part) in [
        (&["--tls-ca", "missing.pem"][..], "missing.pem"),
        (&["--tls-ca", "empty.pem"], "empty.pem"),
        (&["--tls-ca", "ca.pem", "--peer-cert", "us.pem", "--peer-key", "empty.pem"], "empty.pem"),
        (&["--peer-cert", "us.pem", "--peer-key", "us.key"], "--tls-ca"),
    ] {
        let ran = world.run(&[&["serve", "--listen", "127.0.0.1:0"][..], arguments].concat());
        assert!(
            ran.code == 2 && ran.err.lines().count() == 1 && ran.err.contains(part),
            "{arguments:?}: {ran:?}"
        );
    }
}

#[test]
fn a_certificate_is_read_again_and_one_that_is_damaged_is_not() {
    let world = World::new();
    certificates(&world);
    let service = Service::start(&world, "svc", &["--tls-cert", "us.pem", "--tls-key", "us.key"]);
    let is_trusted = || service.run(&world, &["jobs", "--server-ca", "ca.pem"]).code == 0;
    assert!(is_trusted());
    // Another authority, and what it certifies, in the same files.
    certificates(&world);
    assert!(!is_trusted(), "what was read at the start is shown until it is read again");
    signal(service.id(), Signal::HUP);
    eventually(is_trusted);
    world.write("us.pem", "no certificate");
    signal(service.id(), Signal::HUP);
    eventually(|| service.log().contains("the certificate stays the one of before: cannot use us.pem"));
    assert!(is_trusted(), "{}", service.log());
    assert_eq!(service.terminate(), 0);
}

#[test]
fn an_end_that_is_away_is_named_wherever_a_job_is_looked_at() {
    let world = World::new();
    world.fill("data", 1000, 1);
    let endpoint = world.endpoint("there", &[]);
    let (destination, place) = (endpoint.at("in"), endpoint.place());
    assert_eq!(endpoint.terminate(), 0);
    let service = Service::start(&world, "svc", &[]);
    world.write("job.json", format!(r#"{{"source":"data","destination":"{destination}","log":"job.log"}}"#));
    let submitted = service.run(&world, &["submit", "job.json"]);
    assert_eq!(submitted.code, 0, "{submitted:?}");
    let said = format!("cannot reach {place} for ");
    let shown = |words: &[&str]| service.run(&world, words).out;
    eventually(|| shown(&["job", "1"]).contains(&said));
    let job = service.job(&world, 1);
    assert_eq!((&job["state"], job["outage_since_ms"].is_i64()), (&"running".into(), true), "{job}");
    assert!(job["reason"].as_str().is_some_and(|why| why.contains("onnection refused")), "{job}");
    let text = shown(&["job", "1"]);
    for line in ["  submitted 20", "  started   20", " ago\n"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let list = shown(&["jobs"]);
    assert!(list.contains(&said) && list.contains("age     started"), "{list}");
    eventually(|| world.path("job.log").exists());
    eventually(|| String::from_utf8_lossy(&world.read("job.log")).contains(&format!("WAITING {said}")));
    assert!(service.log().contains(&format!("WARN job 1: {said}")), "{}", service.log());
    let metrics = authorized(&service, "/metrics");
    for line in [
        "tidegate_jobs_in_outage 1\n",
        "# TYPE tidegate_job_bytes_total counter\n",
        "tidegate_jobs_oldest_queued_age_seconds 0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    // Once its end is there again nothing of it is left.
    let _there = world.endpoint_at("there", &place, &[]);
    eventually(|| service.job(&world, 1)["state"] == "done");
    let (job, metrics) = (service.job(&world, 1), authorized(&service, "/metrics"));
    assert_eq!((&job["reason"], &job["outage_since_ms"]), (&"complete, all verified".into(), &Value::Null));
    for line in [
        "tidegate_jobs_in_outage 0\n",
        "tidegate_job_bytes_total 1000\n",
        "tidegate_job_files_total 1\n",
        "tidegate_job_attempts_total{outcome=\"complete\",cause=\"none\"} 1\n",
        "tidegate_jobs_ended_total{state=\"done\",cause=\"none\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(shown(&["job", "1"]).contains("  ended     20"));
}

/// What the service answers to a GET of who has its token.
fn authorized(service: &Service, path: &str) -> String {
    let place = service.url.strip_prefix("http://").expect("without TLS");
    let mut stream = TcpStream::connect(place).expect("connected");
    let token = service.token();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: there\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}
