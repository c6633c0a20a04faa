//! What `tidegate get` does with accessions and lists, against the stand-in archive and nginx.

use crate::common;
use std::fs;
use std::path::Path;
use std::process::Command;
use testkit::standin;

use crate::common::archive::Lab;
use crate::common::{World, finish, md5sum_agrees};
use serde_json::Value;
use testkit::nginx::Nginx;
use testkit::skip;
use testkit::standin::{data, id, run_of};

/// How many files, or parts of them, the archive was asked for, and how many such questions.
fn asked_for_data(lab: &Lab) -> u64 {
    lab.archive.requests().get("data").copied().unwrap_or(0)
}

fn json(lab: &Lab, arguments: &[&str]) -> (i32, Value) {
    let ran = lab.get(&[arguments, &["--json"]].concat());
    let object = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("no JSON ({error}): {ran:?}"));
    (ran.code, object)
}

/// Names and contents of a run's files in a format.
fn files_of(shape: &str, format: &str) -> Vec<(String, Vec<u8>)> {
    let files = data().shape(shape)[format].as_array().expect("files").clone();
    let text = |file: &Value, key: &str| file[key].as_str().expect("text").to_owned();
    files
        .iter()
        .map(|file| {
            let name = text(file, "name");
            let content = fs::read(data().root.path().join(text(file, "path"))).expect("made");
            (name, content)
        })
        .collect()
}

/// Data files only: without what stands beside them.
fn data_files(world: &World, directory: &str) -> Vec<String> {
    let mut files = world.tree(directory);
    // A run that did not get everything keeps its journal.
    files.retain(|name| !name.starts_with(".tidegate"));
    files.retain(|name| !["runs.tsv", "md5sums.txt", "samplesheet.csv", "failed.txt"].contains(&&name[..]));
    files
}

#[test]
fn a_run_arrives_with_what_stands_beside_it() {
    let Some(lab) = Lab::new("a_run_arrives_with_what_stands_beside_it", &[]) else { return };
    let (paired, three) = (run_of("paired"), run_of("three"));
    let ran = lab.get(&[&paired.to_lowercase(), three, "-o", "out", "--samplesheet", "rnaseq"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("5 files") && ran.out.contains("all verified"), "{ran:?}");
    assert!(ran.out.contains("beside   runs.tsv, samplesheet.csv, md5sums.txt"), "{ran:?}");
    let mut wanted = [files_of("paired", "fastq"), files_of("three", "fastq")].concat();
    wanted.sort();
    for (name, content) in &wanted {
        assert_eq!(&lab.world.read(format!("out/{name}")), content, "{name}");
    }
    let names: Vec<_> = wanted.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(data_files(&lab.world, "out"), names);
    assert_eq!(lab.world.tree("out").len(), names.len() + 3, "nothing else is left");
    assert!(md5sum_agrees(&lab.world.path("out")));
    let sheet = String::from_utf8(lab.world.read("out/samplesheet.csv")).expect("text");
    assert!(
        sheet.starts_with("\"sample\",\"fastq_1\",\"fastq_2\",\"strandedness\",\"run_accession\""),
        "{sheet}"
    );
    let pair = |end| {
        format!("{}/{three}_{end}.fastq.gz", lab.world.path("out").canonicalize().expect("there").display())
    };
    assert!(sheet.contains(&format!("\"{}\",\"{}\",\"auto\"", pair(1), pair(2))), "{sheet}");
    let runs = String::from_utf8(lab.world.read("out/runs.tsv")).expect("text");
    let lines: Vec<Vec<&str>> = runs.lines().map(|line| line.split('\t').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|column| *column == name).expect("a column");
    assert_eq!(lines.len(), 6);
    for line in &lines[1..] {
        assert_eq!(
            (line[column("md5_ok")], line[column("source")], line[column("format")]),
            ("true", "ena", "fastq")
        );
        assert!(
            line[column("seconds")].parse::<f64>().is_ok() && !line[column("sample_accession")].is_empty()
        );
    }

    // Again: nothing is fetched, nothing changes.
    let before = asked_for_data(&lab);
    let (code, again) = json(&lab, &[paired, three, "-o", "out", "--samplesheet", "rnaseq"]);
    assert_eq!(
        (code, &again["status"], &again["verified"]),
        (0, &"complete".into(), &true.into()),
        "{again}"
    );
    assert_eq!((&again["files"]["skipped"], &again["bytes"]), (&5.into(), &0.into()));
    assert_eq!(asked_for_data(&lab), before + 1, "nothing but this question");
    assert!(md5sum_agrees(&lab.world.path("out")));
    let sheet_again = String::from_utf8(lab.world.read("out/samplesheet.csv")).expect("text");
    assert_eq!(sheet_again, sheet);
}

#[test]
fn what_cannot_be_had_leaves_the_rest_alone() {
    let Some(lab) = Lab::new("what_cannot_be_had_leaves_the_rest_alone", &[]) else { return };
    let (good, none) = (run_of("single"), run_of("no-fastq"));
    lab.world.write("list", format!("# runs\n{good}\nSRR12\nCRR311377, SRR999999999\n{none}\n"));
    let (code, all) = json(&lab, &["list", "-o", "out"]);
    assert_eq!((code, &all["status"]), (1, &"incomplete".into()), "{all}");
    assert_eq!((&all["files"]["ok"], &all["files"]["failed"]), (&1.into(), &4.into()), "{all}");
    let told: Vec<&str> = all["failures"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| f["message"].as_str().expect("text"))
        .collect();
    for why in [
        "list:3: \"SRR12\" is no accession",
        "list:4: CRR311377 belongs to the Genome Sequence Archive",
        "SRR999999999",
        "no fastq for it; there is sra",
    ] {
        assert!(told.iter().any(|told| told.contains(why)), "{why}: {told:?}");
    }
    assert_eq!(data_files(&lab.world, "out").len(), 1);
    let failed = String::from_utf8(lab.world.read("out/failed.txt")).expect("text");
    for name in ["SRR999999999\n", none] {
        assert!(failed.contains(name), "{failed}");
    }
    for never in ["SRR12", "CRR311377"] {
        assert!(!failed.contains(never), "{failed}");
    }
    // What failed is a list; another format was all that one of them needed.
    let ran = lab.get(&["out/failed.txt", "-o", "out", "--format", "sra"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!String::from_utf8(lab.world.read("out/failed.txt")).expect("text").contains(none));
    assert_eq!(lab.world.read(format!("out/{none}.sra")), files_of("no-fastq", "ena_sra")[0].1);

    // Only such names: the exit code says of what sort.
    assert_eq!(lab.get(&["SRR12", "phs000001", "-o", "no"]).code, 2);
    assert!(lab.world.tree("no").is_empty(), "nothing was to be got, so nothing is to be got again");
    let unknown = lab.get(&["SRR999999999", "-o", "no"]);
    assert!(unknown.code == 3 && unknown.err.contains("SRR999999999"), "{unknown:?}");
    lab.world.write("nothing", "# nobody\n");
    let (code, all) = json(&lab, &["nothing", "-o", "no"]);
    assert_eq!((code, &all["status"], &all["verified"]), (3, &"failed".into(), &false.into()), "{all}");
    assert!(lab.get(&["nothing", "-o", "no"]).err.contains("nothing was named"));
    assert!(data_files(&lab.world, "no").is_empty());
}

#[test]
fn another_format_is_taken_only_when_allowed_and_then_said() {
    let Some(lab) = Lab::new("another_format_is_taken_only_when_allowed_and_then_said", &[]) else { return };
    let ran = lab.get(&[run_of("no-fastq"), "-o", "out", "--allow-fallback"]);
    assert!(ran.code == 0 && ran.err.contains("sra"), "{ran:?}");
    let runs = String::from_utf8(lab.world.read("out/runs.tsv")).expect("text");
    assert!(runs.lines().nth(1).expect("a row").contains("\tsra\t"), "{runs}");
    assert!(!lab.world.path("out/samplesheet.csv").exists(), "an SRA file is no FASTQ");
}

#[test]
fn names_and_places_of_files_are_chosen() {
    let Some(lab) = Lab::new("names_and_places_of_files_are_chosen", &[]) else { return };
    let (run, experiment) = (run_of("single"), id(data().shape("single"), "experiment_accession"));
    let ran = lab.get(&[run, "-o", "out", "--layout", "run", "--name", "fetchngs", "--no-sidecars"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(lab.world.tree("out"), [format!("{run}/"), format!("{run}/{experiment}_{run}.fastq.gz")]);
}

#[test]
fn looking_fetches_nothing() {
    let Some(lab) = Lab::new("looking_fetches_nothing", &[]) else { return };
    let (paired, none) = (run_of("paired"), run_of("no-fastq"));
    let ran = lab.get(&[paired, none, "--dry-run", "-o", "out"]);
    assert!(ran.code == 1 && ran.err.contains("no fastq"), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with(&format!("{paired}_1.fastq.gz  ")), "{ran:?}");
    assert!(
        lines[0].contains("  md5:") && lines[2].starts_with("2 files, ") && lines[2].contains("1 not found")
    );
    assert!(!lab.world.path("out").exists());
    // As a list that is read again.
    let listed = lab.get(&[paired, "--dry-run", "--json"]);
    assert_eq!((listed.code, listed.out.lines().count()), (0, 2), "{listed:?}");
    lab.world.write("list.jsonl", &listed.out);

    let meta = lab.get(&[paired, none, "--metadata-only", "-o", "meta", "--samplesheet", "taxprofiler"]);
    assert_eq!(meta.code, 1, "{meta:?}");
    assert!(meta.out.contains("written  runs.tsv, samplesheet.csv, failed.txt"), "{meta:?}");
    assert_eq!(lab.world.tree("meta"), ["failed.txt", "runs.tsv", "samplesheet.csv"]);
    let before = asked_for_data(&lab);
    let whole = json(&lab, &[paired, "--metadata-only", "-o", "meta"]);
    assert_eq!((whole.0, &whole.1["files"], &whole.1["failed"]), (0, &2.into(), &0.into()));
    assert_eq!(asked_for_data(&lab), before + 1, "nothing but this question");

    let ran = lab.get(&["list.jsonl", "-o", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for (name, content) in files_of("paired", "fastq") {
        assert_eq!(lab.world.read(format!("out/{name}")), content);
    }
    assert!(lab.world.path("out/samplesheet.csv").exists(), "the list knows the runs");
}

#[test]
fn a_server_that_drops_and_refuses_only_takes_longer() {
    let faults = [
        "--drop-after",
        "4000",
        "--drop-share",
        "0.5",
        "--drops",
        "12",
        "--connections",
        "3",
        "--retry-after",
        "0",
    ];
    let Some(lab) = Lab::new("a_server_that_drops_and_refuses_only_takes_longer", &faults) else { return };
    let project = id(data().shape("paired"), "study_accession");
    let (code, all) = json(&lab, &[project, "-o", "out", "--fixed", "8", "--retries", "20"]);
    assert_eq!(code, 1, "two runs of the project have no FASTQ: {all}");
    let kinds: Vec<&Value> = all["failures"].as_array().expect("a list").iter().map(|f| &f["kind"]).collect();
    assert!(kinds.iter().all(|kind| *kind == "not_found"), "{all}");
    assert!(md5sum_agrees(&lab.world.path("out")));
    assert_eq!(all["optimizer"], "fixed:8");
}

/// Files on an nginx.
fn with_nginx(test: &str, files: &[(&str, &str)]) -> Option<(World, Nginx)> {
    let world = World::new();
    for (name, content) in files {
        world.write(format!("www/{name}"), content);
    }
    let nginx = Nginx::start(&world.path("www"));
    if nginx.is_none() {
        skip(test, "nginx is not installed");
    }
    Some((world, nginx?))
}

/// The md5 of a text.
fn md5(text: &str) -> String {
    use tidegate_fetch::checksum::{Algorithm, Hashers};
    let mut hashers = Hashers::new([Algorithm::Md5]);
    hashers.update(text.as_bytes());
    hashers.finish().hex(Algorithm::Md5).expect("computed")
}

#[test]
fn lists_of_every_kind_are_got() {
    let files = [("a b", "first"), ("deep/er/c#", "second")];
    let Some((world, nginx)) = with_nginx("lists_of_every_kind_are_got", &files) else { return };
    let base = nginx.url("").to_string();
    let url = |name: &str| format!("{base}{}", name.replace(' ', "%20").replace('#', "%23"));
    let (one, two) = (url("a b"), url("deep/er/c#"));
    let (sum_one, sum_two) = (md5("first"), md5("second"));
    world.write(
        "aria2",
        format!("{base}missing\t{one}\n  checksum=md5={sum_one}\n  out=a b\n{two}\n  dir=deep/er\n"),
    );
    world.write("md5sum", format!("{sum_one}  a b\n{sum_two} *./deep/er/c#\n"));
    world.write("bsd", format!("MD5 (a b) = {sum_one}\nMD5 (deep/er/c#) = {sum_two}\n"));
    world.write("tsv", format!("url\tmd5\tpath\n{one}\t{sum_one}\ta b\n{two}\t\tdeep/er/c#\n"));
    world.write("csv", format!("Path,Bytes,URL\na b,5,{one}\ndeep/er/c#,6,{two}\n"));
    world
        .write("jsonl", format!("{{\"url\":\"{one}\"}}\n{{\"urls\":[\"{two}\"],\"path\":\"deep/er/c#\"}}\n"));
    world.write("bag/fetch.txt", format!("{one} 5 a b\n{two} - deep/er/c#\n"));
    world.write("bag/manifest-md5.txt", format!("{sum_one}  a b\n{sum_two}  deep/er/c#\n"));
    world.write(
        "meta4",
        format!(
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"a b\"><hash type=\"md5\">{sum_one}</hash><url \
             priority=\"9\">{one}</url></file><file name=\"deep/er/c#\"><size>6</size><url>{two}</url></file></metalink>"
        ),
    );
    for list in ["aria2", "md5sum", "bsd", "tsv", "csv", "jsonl", "bag/fetch.txt", "meta4"] {
        let out = format!("out-{}", list.replace('/', "-"));
        let ran = world.run(&["get", list, "-o", &out, "--base-url", &base]);
        assert!(ran.code == 0 && ran.err.is_empty(), "{list}: {ran:?}");
        assert_eq!(data_files(&world, &out), ["a b", "deep/", "deep/er/", "deep/er/c#"], "{list}");
        assert_eq!(
            (world.read(format!("{out}/a b")), world.read(format!("{out}/deep/er/c#"))),
            ("first".into(), "second".into())
        );
        let is_checked = ["md5sum", "bsd", "bag/fetch.txt"].contains(&list);
        assert_eq!(ran.out.contains("all verified"), is_checked, "{list}: {ran:?}");
        assert_eq!(ran.out.contains("without a checksum to check"), !is_checked, "{list}: {ran:?}");
    }
    // From standard input, and by URL alone.
    let mut command = world.command();
    command.args(["get", "-", "-o", "piped"]).stdin(fs::File::open(world.path("aria2")).expect("there"));
    assert_eq!(finish(&mut command).code, 0);
    assert_eq!(world.tree("piped"), ["a b", "deep/", "deep/er/", "deep/er/c#", "md5sums.txt"]);
    let (code, all) = world.json(&["get", &one, &two, "-o", "alone"]);
    assert_eq!((code, &all["verified"], &all["unchecked"]), (0, &false.into(), &2.into()), "{all}");
    assert_eq!(world.tree("alone"), ["a b", "c#"]);
}

#[test]
fn wrong_bytes_never_get_a_name() {
    let files = [("good", "good"), ("bad", "what is there"), ("short", "12"), ("old", "new")];
    let Some((world, nginx)) = with_nginx("wrong_bytes_never_get_a_name", &files) else { return };
    let (base, other) = (nginx.url(""), md5("something else"));
    world.write("out/bad", "the one before");
    world.write(
        "list.tsv",
        format!("url\tmd5\tbytes\n{base}good\t{}\t4\n{base}bad\t{other}\t\n{base}short\t\t3\n", md5("good")),
    );
    let (code, all) = world.json(&["get", "list.tsv", "-o", "out", "--overwrite"]);
    assert_eq!((code, &all["files"]["ok"], &all["files"]["failed"]), (1, &1.into(), &2.into()), "{all}");
    let told = all["failures"].to_string();
    assert!(told.contains(&other) && told.contains(&md5("what is there")), "both sums: {told}");
    assert!(all["failures"].as_array().expect("a list").iter().any(|f| f["kind"] == "corrupt"), "{told}");
    assert_eq!(world.read("out/bad"), b"the one before");
    assert!(!world.path("out/short").exists());
    // It is got when nobody minds.
    let ran = world.run(&["get", "list.tsv", "-o", "unminded", "--no-verify"]);
    assert_eq!(world.read("unminded/bad"), b"what is there", "{ran:?}");
}

#[test]
fn a_file_of_somebody_else_is_replaced_only_when_asked() {
    let files = [("mine", "theirs"), ("free", "free")];
    let Some((world, nginx)) = with_nginx("a_file_of_somebody_else_is_replaced_only_when_asked", &files)
    else {
        return;
    };
    world.write("out/mine", "years of work");
    let (mine, free) = (nginx.url("mine").to_string(), nginx.url("free").to_string());
    let ran = world.run(&["get", &mine, "-o", "out"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.starts_with("tidegate: mine: ") && ran.err.contains("--overwrite"), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    let ran = world.run(&["get", &mine, &free, "-o", "out"]);
    assert_eq!((ran.code, world.read("out/free")), (1, b"free".to_vec()), "{ran:?}");
    assert_eq!(world.read("out/mine"), b"years of work");
    let failed = String::from_utf8(world.read("out/failed.txt")).expect("text");
    assert!(failed.contains("--overwrite") && failed.contains(&mine) && !failed.contains(&free), "{failed}");
    let ran = world.run(&["get", "out/failed.txt", "-o", "out", "--overwrite"]);
    assert_eq!((ran.code, world.read("out/mine")), (0, b"theirs".to_vec()), "{ran:?}");
    assert!(!world.path("out/failed.txt").exists());
    // Now it is ours.
    world.write("www/mine", "theirs, of later");
    let ran = world.run(&["get", &mine, "-o", "out"]);
    assert_eq!((ran.code, world.read("out/mine")), (0, b"theirs, of later".to_vec()), "{ran:?}");
}

#[test]
fn names_that_collide_or_lead_out_are_refused() {
    let files = [("x/file", "one"), ("y/file", "two"), ("z", "three")];
    let Some((world, nginx)) = with_nginx("names_that_collide_or_lead_out_are_refused", &files) else {
        return;
    };
    let base = nginx.url("");
    fs::create_dir_all(world.path("out/taken")).expect("made");
    world.write(
        "list",
        format!(
            "{base}x/file\n{base}y/file\n{base}x/file\n{base}z\n out=../z\n{base}z\n out=/z\n{base}z\n out=taken\n{base}z\n \
             out=.tidegate/z\n{base}z\n"
        ),
    );
    let (code, all) = world.json(&["get", "list", "-o", "out"]);
    assert_eq!((code, &all["files"]["ok"]), (1, &2.into()), "{all}");
    assert_eq!(all["files"]["failed"], 5, "{all}");
    assert_eq!((world.read("out/file"), world.read("out/z")), (b"one".to_vec(), b"three".to_vec()));
    assert!(!world.path("z").exists());
    let told = all["failures"].to_string();
    for why in ["list:4: refused the name ../z", "a directory of that name is there", "the name of two files"]
    {
        assert!(told.contains(why), "{why}: {told}");
    }
}

#[test]
fn what_makes_no_sense_is_said_at_once() {
    let world = World::new();
    world.write("sums", format!("{}  x\n", md5("x")));
    world.write("file", "not a directory");
    for (arguments, code, why) in [
        (&["get"][..], 2, "NAME"),
        (&["get", "sums"], 2, "--base-url"),
        (&["get", "none.txt"], 3, "cannot read none.txt"),
        (&["get", "./none"], 3, "cannot read ./none"),
        (&["get", "-", "-"], 2, "read once"),
        (&["get", "htp://x/y"], 2, "htp: cannot be fetched"),
        (&["get", "nonsense"], 2, "no accession"),
        (&["get", "SRR000001", "--format", "fasta"], 2, "there are fastq"),
        (&["get", "SRR000001", "--ena-url", "nowhere"], 2, "nowhere"),
        (&["get", "SRR000001", "--fixed", "3", "--optimizer", "aimd"], 2, "cannot be used with"),
        (&["get", "SRR000001", "--max-connections", "0"], 2, "from 1 to 512"),
        (&["get", "http://127.0.0.1:9/x", "-o", "file"], 1, "cannot write to file"),
        (&["get", "http://127.0.0.1:9/x", "-o", "file/deep"], 1, "cannot write to file/deep"),
        (&["get", "http://127.0.0.1:9/x", "--metadata-only", "--no-sidecars"], 2, "nothing to do"),
        (&["copy", "sums", "https://me:pw@h/x", "here/"], 2, "sums is at no server"),
        (&["copy", "https://me:pw@h/x", "gs://b/"], 2, "nothing is put to gs://b/"),
        (&["copy", "--verify=block", "sums", "s3://b/"], 2, "--verify is for copies between hosts"),
        (&["copy", "--limit-write=1Mbit/s", "sums", "s3://b/"], 2, "--limit-write is for copies between"),
        (&["copy", "--links=keep", "sums", "s3://b/"], 2, "[possible values: skip, follow]"),
        (&["copy", "sums", "ftp://me:pw@h/"], 2, "not by FTP"),
        (&["verify", "sums", "ftp://h/"], 2, "is no host that runs Tidegate"),
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(why), "{arguments:?}: {ran:?}");
        assert!(ran.err.lines().count() <= 2, "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_copy_from_a_server_is_what_get_does() {
    let test = "a_copy_from_a_server_is_what_get_does";
    let Some((world, nginx)) = with_nginx(test, &[("x", "one"), ("y", "another")]) else { return };
    let urls = ["x", "y"].map(|name| format!("{}{name}", nginx.url("")));
    let options = ["--json", "--limit-link=800Mbit/s", "--optimizer", "fixed:2", "--no-memory", "-v"];
    let ran = world.run(&[&["copy"], &options[..], &[&urls[0], &urls[1], "new/"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: Value = serde_json::from_str(&ran.out).expect("one object");
    assert_eq!((&summary["files"]["ok"], &summary["optimizer"]), (&2.into(), &"fixed:2".into()));
    // What was named, and nothing beside it.
    assert_eq!(world.tree("new"), ["x", "y"]);
    assert_eq!(world.read("new/y"), b"another");
    let none = format!("{}none", nginx.url(""));
    let ran = world.run(&["copy", "-q", &urls[0], &none, "new/"]);
    assert!(ran.code == 1 && ran.err.contains("none"), "{ran:?}");
    // What `get` has no option for a copy does itself.
    world.write("new/x", "later");
    let (code, left) = world.json(&["copy", "--update", &urls[0], "new/"]);
    assert_eq!((code, left["status"].as_str()), (0, Some("complete")), "{left}");
    assert_eq!(world.read("new/x"), b"later");
}

#[test]
fn secrets_are_said_to_nobody() {
    let Some((world, nginx)) = with_nginx("secrets_are_said_to_nobody", &[("x", "x")]) else { return };
    let place = nginx.url("").to_string().replace("http://", "");
    world.write(
        "list",
        format!(
            "http://me:hidden1@{place}none?sig=hidden2\nhttp://me:hidden1@{place}?hidden2\nhttp://me:hidden1@{place}x?k=hidden2\n  \
             header=Authorization: Bearer hidden3\n  header=Bad Name: hidden3\n"
        ),
    );
    let mut command = world.command();
    command.env("NCBI_API_KEY", "hidden4");
    let ran = finish(command.args(["get", "list", "-vv", "-o", "out", "--retries", "0"]));
    assert_eq!(ran.code, 3, "{ran:?}");
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains("hidden"), "{text}");
    }
    let help = world.run(&["get", "--help"]);
    assert!(help.out.contains("NCBI_API_KEY") && help.out.contains("4 no space left"), "{help:?}");
}

#[test]
fn the_offline_example_runs_through() {
    if !standin::is_there("the_offline_example_runs_through") {
        return;
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new("bash");
    command.arg("examples/get-offline.sh").current_dir(repository);
    command.env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate")).env("MB", "0.2").env_remove("TIDEGATE_STATE");
    let ran = finish(&mut command);
    assert_eq!(ran.code, 0, "{ran:?}");
    for said in
        ["all verified", "SRR9000001_1.fastq.gz: OK", "\"strandedness\"", "nothing to do", "exit code 1"]
    {
        assert!(ran.out.contains(said), "{said}: {ran:?}");
    }
}

#[test]
fn certificates_are_checked_and_may_be_added() {
    let Some((world, nginx)) = with_nginx("certificates_are_checked_and_may_be_added", &[("x", "x")]) else {
        return;
    };
    let url = nginx.secure_url("x").to_string();
    let ran = world.run(&["get", &url, "-o", "out", "--retries", "0"]);
    assert!(ran.code == 5 && !world.path("out/x").exists(), "{ran:?}");
    assert!(ran.err.contains("certificate"), "{ran:?}");
    let ca = nginx.certificates().ca.display().to_string();
    let ran = world.run(&["get", &url, "-o", "out", "--ca", &ca]);
    assert_eq!((ran.code, world.read("out/x")), (0, b"x".to_vec()), "{ran:?}");
    // A redirect to less safety is followed only when allowed.
    let down = nginx.secure_url("downgrade/x").to_string();
    let ran = world.run(&["get", &down, "-o", "down", "--ca", &ca, "--retries", "0"]);
    assert!(ran.code == 1 && ran.err.contains("http"), "{ran:?}");
}

#[test]
fn the_service_asks_a_server_how_much_a_job_is() {
    let content = "x".repeat(300_000);
    let test = "the_service_asks_a_server_how_much_a_job_is";
    let Some((world, nginx)) = with_nginx(test, &[("x", &content), ("y", "12345")]) else { return };
    let size = |urls: &[String]| {
        world.write("asked", serde_json::json!({"size": {"urls": urls}}).to_string());
        let asked = fs::File::open(world.path("asked")).expect("opened");
        finish(world.command().args(["run", "-"]).stdin(asked))
    };
    let ran = size(&[nginx.url("x").to_string(), nginx.url("y").to_string()]);
    assert_eq!((ran.code, ran.out.trim()), (0, r#"{"bytes":300005}"#), "{ran:?}");
    for wrong in
        [nginx.url("none").to_string(), "http://me:hidden@127.0.0.1:9/x".to_owned(), "nonsense".to_owned()]
    {
        let ran = size(std::slice::from_ref(&wrong));
        assert!(
            ran.code != 0 && ran.err.lines().count() == 1 && !ran.err.contains("hidden"),
            "{wrong}: {ran:?}"
        );
    }
    let service = common::service::Service::start(&world, "svc", &[]);
    let (source, got, log) = (nginx.url("x"), world.text("got"), world.text("job.log"));
    let job =
        format!("source = \"{source}\"\ndestination = \"{got}\"\nlog = \"{log}\"\nalways_sample = true\n");
    world.write("job.toml", job);
    let ran = service.run(&world, &["submit", "job.toml", "--wait"]);
    assert_eq!(ran.code, 0, "{ran:?} {}", service.log());
    assert_eq!(world.read("got").len(), 300_000);
    let log = String::from_utf8(world.read("job.log")).expect("text");
    assert!(log.contains("ESTIMATE") && log.contains("as the server says"), "{log}");
    assert_eq!(service.terminate(), 0);
}
