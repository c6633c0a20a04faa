//! What is written beside the files, as people and pipelines read it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tidegate_fetch::checksum::{Algorithm, Checksums, Hashers};
use tidegate_fetch::list::{self, Options};
use tidegate_fetch::record::{Named, Record};
use tidegate_fetch::sidecar::{Arrived, Shape, Sidecars, Written};
use tidegate_transfer::error::{Error, ErrorKind};
use tidegate_transfer::path::RelPath;

fn md5(content: &str) -> Checksums {
    let mut hashers = Hashers::new([Algorithm::Md5]);
    hashers.update(content.as_bytes());
    hashers.finish()
}

/// A file of a run, its content its own path.
fn record(run: &str, path: &str, meta: &[(&str, &str)]) -> Record {
    let url = format!("https://me:secret@host/{run}/file?token=secret").parse().expect("a URL");
    let mut all: BTreeMap<String, String> =
        meta.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.insert("run_accession".into(), run.into());
    all.insert("source".into(), "ena".into());
    all.insert("format".into(), "fastq".into());
    Record {
        bytes: Some(path.len() as u64),
        checksums: md5(path),
        group: Some(run.into()),
        meta: Arc::new(all),
        ..Record::new(url, RelPath::new(path).expect("a path"))
    }
}

fn arrive(sidecars: &mut Sidecars, directory: &Path, record: &Record) {
    let path = record.path.to_string();
    let file = directory.join(&path);
    fs::create_dir_all(file.parent().expect("a parent")).expect("made");
    fs::write(file, &path).expect("written");
    let sums = md5(&path);
    let arrived = Arrived {
        url: &record.urls[0],
        bytes: Some(path.len() as u64),
        checksums: &sums,
        seconds: Some(0.5),
        verified: true,
    };
    sidecars.arrived(record, &arrived).expect("noted");
}

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn md5sum_agrees(directory: &Path) -> bool {
    let ran = Command::new("md5sum")
        .args(["-c", "--strict", "--quiet", "md5sums.txt"])
        .current_dir(directory)
        .status();
    ran.expect("md5sum").success()
}

#[test]
fn runs_sums_and_sheet_are_written_and_merged() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path();
    let write = |records: &[Record], shape| {
        let mut sidecars = Sidecars::new(directory, Some(shape)).expect("begun");
        records.iter().for_each(|record| arrive(&mut sidecars, directory, record));
        sidecars.write(true).expect("written")
    };
    let paired = [
        ("experiment_accession", "SRX1"),
        ("sample_title", "a \"title\",\twith a tab"),
        ("fastq_ftp", "1;2;3"),
    ];
    let first = [
        record("SRR2", "SRR2_2.fastq.gz", &paired),
        record("SRR2", "SRR2.fastq.gz", &paired),
        record("SRR2", "SRR2_1.fastq.gz", &paired),
        record("SRR1", "deep/SRR1.fastq.gz", &[("experiment_accession", "SRX0"), ("tax_id", "1")]),
        record("SRR3", "SRR3.sra", &[]),
    ];
    let written = write(&first, Shape::Rnaseq);
    assert_eq!(written, Written { files: vec!["runs.tsv", "samplesheet.csv", "md5sums.txt"], notes: vec![] });
    let runs = text(directory, "runs.tsv");
    let lines: Vec<&str> = runs.lines().collect();
    assert_eq!(
        lines[0],
        "run_accession\texperiment_accession\tfastq_ftp\tsample_title\ttax_id\tpath\turl\tsource\tformat\tbytes\tmd5\t\
         md5_ok\tseconds"
    );
    let sum = md5("SRR2_1.fastq.gz").hex(Algorithm::Md5).expect("computed");
    assert!(lines.contains(
        &&*format!(
            "SRR2\tSRX1\t1;2;3\ta \"title\", with a tab\t\tSRR2_1.fastq.gz\thttps://host/SRR2/file?…\tena\tfastq\t15\t{sum}\t\
             true\t0.500"
        )
    ), "{runs}");
    assert_eq!(lines.len(), 6);
    let at = |name: &str| directory.join(name).display().to_string();
    assert_eq!(
        text(directory, "samplesheet.csv"),
        format!(
            "\"sample\",\"fastq_1\",\"fastq_2\",\"strandedness\",\"run_accession\",\"experiment_accession\",\
             \"sample_title\",\"tax_id\"\n\"SRX0\",\"{}\",\"\",\"auto\",\"SRR1\",\"SRX0\",\"\",\"1\"\n\"SRX1\",\"{}\",\"{}\",\
             \"auto\",\"SRR2\",\"SRX1\",\"a \"\"title\"\", with a tab\",\"\"\n",
            at("deep/SRR1.fastq.gz"),
            at("SRR2_1.fastq.gz"),
            at("SRR2_2.fastq.gz")
        )
    );
    assert!(md5sum_agrees(directory));
    // Another run of the command: another run of the same sample, and one file again.
    let second = [record("SRR4", "SRR4.fq", &[("experiment_accession", "SRX0")]), first[1].clone()];
    write(&second, Shape::Atacseq);
    assert_eq!(text(directory, "runs.tsv").lines().count(), 7);
    let sheet = text(directory, "samplesheet.csv");
    let rows: Vec<&str> = sheet.lines().collect();
    assert!(rows[0].contains("\"replicate\"") && rows.len() == 4, "{sheet}");
    assert!(rows[1].starts_with("\"SRX0\"") && rows[2].starts_with("\"SRX0\""), "{sheet}");
    assert!(md5sum_agrees(directory) && text(directory, "md5sums.txt").lines().count() == 6);
    // Once more changes nothing.
    let before = [text(directory, "runs.tsv"), sheet, text(directory, "md5sums.txt")];
    write(&second, Shape::Atacseq);
    assert_eq!(before, ["runs.tsv", "samplesheet.csv", "md5sums.txt"].map(|name| text(directory, name)));
    let left: Vec<_> =
        fs::read_dir(directory).expect("listed").map(|entry| entry.expect("listed").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn every_shape_has_its_column() {
    for &shape in Shape::ALL {
        let home = tempfile::tempdir().expect("a directory");
        let mut sidecars = Sidecars::new(home.path(), Some(shape)).expect("begun");
        let record = record("ERR1", "ERR1.fastq.gz", &[("instrument_platform", "ILLUMINA")]);
        let none = Checksums::none();
        let looked =
            Arrived { url: &record.urls[0], bytes: None, checksums: &none, seconds: None, verified: false };
        sidecars.arrived(&record, &looked).expect("noted");
        // Nothing was downloaded: there is nothing to check.
        assert_eq!(sidecars.write(true).expect("written").files, ["runs.tsv", "samplesheet.csv"]);
        let own = match shape.name() {
            "rnaseq" => ",\"strandedness\"",
            "atacseq" => ",\"replicate\"",
            "taxprofiler" => ",\"fasta\"",
            _ => "",
        };
        let sheet = text(home.path(), "samplesheet.csv");
        let header =
            format!("\"sample\",\"fastq_1\",\"fastq_2\"{own},\"run_accession\",\"instrument_platform\"\n");
        assert!(sheet.starts_with(&header), "{shape}: {sheet}");
        let row = text(home.path(), "runs.tsv").lines().nth(1).expect("a row").to_owned();
        assert!(
            row.ends_with(&format!("\t13\t{}\t\t", record.checksums.hex(Algorithm::Md5).expect("declared"))),
            "{row}"
        );
    }
}

#[test]
fn a_run_that_lacks_a_file_is_in_no_sheet() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path();
    let begin = || Sidecars::new(directory, Some(Shape::Generic)).expect("begun");
    let mut sidecars = begin();
    let error = Error::new(ErrorKind::Corrupt, "md5 differs\nsomehow");
    let known = [("fastq_ftp", "a;b")];
    let (one, two) =
        (record("SRR100001", "SRR100001_1.fastq.gz", &[]), record("SRR100001", "SRR100001_2.fastq.gz", &[]));
    arrive(&mut sidecars, directory, &one);
    sidecars.failed("SRR100001_2.fastq.gz", Some(&two), &error).expect("noted");
    arrive(&mut sidecars, directory, &record("SRR100002", "SRR100002_1.fastq.gz", &known));
    arrive(&mut sidecars, directory, &record("SRR100003", "SRR100003.fastq.gz", &[]));
    let mut plain =
        Record::new("https://host/x?sig=1".parse().expect("a URL"), RelPath::new("y").expect("a path"));
    plain.checksums = md5("y");
    sidecars.failed("y", Some(&plain), &error).expect("noted");
    sidecars.failed("SRR100009", None, &error).expect("noted");
    sidecars.failed("list:7", None, &error).expect("noted");
    let written = sidecars.write(true).expect("written");
    assert_eq!(written.files, ["runs.tsv", "samplesheet.csv", "md5sums.txt", "failed.txt"]);
    assert_eq!(written.notes, ["samplesheet.csv leaves out 2 runs that lack a file"]);
    let sheet = text(directory, "samplesheet.csv");
    assert!(
        sheet.contains("SRR100003") && !sheet.contains("SRR100001") && !sheet.contains("SRR100002"),
        "{sheet}"
    );
    let mode = fs::metadata(directory.join("failed.txt")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // It is a list of what to get again.
    let (records, words) = read_back(directory);
    assert_eq!(records, [plain]);
    assert_eq!(words, ["SRR100001", "SRR100009"]);
    let failed = text(directory, "failed.txt");
    assert!(
        failed.contains("# md5 differs somehow\nSRR100009\n") && failed.contains("# list:7\n"),
        "{failed}"
    );
    // One is got later, one fails again, one is not met: only the first is over.
    let mut sidecars = begin();
    arrive(&mut sidecars, directory, &record("SRR100009", "SRR100009.fastq.gz", &[]));
    sidecars.failed("SRR100001_2.fastq.gz", Some(&two), &error).expect("noted");
    sidecars.write(true).expect("written");
    assert_eq!(read_back(directory).1, ["SRR100001"]);
    assert_eq!(read_back(directory).0.len(), 1);
    let mut sidecars = begin();
    arrive(&mut sidecars, directory, &one);
    arrive(&mut sidecars, directory, &two);
    let mut got =
        Record::new("https://host/x?sig=1".parse().expect("a URL"), RelPath::new("y").expect("a path"));
    got.group = None;
    arrive(&mut sidecars, directory, &got);
    assert!(!sidecars.write(true).expect("written").files.contains(&"failed.txt"));
    assert!(
        text(directory, "samplesheet.csv").contains("SRR100001_2") && !directory.join("failed.txt").exists()
    );
}

#[test]
fn what_was_never_to_be_got_is_not_listed_and_what_is_over_is_struck_off() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path();
    let begin = || Sidecars::new(directory, None).expect("begun");
    let of = |kind| Error::new(kind, "why not");
    // A slip of the pen alone leaves nothing.
    let mut sidecars = begin();
    for named in ["SRX", "list:3", "CRR311377", "htp://x/y"] {
        sidecars.failed(named, None, &of(ErrorKind::Usage)).expect("noted");
    }
    assert!(
        sidecars.write(true).expect("written").files.is_empty() && !directory.join("failed.txt").exists()
    );
    // What may be had another time stays, until it is had.
    let mut sidecars = begin();
    sidecars.failed("SRX", None, &of(ErrorKind::Usage)).expect("noted");
    sidecars.failed("ENA", None, &of(ErrorKind::Protocol)).expect("noted");
    sidecars.failed("PRJNA1", None, &of(ErrorKind::Connection)).expect("noted");
    sidecars.failed("SRR000009", None, &of(ErrorKind::NotFound)).expect("noted");
    sidecars.write(true).expect("written");
    assert_eq!(read_back(directory).1, ["PRJNA1", "SRR000009"]);
    let of_project = |run: &str| record(run, &format!("{run}.fastq.gz"), &[("accession", "PRJNA1")]);
    for (whole, left) in [(false, &["PRJNA1", "SRR000009"][..]), (true, &["SRR000009"])] {
        let mut sidecars = begin();
        arrive(&mut sidecars, directory, &of_project("SRR000001"));
        sidecars.write(whole).expect("written");
        assert_eq!(read_back(directory).1, left, "{whole}");
        assert!(!text(directory, "failed.txt").contains("ENA"));
    }
    // What earlier versions wrote of slips of the pen is dropped.
    let old = format!("{}# no accession\nSRX\n", text(directory, "failed.txt"));
    fs::write(directory.join("failed.txt"), old).expect("written");
    let mut sidecars = begin();
    arrive(&mut sidecars, directory, &record("SRR000009", "x", &[]));
    assert!(!sidecars.write(true).expect("written").files.contains(&"failed.txt"));
    assert!(!directory.join("failed.txt").exists());
}

fn read_back(directory: &Path) -> (Vec<Record>, Vec<String>) {
    let words = Arc::new(tidegate_transfer::sys::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&words);
    let keep = Box::new(move |word: &str| {
        kept.lock().push(word.to_owned());
        Ok(())
    });
    let names = list::open(&directory.join("failed.txt"), &Options::default(), keep).expect("a list");
    let records = names
        .map(|named| match named {
            Named::Record(record) => *record,
            other => panic!("{other:?}"),
        })
        .collect();
    let words = words.lock().clone();
    (records, words)
}

#[test]
fn what_failed_is_written_so_that_it_names_nothing_else() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path();
    let mut sidecars = Sidecars::new(directory, None).expect("begun");
    let error = Error::new(ErrorKind::NotFound, "no\x1b[2J\u{202e}\nfile:///etc/shadow");
    let plain = |n: u32| format!("https://host/{n}").parse().expect("a URL");
    let groups = ["a\nfile:///etc/passwd", "file:///etc/passwd", "\u{202e}"];
    for (n, group) in (1..).zip(groups) {
        let path = RelPath::new(format!("{n}\u{9b}\n  out=x")).expect("a path");
        let record = Record { group: Some(group.into()), ..Record::new(plain(n), path) };
        sidecars.failed("it", Some(&record), &error).expect("noted");
    }
    for named in ["https://host/a\nfile:///etc/passwd", "file:///etc/passwd", "https://host/\u{202e}"] {
        sidecars.failed(named, None, &error).expect("noted");
    }
    assert_eq!(sidecars.write(true).expect("written").files, ["failed.txt"]);
    let failed = text(directory, "failed.txt");
    assert!(!failed.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{failed:?}");
    let (records, words) = read_back(directory);
    let urls: Vec<&str> = records.iter().map(|record| record.urls[0].as_str()).collect();
    assert_eq!(
        (urls, words.len()),
        (vec!["https://host/1", "https://host/2", "https://host/3"], 0),
        "{failed}"
    );
}

#[test]
fn tables_show_nothing_that_is_not_seen() {
    let home = tempfile::tempdir().expect("a directory");
    let mut sidecars = Sidecars::new(home.path(), Some(Shape::Generic)).expect("begun");
    let known = [("sample_title", "a\x1b[2J\u{9b}\u{202e}b"), ("odd\u{2066}\n", "x")];
    arrive(&mut sidecars, home.path(), &record("SRR1", "SRR1.fastq.gz", &known));
    sidecars.write(true).expect("written");
    for name in ["runs.tsv", "samplesheet.csv"] {
        let table = text(home.path(), name);
        let hidden = |c: char| (c.is_control() && !"\n\t".contains(c)) || "\u{202e}\u{2066}".contains(c);
        assert!(
            !table.chars().any(hidden) && table.contains("a [2J  b") && table.lines().count() == 2,
            "{table:?}"
        );
    }
}

#[test]
fn an_interrupted_run_says_nothing_of_whole_runs() {
    let home = tempfile::tempdir().expect("a directory");
    let mut sidecars = Sidecars::new(home.path(), Some(Shape::Generic)).expect("begun");
    arrive(&mut sidecars, home.path(), &record("SRR1", "SRR1_1.fastq.gz", &[]));
    let written = sidecars.write(false).expect("written");
    assert_eq!(written.files, ["runs.tsv", "md5sums.txt"]);
    assert!(written.notes[0].contains("not every run is known to be complete"));
}

#[test]
fn files_that_are_not_ours_stay() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path();
    let names = ["runs.tsv", "samplesheet.csv", "md5sums.txt", "failed.txt"];
    for name in names {
        fs::write(directory.join(name), "mine\tand mine\n").expect("written");
    }
    let mut sidecars = Sidecars::new(directory, Some(Shape::Generic)).expect("begun");
    arrive(&mut sidecars, directory, &record("SRR1", "SRR1.fastq.gz", &[]));
    sidecars.failed("SRR2", None, &Error::new(ErrorKind::NotFound, "no")).expect("noted");
    let written = sidecars.write(true).expect("written");
    assert!(written.files.is_empty() && written.notes.len() == 4, "{written:?}");
    for name in names {
        assert_eq!(text(directory, name), "mine\tand mine\n");
    }
    // A file that was got keeps its name too.
    let mut sidecars = Sidecars::new(directory, None).expect("begun");
    arrive(&mut sidecars, directory, &record("SRR1", "md5sums.txt", &[]));
    let written = sidecars.write(true).expect("written");
    assert!(!written.files.contains(&"md5sums.txt"), "{written:?}");
    assert_eq!(text(directory, "md5sums.txt"), "md5sums.txt");
}

#[test]
fn odd_names_pass_md5sum() {
    let home = tempfile::tempdir().expect("a directory");
    let mut sidecars = Sidecars::new(home.path(), None).expect("begun");
    for path in ["a b", "new\nline", "back\\slash", "-dash", "*star", " space", "é"] {
        let record =
            Record::new("https://host/x".parse().expect("a URL"), RelPath::new(path).expect("a path"));
        let sums = md5(path);
        fs::write(home.path().join(path), path).expect("written");
        let arrived = Arrived {
            url: &record.urls[0],
            bytes: Some(1),
            checksums: &sums,
            seconds: None,
            verified: false,
        };
        sidecars.arrived(&record, &arrived).expect("noted");
    }
    assert_eq!(sidecars.write(true).expect("written").files, ["md5sums.txt"]);
    assert!(md5sum_agrees(home.path()), "{}", text(home.path(), "md5sums.txt"));
    // And is merged with itself.
    let mut sidecars = Sidecars::new(home.path(), None).expect("begun");
    let before = text(home.path(), "md5sums.txt");
    let record = Record::new("https://host/x".parse().expect("a URL"), RelPath::new("é").expect("a path"));
    let sums = md5("é");
    let arrived =
        Arrived { url: &record.urls[0], bytes: Some(2), checksums: &sums, seconds: None, verified: false };
    sidecars.arrived(&record, &arrived).expect("noted");
    sidecars.write(true).expect("written");
    assert_eq!(text(home.path(), "md5sums.txt"), before);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let home = tempfile::tempdir().expect("a directory");
    let error = Sidecars::new(&home.path().join("none"), None).expect_err("nowhere to write");
    assert_eq!(error.kind, ErrorKind::NotFound);
}
