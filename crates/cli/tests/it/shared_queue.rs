//! Services that share a queue in PostgreSQL: each can be asked, one works, and another goes on when that one is gone.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::service::Service;
use crate::common::{World, eventually, finish};
use serde_json::json;
use testkit::postgres::Postgres;
use testkit::skip;

#[test]
fn another_service_goes_on_with_the_jobs_of_one_that_was_killed() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(reason) => {
            return skip("another_service_goes_on_with_the_jobs_of_one_that_was_killed", &reason);
        }
    };
    let url = server.fresh();
    let shared = ["--database", &url, "--shared-queue"];
    let world = World::new();
    let endpoint = world.endpoint("there", &[]);
    world.fill("data", 4 << 20, 3);
    let first = Service::start(&world, "first", &shared);
    let slow = ["submit", "data", &endpoint.at("slow"), "--option=--limit-link=6Mbit/s", "--no-optimization"];
    assert_eq!(first.json(&world, &slow).0, 0);
    eventually(|| first.job(&world, 1)["state"] == "running");
    let second = Service::stand_by(&world, "second", "127.0.0.1:0", &shared).expect("started");
    let alike = Service::stand_by(&world, "second", "127.0.0.1:0", &shared).err().expect("refused");
    assert!(alike.contains("in use by another service"), "{alike}");
    // What the other one is asked this one is asked, under one token, and what it tells while it goes on.
    assert_eq!(second.job(&world, 1)["state"], "running");
    assert_eq!(first.token(), second.token());
    let more = ["submit", "data", &endpoint.at("more"), "--after", "1"];
    assert_eq!(second.json(&world, &more).1["ids"], json!([2]));
    let (mut following, mut epochs) = second.follow(&world, "1");
    assert!(epochs.next().is_some());
    first.kill();
    let _ = (following.kill(), following.wait());
    // Nobody works for some seconds, and a connection that is kept would not lead to who works then.
    let none = second.run(&world, &["jobs"]);
    assert!(none.code != 0 && none.err.contains("ask again"), "{none:?}");
    let mut stream = TcpStream::connect(second.url.trim_start_matches("http://")).expect("connected");
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: there\r\n\r\n").expect("sent");
    let mut refused = String::new();
    stream.read_to_string(&mut refused).expect("closed behind the answer");
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"), "{refused}");
    eventually(|| second.run(&world, &["jobs"]).code == 0);
    eventually(|| second.job(&world, 1)["state"] == "done");
    let job = second.job(&world, 1);
    assert_eq!((&job["attempts"], &job["summary"]["verified"]), (&2.into(), &true.into()), "{job}");
    assert_eq!(world.read("there/slow"), world.read("data"));
    eventually(|| second.job(&world, 2)["state"] == "done");
    assert_eq!(second.terminate(), 0);
    // A token that is not theirs opens nothing of theirs.
    std::fs::write(world.path("second/service/token"), "0123456789abcdef0123456789abcdef").expect("written");
    let refused = Service::stand_by(&world, "second", "127.0.0.1:0", &shared).err().expect("refused");
    assert!(refused.contains("remove it, to take theirs"), "{refused}");
}

#[test]
fn jobs_that_wait_in_a_queue_of_its_own_are_not_left_behind() {
    let world = World::new();
    let own = Service::start(&world, "svc", &["--max-jobs", "1"]);
    let endpoint = world.endpoint("there", &[]);
    world.fill("data", 4 << 20, 3);
    let slow = ["submit", "data", &endpoint.at("slow"), "--option=--limit-link=2Mbit/s", "--no-optimization"];
    assert_eq!(own.json(&world, &slow).0, 0);
    assert_eq!(own.terminate(), 0);
    let serve = |more: &[&str]| {
        let state = world.text("svc");
        let mut command = world.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--state", &state]).args(more);
        finish(&mut command)
    };
    // Nobody listens there, and nobody is asked before it is known.
    let ran = serve(&["--database", "postgres://me:hush@127.0.0.1:1/x", "--shared-queue"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
    assert!(ran.err.contains("1 job waits in it") && !ran.err.contains("hush"), "{ran:?}");
    for (arguments, words) in [
        (&["--shared-queue"][..], "--database"),
        (&["--shared-queue", "--database", "sqlite:x.db"], "postgres://"),
    ] {
        let ran = serve(arguments);
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
    }
}
