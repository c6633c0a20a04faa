//! Jobs between GridFTP servers: whole trees, and nothing is done that cannot be shown to be there.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::grid::Grid;
use crate::common::scheduler::{end, programs, start};
use crate::common::{World, finish};
use testkit::gridftp::{self, GridFtp};
use testkit::skip;
use tidegate_contract::epoch_line;
use tidegate_contract::summary::{Files, Summary};
use tidegate_control::Epoch;
use tidegate_service::job::{Job, Request, State};
use tidegate_service::scheduler::Scheduler;

/// A program that does so before it is globus-url-copy.
fn stand_in(world: &World, name: &str, does: &str) -> PathBuf {
    let script = format!("#!/bin/sh\n{does}\nexec globus-url-copy \"$@\"\n");
    let path = world.path(name);
    // Written by another process: one that this one is just starting would hold the file open for writing, and what
    // is open so cannot be run.
    let mut writer = Command::new("sh");
    writer.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\""]).arg(&path).arg(&script);
    assert!(writer.status().expect("started").success());
    path
}

async fn scheduler(world: &World, globus: Option<PathBuf>) -> Scheduler {
    let mut programs = programs(world);
    programs.globus = globus.unwrap_or(programs.globus);
    start(world, programs).await
}

/// The ends of jobs.
async fn ends(scheduler: &Scheduler, requests: &[Request]) -> Vec<Job> {
    let ids = scheduler.submit(requests).await.expect("taken");
    let mut ends = Vec::new();
    for id in ids {
        ends.push(end(scheduler, id).await);
    }
    ends
}

fn counted(job: &Job) -> (State, bool, u64, Files) {
    let Summary { bytes, verified, files, .. } = job.summary.clone().unwrap_or_default();
    (job.state, verified, bytes, files)
}

/// Nine files at three depths, an empty one, and an empty directory.
const TREE: [&str; 9] = ["a", "b", "c", "in/d", "in/e f", "in/#g%20", "in/deep/h", "in/deep/i", "other/zero"];

fn tree(world: &World) -> u64 {
    std::fs::create_dir_all(world.path("tree/empty")).expect("made");
    for (i, name) in TREE.iter().enumerate() {
        let size = if name.ends_with("zero") { 0 } else { 10_000 + i };
        world.fill(format!("tree/{name}"), size, i as u64);
    }
    TREE.iter().map(|name| world.read(format!("tree/{name}")).len() as u64).sum()
}

fn assert_same(world: &World, destination: &str) {
    for name in TREE {
        assert_eq!(world.read(format!("{destination}/{name}")), world.read(format!("tree/{name}")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_whole_trees_are_moved_counted_and_compared() {
    if !gridftp::is_there("files_and_whole_trees_are_moved_counted_and_compared") {
        return;
    }
    let world = World::new();
    world.fill("data", 500_000, 5);
    let bytes = tree(&world);
    let (one, two) = (GridFtp::anonymous(&[]), GridFtp::anonymous(&[]));
    let scheduler = scheduler(&world, None).await;
    let path = |name: &str| world.text(name);
    let plain = |from: String, to: String| Request { optimization: false, ..Request::transfer(from, to) };
    let there = Request {
        buffer_bytes: Some(tidegate_control::ByteCount::kib(128)),
        ..Request::transfer(path("data"), one.url(&path("new/copy")))
    };
    let ends = ends(
        &scheduler,
        &[
            there,
            Request::transfer(one.url(&path("data")), two.url(&path("third"))),
            Request::transfer(one.url(&path("no-such")), two.url(&path("none"))),
            plain(one.url(&path("tree/")), two.url(&path("new/between/"))),
            plain(path("tree/"), two.url(&path("put/"))),
            plain(one.url(&path("tree")), two.url(&path("wrong"))),
        ],
    )
    .await;
    let files = |number| Files { total: number, ok: number, failed: 0, skipped: 0, refreshed: 0, deleted: 0 };
    for (job, bytes, number) in [(0, 500_000, 1), (1, 500_000, 1), (3, bytes, 9), (4, bytes, 9)] {
        let job = &ends[job];
        assert_eq!(counted(job), (State::Done, true, bytes, files(number)), "{job:?}");
    }
    assert_eq!((world.read("new/copy"), world.read("third")), (world.read("data"), world.read("data")));
    for destination in ["new/between", "put"] {
        assert_same(&world, destination);
        assert!(world.path(format!("{destination}/empty")).is_dir(), "{destination}");
    }
    for (job, wanted) in [(2, "No such file"), (5, "with a slash at its end")] {
        let job = &ends[job];
        assert!(job.state == State::Failed && job.reason.contains(wanted), "{job:?}");
    }
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_shown_to_be_there_is_not_done() {
    if !gridftp::is_there("what_cannot_be_shown_to_be_there_is_not_done") {
        return;
    }
    let world = World::new();
    let bytes = tree(&world);
    let (one, plain) = (GridFtp::anonymous(&[]), GridFtp::anonymous(&["-disable-command-list", "CKSM"]));
    // Moves nothing, or damages a byte of what it moved, and says that all is well.
    let liar =
        |name: &str, does: &str| stand_in(&world, name, &format!("case \"$*\" in *-vb*) {does};; esac"));
    let (damaged, once) = (world.text("damaged/in/d"), world.text("once"));
    let idle = liar("idle", "exit 0");
    let harm = liar(
        "harm",
        &format!(
            "[ -e {once} ] || {{ : >{once}; globus-url-copy \"$@\"; \
             printf '\\377\\377\\377' | dd of={damaged} bs=3 count=1 conv=notrunc; exit 0; }}"
        ),
    );
    let job =
        |from: String, to: String| Request { optimization: false, retries: 0, ..Request::transfer(from, to) };
    let (from, to) = (one.url(&world.text("tree/")), |name: &str| one.url(&world.text(name)));

    let service = scheduler(&world, Some(idle)).await;
    let ended = &ends(&service, &[job(from.clone(), to("idle-out/"))]).await[0];
    assert!(ended.state == State::Failed && ended.reason.contains("missing at the destination"), "{ended:?}");
    // An empty directory besides.
    let files = Files { total: 9, ok: 0, failed: 10, skipped: 0, refreshed: 0, deleted: 0 };
    assert_eq!(counted(ended), (State::Failed, false, 0, Files { total: 10, ..files }), "{ended:?}");
    service.stop().await;
    drop(service);

    let world_two = World::new();
    let service = scheduler(&world_two, Some(harm)).await;
    let ended = &ends(&service, &[job(from.clone(), to("damaged/"))]).await[0];
    assert!(ended.state == State::Failed && ended.reason.contains("tree/in/d: it is missing"), "{ended:?}");
    let (files, size) = (
        Files { total: 9, ok: 8, failed: 1, skipped: 0, refreshed: 0, deleted: 0 },
        world.read("tree/in/d").len() as u64,
    );
    assert_eq!(counted(ended), (State::Failed, false, bytes - size, files));
    // Tried again, what is there is left alone. The job counts what all its attempts moved.
    assert_eq!(service.retry(ended.id, false).await, Ok(1));
    let ended = &end(&service, ended.id).await;
    let files = Files { total: 9, ok: 9, failed: 0, skipped: 0, refreshed: 0, deleted: 0 };
    assert_eq!(counted(ended), (State::Done, true, bytes, files), "{ended:?}");
    assert_same(&world, "damaged");
    service.stop().await;
    drop(service);

    // Without checksums sizes are compared, and that is not called verified.
    let world_three = World::new();
    let service = scheduler(&world_three, None).await;
    let ended = &ends(&service, &[job(from.clone(), plain.url(&world.text("sized/")))]).await[0];
    let files = Files { total: 9, ok: 9, failed: 0, skipped: 0, refreshed: 0, deleted: 0 };
    assert_eq!(counted(ended), (State::Done, false, bytes, files), "{ended:?}");
    assert_same(&world, "sized");

    // Of a directory and a link to it one is left out, and that is said and not tried again.
    symlink("in", world.path("tree/also-in")).expect("linked");
    let again = Request { retries: 3, ..job(from, to("linked/")) };
    let ended = &ends(&service, &[again]).await[0];
    assert_eq!((ended.state, ended.attempts), (State::Failed, 1), "{ended:?}");
    assert!(ended.reason.contains("in/: not copied, because the server shows it as the same"), "{ended:?}");
    let files = Files { total: 10, ok: 9, failed: 1, skipped: 0, refreshed: 0, deleted: 0 };
    assert_eq!(counted(ended).3, files, "{ended:?}");
    service.stop().await;
}

/// What an option of the runs of the program that moved slices was, in their order.
fn told(world: &World, option: &str) -> Vec<u16> {
    let log = String::from_utf8(world.read("told")).expect("text");
    let slices = log.lines().filter(|line| line.contains("-cc"));
    let value = |line: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != option);
        words.nth(1).and_then(|word| word.parse().ok()).expect("a number")
    };
    slices.map(value).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_chooses_the_streams_of_each_slice() {
    if !gridftp::is_there("a_rule_chooses_the_streams_of_each_slice") {
        return;
    }
    let world = World::new();
    let small = tree(&world);
    world.fill("tree/large", 25 << 20, 77);
    let bytes = small + (25 << 20);
    // There before, and longer than the part that is moved last.
    world.fill("there/large", 26 << 20, 78);
    let (one, two) = (GridFtp::anonymous(&[]), GridFtp::anonymous(&[]));
    let log = world.text("told");
    // A slice takes a good part of an epoch's least length.
    let logs = stand_in(&world, "logs", &format!("echo \"$*\" >>{log}; sleep 0.05"));
    let service = scheduler(&world, Some(logs)).await;
    let under = |rule: &str, from: String, to: String| Request {
        options: [("optimizer", rule), ("epoch", "100ms")].into(),
        ..Request::transfer(from, to)
    };
    let (tree, large) = (world.text("tree/"), world.text("tree/large"));
    let jobs = [
        under("aimd", one.url(&tree), two.url(&world.text("there/"))),
        under("coupled:falcon", one.url(&large), two.url(&world.text("between"))),
        under("auto", large.clone(), two.url(&world.text("put/in/"))),
        under("fixed:3", one.url(&large), two.url(&world.text("fixed"))),
    ];
    for (i, (job, copy)) in
        jobs.into_iter().zip(["there/large", "between", "put/in/large", "fixed"]).enumerate()
    {
        let _ = std::fs::remove_file(&log);
        let rule = job.optimizer().expect("named").to_owned();
        let ended = &ends(&service, &[job]).await[0];
        let (bytes, number) = if i == 0 { (bytes, 10) } else { (25 << 20, 1) };
        let files = Files { total: number, ok: number, failed: 0, skipped: 0, refreshed: 0, deleted: 0 };
        assert_eq!(counted(ended), (State::Done, true, bytes, files), "{ended:?}");
        let summary = ended.summary.as_ref().expect("a summary");
        assert_eq!(summary.optimizer, rule);
        assert!(world.read(copy) == world.read("tree/large"), "{rule}");
        if rule == "fixed:3" {
            assert!(told(&world, "-p").is_empty() && summary.concurrency_mean.network == 3.0, "{summary:?}");
            continue;
        }
        // What the rule asked for is what the program was told, for each epoch that it was shown.
        let epochs = world.read(format!("service/jobs/{}.jsonl", ended.id));
        let epochs: Vec<Epoch> = epochs.split(|&byte| byte == b'\n').filter_map(epoch_line::read).collect();
        assert!(epochs.len() > 1, "{rule}: {epochs:?}");
        let arrived: Vec<u64> = epochs.iter().map(|epoch| epoch.arrived.expect("known").bytes.0).collect();
        assert!(arrived.is_sorted() && arrived.last() == Some(&bytes), "{rule}: {arrived:?}");
        let streams: Vec<u16> = told(&world, "-cc")
            .into_iter()
            .zip(told(&world, "-p"))
            .map(|(files, each)| files * each)
            .collect();
        for pair in epochs.windows(2) {
            let (asked, ran) = (pair[0].setpoint, pair[1].concurrency.network);
            assert!(asked.read == 1 && asked.write == 1 && ran <= asked.network, "{rule}: {pair:?}");
        }
        let mut ran: Vec<u16> = epochs.iter().map(|epoch| epoch.concurrency.network).collect();
        if i == 0 {
            // Slices of one epoch that hold different numbers of files can differ, and are shown by their mean.
            assert!(
                ran.iter().all(|ran| streams.iter().min() <= Some(ran) && Some(ran) <= streams.iter().max())
            );
            continue;
        }
        ran.dedup();
        let mut was_told = streams.clone();
        was_told.dedup();
        assert_eq!(ran, was_told, "{rule}");
    }
    assert_same(&world, "there");
    assert!(world.path("there/empty").is_dir());
    let refused = service.submit(&[under("fastest", one.url(&large), two.url("/x"))]).await;
    assert!(format!("{refused:?}").contains("no optimizer 'fastest'"), "{refused:?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_that_fails_is_tried_again_and_what_is_there_is_not() {
    if !gridftp::is_there("a_slice_that_fails_is_tried_again_and_what_is_there_is_not") {
        return;
    }
    let world = World::new();
    for i in 0..8 {
        world.fill(format!("tree/{i}"), 2 << 20, i);
    }
    let server = GridFtp::anonymous(&[]);
    let (count, log) = (world.text("count"), world.text("told"));
    let breaks = format!(
        "case \"$*\" in *-cc*) echo \"$*\" >>{log}; echo x >>{count}\n\
         [ $(wc -l <{count}) = 2 ] && {{ echo 'error: it broke off' >&2; exit 1; }};; esac"
    );
    let service = scheduler(&world, Some(stand_in(&world, "breaks", &breaks))).await;
    let options = [("optimizer", "aimd"), ("epoch", "100ms")].into();
    let (from, to) = (server.url(&world.text("tree/")), server.url(&world.text("copy/")));
    let job = Request { options, retries: 2, ..Request::transfer(from, to) };
    let ended = &ends(&service, &[job]).await[0];
    assert_eq!((ended.state, ended.attempts), (State::Done, 2), "{ended:?}");
    let Files { total, ok, skipped, failed, .. } = ended.summary.as_ref().expect("a summary").files;
    assert!(total == 8 && ok + skipped == 8 && failed == 0 && skipped > 0 && ok > 0, "{ended:?}");
    for i in 0..8 {
        assert!(world.read(format!("copy/{i}")) == world.read(format!("tree/{i}")), "{i}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_and_users_that_prove_themselves_move_whole_trees() {
    let test = "servers_and_users_that_prove_themselves_move_whole_trees";
    if !gridftp::is_there(test) {
        return;
    }
    if testkit::program("openssl").is_none() {
        return skip(test, "no /usr/bin/openssl: install openssl");
    }
    let world = World::new();
    let grid = Grid::new(&world);
    let (holds, expired) = (grid.proxy("proxy", true), grid.proxy("expired", false));
    let bytes = tree(&world);
    world.fill("data", 3_000_000, 5);
    let (one, two) =
        (GridFtp::with_credentials(grid.of_server()), GridFtp::with_credentials(grid.of_server()));
    let trusts = format!("export X509_CERT_DIR={}", world.text("grid/authorities"));
    let service = scheduler(&world, Some(stand_in(&world, "trusts", &trusts))).await;
    let by = |proxy: &Path, from: String, to: String| Request {
        x509proxy: Some(proxy.to_owned()),
        retries: 3,
        ..Request::transfer(from, to)
    };
    let (from, path) = (one.url(&world.text("tree/")), |name: &str| world.text(name));
    let aimd = [("optimizer", "aimd"), ("epoch", "100ms")].into();
    let ended = ends(
        &service,
        &[
            by(&holds, from.clone(), two.url(&path("between/"))),
            by(&holds, from.clone(), path("got/")),
            by(&holds, path("tree/"), two.url(&path("put/"))),
            Request { options: aimd, ..by(&holds, one.url(&path("data")), two.url(&path("sliced"))) },
            by(&expired, from.clone(), path("late/")),
            by(&world.path("grid/none"), from.clone(), path("none/")),
        ],
    )
    .await;
    for (job, destination) in ended.iter().zip(["between", "got", "put"]) {
        let files = Files { total: 9, ok: 9, failed: 0, skipped: 0, refreshed: 0, deleted: 0 };
        assert_eq!(counted(job), (State::Done, true, bytes, files), "{job:?}");
        assert_same(&world, destination);
        assert!(world.path(format!("{destination}/empty")).is_dir(), "{destination}");
    }
    assert_eq!((ended[3].state, world.read("sliced")), (State::Done, world.read("data")));
    // Nothing that a try could mend.
    let expects = |job: &Job, wanted: &[&str]| {
        assert_eq!((job.state, job.attempts), (State::Failed, 1), "{job:?}");
        assert!(wanted.iter().all(|wanted| job.reason.contains(wanted)), "{}", job.reason);
        assert!(!job.reason.contains('\n'), "{}", job.reason);
    };
    expects(&ended[4], &["the proxy ", "grid/expired expired ", "grid-proxy-init"]);
    expects(&ended[5], &["no grid credential", "grid/none", "grid-proxy-init"]);
    // Who only measures is told the same.
    let estimate = |proxy: &Path| {
        let mut command = world.command();
        command.env("X509_USER_PROXY", proxy).env("X509_CERT_DIR", world.path("grid/authorities"));
        command.args([
            "estimate",
            &from,
            &two.url("/x"),
            "--max-streams=2",
            "--bytes=10TiB",
            "--sample-size=1MiB",
        ]);
        finish(&mut command)
    };
    let ran = estimate(&expired);
    assert!(
        ran.code == 1 && ran.err.lines().count() == 1 && ran.err.contains("grid/expired expired "),
        "{ran:?}"
    );
    let ran = estimate(&holds);
    assert!(ran.code == 0 && ran.out.contains("by gridftp"), "{ran:?}");
    // A user whom the server does not know, and one who knows no authority.
    world.write("grid/grid-mapfile", "");
    let ended = &ends(&service, &[by(&holds, from.clone(), path("unknown/"))]).await[0];
    expects(ended, &["no account for /O=Test/CN=User", "grid-mapfile"]);
    service.stop().await;
    drop(service);
    std::fs::create_dir(world.path("nobody")).expect("made");
    let distrusts = format!("export X509_CERT_DIR={}", world.text("nobody"));
    let other = World::new();
    let service = scheduler(&other, Some(stand_in(&world, "distrusts", &distrusts))).await;
    let ended = &ends(&service, &[by(&holds, from, path("distrusted/"))]).await[0];
    expects(ended, &["is not trusted here", "X509_CERT_DIR"]);
    service.stop().await;
}
