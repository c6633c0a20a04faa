//! Services that share a queue in PostgreSQL: one works, and another goes on when that one is gone.

mod common;
#[path = "../../service/tests/common/postgres.rs"]
#[allow(dead_code, reason = "much of it is for the tests of history")]
mod postgres;

use std::thread;

use common::service::Service;
use common::{World, eventually, finish, skip};
use postgres::Postgres;

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
    let second = thread::scope(|scope| {
        let second = scope.spawn(|| Service::start(&world, "second", &shared));
        eventually(|| {
            let log = world.path("second.log");
            std::fs::read_to_string(log).is_ok_and(|log| log.contains("another service works on the queue"))
        });
        first.kill();
        second.join().expect("it takes over")
    });
    eventually(|| second.job(&world, 1)["state"] == "done");
    let job = second.job(&world, 1);
    assert_eq!((&job["attempts"], &job["summary"]["verified"]), (&2.into(), &true.into()), "{job}");
    assert_eq!(world.read("there/slow"), world.read("data"));
    assert_eq!(second.terminate(), 0);
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
