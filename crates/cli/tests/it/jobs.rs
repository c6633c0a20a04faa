//! Jobs run by the real command: moved, skipped when they are there, paused, cancelled, held to their share, and
//! gone with whoever began them.

use crate::common;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::scheduler::{end, programs, start};
use crate::common::{World, eventually, signal};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;
use tidegate_service::job::{JobId, Request, State};

/// A copy that takes a while: 2 MiB at 4 Mbit/s a stream.
fn slow(source: &str, destination: String) -> Request {
    let options =
        [("limit_network", "4Mbit/s"), ("optimizer", "fixed:1"), ("epoch", "200ms"), ("data_plane", "clear")];
    Request { options: options.into(), ..Request::transfer(source, destination) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_moved_and_what_is_there_is_skipped() {
    let world = World::new();
    world.fill("data/a", 300_000, 1);
    world.fill("data/b", 5, 2);
    let server = world.endpoint("store", &[]);
    let scheduler = start(&world, programs(&world)).await;
    let there = || Request {
        output: Some(world.path("out.json")),
        err: Some(world.path("err.txt")),
        ..Request::transfer(world.text("data/"), server.at("copy/"))
    };
    let back = Request::transfer(server.at("copy/a"), world.text("back"));
    let ids = scheduler.submit(&[there()]).await.expect("taken");
    let job = end(&scheduler, ids[0]).await;
    assert_eq!((job.state, &job.reason[..]), (State::Done, "complete, all verified"), "{job:?}");
    let summary = job.summary.expect("a summary");
    assert_eq!((summary.files.ok, summary.bytes), (2, 300_005));
    let output: Value = serde_json::from_slice(&world.read("out.json")).expect("JSON");
    assert_eq!(output["files"]["ok"], 2);
    // The same again finds all there and verified; the way back is another job.
    let ids = scheduler.submit(&[there(), back]).await.expect("taken");
    let job = end(&scheduler, ids[0]).await;
    assert_eq!(
        (job.state, &job.reason[..]),
        (State::Done, "complete: 2 files were there already"),
        "{job:?}"
    );
    assert_eq!(end(&scheduler, ids[1]).await.state, State::Done);
    assert_eq!(world.read("back"), world.read("data/a"));
    // What does not exist is not asked for again, and no secret is told.
    let gone = Request::transfer(world.text("no/such"), server.at("copy/"));
    let wrong = Request::transfer(world.text("data/"), server.at("x/").replace(server.secret(), "A23"));
    let ids = scheduler.submit(&[gone, wrong]).await.expect("taken");
    for id in ids {
        let job = end(&scheduler, id).await;
        assert_eq!((job.state, job.attempts), (State::Failed, 1), "{job:?}");
        assert!(!job.reason.is_empty() && !format!("{:?}", job.public()).contains(server.secret()));
    }
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_paused_goes_on_where_it_was_and_is_cancelled() {
    let world = World::new();
    world.fill("data", 2 << 20, 3);
    let server = world.endpoint("store", &["--data-plane", "clear"]);
    let scheduler = start(&world, programs(&world)).await;
    let ids = scheduler.submit(&[slow(&world.text("data"), server.at("copy"))]).await.expect("taken");
    let moving = |job: JobId| {
        let scheduler = scheduler.clone();
        async move {
            for _ in 0..3000 {
                if scheduler.live(job).is_some_and(|live| live.progress.bytes.0 > 200_000) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("it does not move: {:?}", scheduler.job(job).await);
        }
    };
    moving(ids[0]).await;
    let live = scheduler.live(ids[0]).expect("it runs");
    assert!(live.progress.streams == 1 && !live.epochs.is_empty(), "{live:?}");
    assert_eq!(scheduler.pause(ids[0]).await, Ok(State::Pausing));
    for _ in 0..3000 {
        if scheduler.job(ids[0]).await.expect("read").expect("there").state == State::Paused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(scheduler.resume(ids[0]).await, Ok(State::Queued));
    let job = end(&scheduler, ids[0]).await;
    assert_eq!((job.state, job.attempts, job.failures), (State::Done, 2, 0), "{job:?}");
    assert_eq!(std::fs::read(server.root.join("copy")).expect("there"), world.read("data"));

    let ids = scheduler.submit(&[slow(&world.text("data"), server.at("other"))]).await.expect("taken");
    moving(ids[0]).await;
    assert_eq!(scheduler.cancel(ids[0]).await, Ok(State::Cancelling));
    assert_eq!(end(&scheduler, ids[0]).await.state, State::Cancelled);
    assert!(!server.root.join("other").exists());
    scheduler.stop().await;
}

#[test]
fn a_transfer_keeps_to_its_share_as_it_changes() {
    let world = World::new();
    world.fill("data", 3 << 20, 4);
    world.write("bounds", "1\n");
    let server = world.endpoint("store", &["--data-plane", "clear"]);
    let arguments = [
        "copy",
        "--data-plane=clear",
        "--limit-network=2Mbit/s",
        "--chunk-size=1MiB",
        "--optimizer=fixed:6",
        "--epoch=200ms",
        "--epochs=epochs",
        "--bounds=bounds",
        "--json",
        "--quiet",
    ];
    let child = world
        .command()
        .args(arguments)
        .args([&world.text("data"), &server.at("copy")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let streams = || -> Vec<u64> {
        let text = std::fs::read_to_string(world.path("epochs")).unwrap_or_default();
        let epochs = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        epochs.filter_map(|epoch| epoch["setpoint"]["network"].as_u64()).collect()
    };
    eventually(|| streams().len() >= 3);
    assert!(streams().iter().all(|n| *n == 1), "{:?}", streams());
    world.write("bounds", "4\n");
    eventually(|| streams().contains(&4));
    world.write("bounds", "2\n");
    let ran = common::wait(child);
    assert_eq!(ran.code, 0, "{ran:?}");
    let seen = streams();
    assert!(seen.iter().all(|n| *n <= 4) && seen.is_sorted_by_key(|n| *n != 1), "{seen:?}");
}

#[test]
fn a_child_ends_with_the_one_that_began_it() {
    let script = "\"$1\" with-parent $$ sh -c 'echo $$; exec sleep 600' & wait";
    let mut parent = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_tidegate")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    BufReader::new(parent.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let child = line.trim().parse().ok().and_then(Pid::from_raw).expect("a process");
    assert!(test_kill_process(child).is_ok());
    signal(parent.id(), Signal::KILL);
    parent.wait().expect("waited");
    // Nobody may be left to collect it: then it is a zombie, which runs no more.
    let gone = || {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap_or_default();
        stat.is_empty() || stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    };
    eventually(gone);
    let ran = common::finish(Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["with-parent", "1", "true"]));
    assert_eq!(ran.code, 2, "{ran:?}");
    let own = std::process::id().to_string();
    let ran = common::finish(Command::new(env!("CARGO_BIN_EXE_tidegate")).args([
        "with-parent",
        &own,
        "no-such-program",
    ]));
    assert!(ran.code == 2 && ran.err.contains("not installed here"), "{ran:?}");
}
