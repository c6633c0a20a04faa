//! Jobs that get what others' servers have. Accessions, against the stand-in archive: got as `tidegate get` gets them,
//! gone on with after kills, and refused or failed in one line. And nobody's server is read for an estimate.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use crate::common::archive::Lab;
use crate::common::service::{Service, post_for};
use crate::common::{World, eventually, journal, md5sum_agrees, signal};
use rustix::process::Signal;
use serde_json::Value;
use testkit::scripted::{Scripted, Then, http};
use testkit::standin::{DataSet, data, run_of};

/// Whether a run's files are there as they were made.
fn are_there(data: &DataSet, run: &Value, format: &str, directory: &Path) -> bool {
    run[format].as_array().expect("files").iter().all(|file| {
        let text = |key: &str| file[key].as_str().expect("text");
        let made = fs::read(data.root.path().join(text("path"))).expect("made");
        fs::read(directory.join(text("name"))).is_ok_and(|found| found == made)
    })
}

#[test]
fn an_accession_is_got_by_command_by_file_and_over_the_api() {
    let Some(lab) = Lab::new("an_accession_is_got_by_command_by_file_and_over_the_api", &[]) else { return };
    let (world, service) = (&lab.world, lab.service());
    let (paired, three, none) = (run_of("paired"), run_of("three"), run_of("no-fastq"));
    let submit = ["submit", &paired.to_lowercase(), three, "out/", "--option=--samplesheet=rnaseq", "--wait"];
    let ran = service.run(world, &submit);
    assert!(ran.code == 0 && ran.out.contains("job 1 submitted"), "{ran:?} {}", service.log());
    let out = world.path("out");
    for shape in ["paired", "three"] {
        assert!(are_there(data(), data().shape(shape), "fastq", &out), "{shape}");
    }
    assert!(md5sum_agrees(&out));
    let runs = String::from_utf8(world.read("out/runs.tsv")).expect("text");
    assert!(runs.lines().count() == 6 && runs.contains(paired), "{runs}");
    let sheet = String::from_utf8(world.read("out/samplesheet.csv")).expect("text");
    assert!(sheet.contains("strandedness"), "{sheet}");
    let job = service.job(world, 1);
    assert_eq!(
        (&job["reason"], &job["summary"]["files"]["ok"]),
        (&"complete, all verified".into(), &5.into())
    );
    let pair = "archive://insdc → local";
    eventually(|| service.run(world, &["history", "transfers"]).out.contains(pair));
    let shown = service.run(world, &["job", "1"]).out;
    assert!(shown.contains(three) && shown.contains("so the path is not sampled before"), "{shown}");
    assert!(!shown.contains("1 GiB"), "what nobody measures needs no size: {shown}");
    assert!(service.run(world, &["jobs"]).out.contains(" → "), "{}", service.log());

    // In a file, with a path relative to it; and again over the API, which finds all there.
    world.write(
        "jobs/runs.toml",
        format!("source = \"{none}\"\ndestination = \"sra\"\noptions = {{ format = \"sra\" }}\n"),
    );
    let ran = service.run(world, &["submit", "jobs/runs.toml", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    assert_eq!(world.tree("jobs/sra"), [&format!("{none}.sra")[..], "md5sums.txt", "runs.tsv"]);
    let body = serde_json::json!({ "sources": [paired, three], "destination": world.text("out") });
    let answer = post_for(&service, "/api/v1/jobs", "*/*", &body.to_string());
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    eventually(|| service.job(world, 3)["state"] == "done");
    assert_eq!(service.job(world, 3)["reason"], "complete: 5 files were there already");
    assert_eq!(service.terminate(), 0);
}

#[test]
fn what_no_archive_has_fails_in_one_line_that_names_it() {
    let Some(lab) = Lab::new("what_no_archive_has_fails_in_one_line_that_names_it", &[]) else { return };
    let (world, service) = (&lab.world, lab.service());
    let (good, none) = (run_of("single"), run_of("no-fastq"));
    // Unknown, or withdrawn; one beside a good one; what there is, in another format; what only persons are given.
    let closed = run_of("controlled");
    for (number, (sources, words)) in [
        (&["SRR999999999"][..], "SRR999999999: neither ENA nor NCBI knows public runs of it"),
        (&[good, "SRR999999998"], "SRR999999998: neither ENA nor NCBI knows public runs of it"),
        (&[none], "no fastq for it; there is sra"),
        (&[closed], closed),
    ]
    .into_iter()
    .enumerate()
    {
        let ran = service.run(world, &[&["submit"], sources, &["out/", "--wait"]].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
        let last = sources.last().expect("one");
        assert!(ran.err.contains(words) && ran.err.contains(last), "{ran:?}");
        let job = service.job(world, number as u64 + 1);
        assert_eq!((&job["state"], &job["attempts"]), (&"failed".into(), &1.into()), "{job}");
    }
    assert!(are_there(data(), data().shape("single"), "fastq", &world.path("out")));
    let failed = String::from_utf8(world.read("out/failed.txt")).expect("text");
    assert!(failed.contains("SRR999999998\n") && !failed.contains(good), "{failed}");

    // What makes no sense is refused when it is submitted.
    world.write("SRR390728", "a file");
    for (arguments, words) in [
        (&["SRR12", "/data/"][..], "SRR wants 6 to 12 digits"),
        (&["CRR311377", "/data/"], "Genome Sequence Archive"),
        (&["SRR390728", "/data/"], "write ./SRR390728 for the file"),
        (&["SRR390729", "/a", "/data/"], "not of one kind"),
        (&["SRR390729", "https://h/x", "/data/"], "several sites"),
        (&["SRR390729", "/data/", "--option=--ena-url=http://127.0.0.1/"], "--ena-url"),
        (&["SRR390729", "/data/", "--option=--outdir=/etc"], "--outdir"),
        (&["SRR390729", "/data/", "--option=--format=bam"], "fastq, sra"),
        (&["SRR390729", "/data/", "--sampler=native"], "not sampled"),
    ] {
        let ran = service.run(world, &[&["submit"], arguments].concat());
        assert!(ran.code == 2 && ran.err.contains(words), "{arguments:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {ran:?}");
    }
    for (body, words) in [
        (r#"{"source":"SRR390728","destination":"tg://T@h/x"}"#, "an accession to tg://"),
        (r#"{"source":"phs000001","destination":"/x"}"#, "dbGaP"),
    ] {
        let answer = post_for(&service, "/api/v1/jobs", "*/*", body);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(words), "{answer}");
    }
    assert_eq!(service.terminate(), 0);
}

#[test]
fn content_that_is_not_what_the_archive_says_gets_no_name() {
    let test = "content_that_is_not_what_the_archive_says_gets_no_name";
    let made = || -> &'static DataSet {
        Box::leak(Box::new(DataSet::make(&[
            "--runs", "1", "--mb", "0.01", "--seed", "9", "--shapes", "single",
        ])))
    };
    let corrupt = || {
        let data = made();
        let file = data.root.path().join(data.runs[0]["fastq"][0]["path"].as_str().expect("text"));
        let mut content = fs::read(&file).expect("made");
        content[100] ^= 1;
        fs::write(&file, content).expect("written");
        data
    };
    let Some(lab) = Lab::with(test, corrupt, &[]) else { return };
    let (world, service) = (&lab.world, lab.service());
    let run = "SRR9000001";
    let ran = service.run(world, &["submit", run, "out/", "--retries", "0", "--wait"]);
    assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{ran:?}");
    assert!(ran.err.contains(run) && ran.err.contains("md5"), "{ran:?}");
    let job = service.job(world, 1);
    assert_eq!((&job["state"], &job["summary"]["verified"]), (&"failed".into(), &false.into()), "{job}");
    assert!(!world.path(format!("out/{run}.fastq.gz")).exists());
    assert_eq!(service.terminate(), 0);
}

/// The process that moves a job of `service`.
fn mover(service: &Service) -> Option<u32> {
    let parent = format!("\nPPid:\t{}\n", service.id());
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let is_its = fs::read_to_string(entry.path().join("status")).ok()?.contains(&parent);
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (is_its && line.ends_with("\0run\0-\0")).then_some(id)
    })
}

#[test]
fn what_was_verified_is_kept_when_the_mover_or_the_service_is_killed_or_it_is_cancelled() {
    let test = "what_was_verified_is_kept_when_the_mover_or_the_service_is_killed_or_it_is_cancelled";
    let made = || -> &'static DataSet {
        Box::leak(Box::new(DataSet::make(&[
            "--runs", "1", "--mb", "40", "--seed", "8", "--shapes", "paired",
        ])))
    };
    let Some(lab) = Lab::with(test, made, &[]) else { return };
    let world = &lab.world;
    let out = world.path("out/");
    let service = lab.service();
    // Slow enough that signals find it at work.
    let slow = ["--option=--limit-rate=24Mbit/s", "--option=--staging=1MiB", "--option=--epoch=100ms"];
    let submit = [&["submit", "SRR9000001", "out/"][..], &slow].concat();
    let ran = service.run(world, &submit);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (mut following, mut epochs) = service.follow(world, "1");
    let total = epochs.find_map(|epoch| epoch["data"]["arrived"]["total_bytes"].as_u64()).expect("a total");
    following.kill().expect("killed");
    following.wait().expect("waited");

    // Killed once something is written down as safe; then the service, and cancelled, each later on its way.
    let comes_to = |service: &Service, bytes: u64| {
        eventually(|| {
            let job = service.job(world, 1);
            job["state"] == "running" && job["progress"]["bytes"].as_u64() >= Some(bytes)
        });
    };
    eventually(|| journal(&world.path("out/.tidegate")) > 130);
    signal(mover(&service).expect("it moves"), Signal::KILL);
    eventually(|| service.job(world, 1)["attempts"] == 2);
    comes_to(&service, total / 3);
    service.kill();
    let service = lab.service();
    comes_to(&service, total / 2);
    assert_eq!(service.run(world, &["cancel", "1"]).code, 0);
    eventually(|| service.job(world, 1)["state"] == "cancelled");

    let ran = service.run(world, &["submit", "SRR9000001", "out/", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    assert!(md5sum_agrees(&out));
    let job = service.job(world, 2);
    let moved = job["summary"]["bytes"].as_u64().expect("a number");
    println!("{moved} of {total} bytes were moved at last");
    // A segment of 4 MiB was written down before the first kill at least.
    assert!(job["summary"]["verified"] == true && moved + (4 << 20) <= total, "{moved} of {total}: {job}");
    assert_eq!(service.terminate(), 0);
}

#[test]
fn nobodys_server_is_read_but_for_its_files() {
    let world = World::new();
    let service = Service::start(&world, "svc", &[]);
    let web = Scripted::http(|_| (http("200 OK", &[("Content-Length", "9")], b"the whole"), Then::Close));
    let ftp = TcpListener::bind("127.0.0.1:0").expect("bound");
    ftp.set_nonblocking(true).expect("set");
    let ftp_url = format!("ftp://{}/pub/x", ftp.local_addr().expect("bound"));
    for url in [web.url("x").as_str(), &ftp_url] {
        // Not by a program that would read something else from there, if that is asked for.
        let ran = service
            .run(&world, &["submit", url, "/nowhere/x", "--sampler=gridftp", "--estimation", "--bytes=1TiB"]);
        assert!(ran.code == 2 && ran.err.contains("not sampled by gridftp"), "{ran:?}");
    }
    assert_eq!(ftp.accept().expect_err("nobody called").kind(), ErrorKind::WouldBlock);
    assert!(web.requests().is_empty(), "{:?}", web.requests());
    // A job asks for the size, and reads once, to have it.
    let ran = service.run(&world, &["submit", web.url("x").as_str(), &world.text("out/"), "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    let asked: Vec<String> = web
        .requests()
        .iter()
        .map(|request| request.lines[0].split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(asked.iter().filter(|method| *method == "GET").count(), 1, "{asked:?}");
    assert!(asked.iter().all(|method| method == "GET" || method == "HEAD"), "{asked:?}");
    assert_eq!(world.read("out/x"), b"the whole");
    // What cannot adapt reads of the very file to find out, as much as a server that gives no ranges lets it.
    let (url, out) = (web.url("y"), world.text("out/"));
    let fixed = ["submit", url.as_str(), &out, "--option=--optimizer=fixed", "--bytes=1GiB"];
    let ran = service.run(&world, &[&fixed[..], &["--wait"]].concat());
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    // History gathers what is to be written for a moment.
    eventually(|| service.run(&world, &["job", "2"]).out.contains("start with"));
    let known = service.json(&world, &["history", "samples"]).1;
    assert_eq!(
        (&known["records"][0]["method"], &known["records"][0]["streams"]),
        (&"ranges".into(), &1.into())
    );
    assert_eq!(service.terminate(), 0);
}
