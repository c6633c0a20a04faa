//! Accessions resolved against the stand-in archive: every kind, every shape of run, every way to say
//! nothing, and what goes wrong between.

use std::fs;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::common::archive::{Ask as _, resolve};
use serde_json::Value;
use testkit::nginx::Nginx;
use testkit::skip;
use testkit::standin::{DataSet, Standin, data, id, is_there};
use tidegate_fetch::archive::{ArchiveSettings, Archives, Format, Layout, Naming, ResolveOptions, Source};
use tidegate_fetch::checksum::Algorithm;
use tidegate_fetch::record::{Named, Record};
use tidegate_transfer::error::ErrorKind;

fn wish(format: Format) -> ResolveOptions {
    ResolveOptions { format, ..ResolveOptions::default() }
}

fn fallback(format: Format) -> ResolveOptions {
    ResolveOptions { allow_fallback: true, ..wish(format) }
}

fn from(source: Source, format: Format) -> ResolveOptions {
    ResolveOptions { source, ..wish(format) }
}

/// What stands in for the archives, unless nothing can.
fn standin(test: &str, faults: &[&str]) -> Option<Standin> {
    is_there(test).then(|| Standin::start(data(), faults))
}

fn runs_with_fastq() -> Vec<&'static str> {
    let has_fastq = |run: &&Value| run["fastq"][0].is_object();
    data().runs.iter().filter(has_fastq).map(|run| id(run, "run_accession")).collect()
}

/// The columns by which a run is named.
fn columns() -> impl Iterator<Item = &'static str> {
    let columns = data().runs[0]["columns"].as_object().expect("an object");
    columns.keys().map(String::as_str).filter(|column| column.ends_with("_accession"))
}

/// The runs that have a cell in a column, and FASTQ.
fn with<'a>(column: &str, cell: &str) -> Vec<&'a str> {
    let has = |run: &&Value| {
        id(run, column) == cell && run["fastq"].as_array().is_some_and(|list| !list.is_empty())
    };
    let mut runs: Vec<&str> = data().runs.iter().filter(has).map(|run| id(run, "run_accession")).collect();
    runs.sort_unstable();
    runs
}

/// Holds that a record is the file that was made.
fn assert_is(record: &Record, file: &Value) {
    assert_eq!(record.bytes, file["bytes"].as_u64());
    assert_eq!(record.checksums.hex(Algorithm::Md5).as_deref(), file["md5"].as_str());
    let path = file["path"].as_str().expect("a path");
    assert!(record.urls.iter().any(|url| url.path().ends_with(path)), "{record:?} is not {path}");
}

#[test]
fn every_kind_of_accession_names_its_runs() {
    let Some(server) = standin("every_kind_of_accession_names_its_runs", &[]) else { return };
    let run = data().shape("three");
    for column in columns() {
        let name = id(run, column);
        let outcome = server.resolve(&[&name.to_lowercase()], ResolveOptions::default());
        assert_eq!(outcome.runs(), with(column, name), "{column}");
        assert!(outcome.records.iter().all(|record| record.meta["accession"] == name), "{column}");
    }
    // GEO's samples and series, one of them twice, and what they stand for.
    let series = format!("GSE{}", &id(run, "secondary_study_accession")[3..]);
    let outcome = server.resolve(&[&series], ResolveOptions::default());
    assert_eq!(outcome.runs(), with("study_accession", id(run, "study_accession")));
    let sample = id(run, "sample_alias");
    let outcome = server.resolve(&[sample, "GSM1", sample], ResolveOptions::default());
    assert_eq!(outcome.runs(), with("experiment_accession", id(run, "experiment_accession")));
    assert_eq!(outcome.records[0].meta["accession"], sample);
    let [(name, error)] = &outcome.problems[..] else { panic!("{outcome:?}") };
    assert_eq!((name.as_str(), error.kind), ("GSM1", ErrorKind::NotFound));
}

#[test]
fn accessions_of_one_kind_share_a_request() {
    let Some(server) = standin("accessions_of_one_kind_share_a_request", &[]) else { return };
    // Two of each kind, from both projects.
    let (one, other) = (&data().runs[0], &data().runs[12]);
    let (mut list, mut runs) = (Vec::new(), Vec::new());
    for column in columns() {
        list.extend([id(one, column), id(other, column)]);
        runs.extend([with(column, id(one, column)), with(column, id(other, column))].concat());
    }
    runs.sort_unstable();
    runs.dedup();
    let outcome = server.resolve(&list, fallback(Format::Fastq));
    let fastq = outcome.records.iter().filter(|record| record.meta["format"] == "fastq");
    let mut found: Vec<&str> = fastq.map(|record| record.group.as_deref().expect("a run")).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, runs);
    let requests = server.requests();
    assert_eq!(requests.get("/ena/portal/api/search"), Some(&7), "{requests:?}");
    assert_eq!(requests.get("/ena/portal/api/filereport"), None, "{requests:?}");
}

#[test]
fn one_accession_that_ena_refuses_does_not_spoil_the_others() {
    if !is_there("one_accession_that_ena_refuses_does_not_spoil_the_others") {
        return;
    }
    let runs = runs_with_fastq();
    let refused = runs[4];
    let server = Standin::start(data(), &["--refuses", refused]);
    let outcome = server.resolve(&runs, ResolveOptions::default());
    assert_eq!(outcome.runs().len(), runs.len() - 1);
    let [(name, error)] = &outcome.problems[..] else { panic!("{:?}", outcome.problems) };
    assert_eq!((name.as_str(), error.kind), (refused, ErrorKind::Usage));
    assert!(error.message.contains("Invalid accession supplied"), "{error}");
}

#[test]
fn what_the_search_does_not_find_is_asked_for_by_itself() {
    if !is_there("what_the_search_does_not_find_is_asked_for_by_itself") {
        return;
    }
    let runs = runs_with_fastq();
    let mut wanted = runs.clone();
    wanted.sort_unstable();
    let project = id(data().shape("paired"), "study_accession");
    for (lacks, reports) in [("all", runs.len() + 2), (runs[3], 1)] {
        let server = Standin::start(data(), &["--search-lacks", lacks]);
        let mut list = runs.clone();
        if lacks == "all" {
            list.extend([project, "PRJNA1"]);
        }
        let outcome = server.resolve(&list, ResolveOptions::default());
        assert_eq!(outcome.runs(), wanted, "{lacks}");
        let unknown: Vec<_> = outcome.problems.iter().map(|(name, error)| (&name[..], error.kind)).collect();
        let requests = server.requests();
        assert_eq!(requests.get("/ena/portal/api/filereport"), Some(&(reports as u64)), "{requests:?}");
        if lacks == "all" {
            assert!(unknown.contains(&("PRJNA1", ErrorKind::NotFound)), "{unknown:?}");
        } else {
            assert_eq!(unknown, []);
        }
    }
}

#[test]
fn a_mixed_list_keeps_its_good_part_and_names_the_bad() {
    let Some(server) = standin("a_mixed_list_keeps_its_good_part_and_names_the_bad", &[]) else { return };
    let (one, three) = (data().shape("single"), data().shape("three"));
    let (one, project) = (id(one, "run_accession"), id(three, "study_accession"));
    let sample = id(data().shape("subreads"), "secondary_sample_accession");
    let list = format!("{one},{sample}\t{one} # {project}");
    let list = ["# mine", &list, "SRR12x", "CRR311377", "phs000001", "PRJNA1", project, "", one];
    let outcome = server.resolve(&list, ResolveOptions::default());
    let mut runs = [with("run_accession", one), with("secondary_sample_accession", sample)].concat();
    runs.extend(with("study_accession", project));
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(outcome.runs(), runs);
    let problem = |name: &str| {
        let found = outcome.problems.iter().find(|(named, _)| named == name);
        &found.unwrap_or_else(|| panic!("{name} in {:?}", outcome.problems)).1
    };
    assert!(
        problem("SRR12x").message.starts_with("item 4: \"SRR12x\" is no accession"),
        "{}",
        problem("SRR12x")
    );
    assert!(problem("CRR311377").message.contains("Genome Sequence Archive"));
    assert!(problem("phs000001").message.contains("dbGaP"));
    assert_eq!(problem("PRJNA1").kind, ErrorKind::NotFound);
    assert!(problem("PRJNA1").message.contains("neither ENA nor NCBI"), "{}", problem("PRJNA1"));
    // No file twice, although its run was named thrice.
    let mut paths = outcome.paths();
    paths.sort();
    let all = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), all);
}

#[test]
fn every_file_of_a_run_comes_with_its_size_sum_and_metadata() {
    let Some(server) = standin("every_file_of_a_run_comes_with_its_size_sum_and_metadata", &[]) else {
        return;
    };
    for shape in ["paired", "single", "three", "paired-one", "single-two", "subreads", "other-sra"] {
        let run = data().shape(shape);
        let (name, experiment) = (id(run, "run_accession"), id(run, "experiment_accession"));
        let outcome = server.resolve(&[name], ResolveOptions::default());
        let files = run["fastq"].as_array().expect("a list");
        assert!(outcome.problems.is_empty(), "{shape}: {:?}", outcome.problems);
        assert_eq!(outcome.records.len(), files.len(), "{shape}");
        for (record, file) in outcome.records.iter().zip(files) {
            assert_is(record, file);
            assert_eq!(Some(record.path.to_string().as_str()), file["name"].as_str());
            assert_eq!(record.group.as_deref(), Some(name));
            for (column, cell) in
                [("source", "ena"), ("format", "fastq"), ("experiment_accession", experiment)]
            {
                assert_eq!(record.meta[column], cell);
            }
            for column in ["library_layout", "scientific_name", "sample_title", "fastq_md5", "base_count"] {
                assert!(!record.meta[column].is_empty(), "{column}");
            }
        }
        let fetchngs =
            ResolveOptions { naming: Naming::Fetchngs, layout: Layout::Run, ..ResolveOptions::default() };
        let outcome = server.resolve(&[name], fetchngs);
        for (path, file) in outcome.paths().iter().zip(files) {
            let wanted = format!("{name}/{experiment}_{}", file["name"].as_str().expect("a name"));
            assert_eq!(*path, wanted);
        }
    }
    let only = ResolveOptions { fields: vec!["tax_id".to_owned()], ..ResolveOptions::default() };
    let outcome = server.resolve(&[id(data().shape("single"), "run_accession")], only);
    assert_eq!(outcome.records[0].meta["tax_id"], "9606");
    assert!(!outcome.records[0].meta.contains_key("scientific_name"));
}

#[test]
fn nothing_is_taken_in_place_of_what_was_asked_for_unless_that_is_allowed() {
    let Some(server) = standin("nothing_is_taken_in_place_of_what_was_asked_for_unless_that_is_allowed", &[])
    else {
        return;
    };
    for (shape, format, there, taken) in [
        ("no-fastq", Format::Fastq, "there is sra (1 file", Format::Sra),
        ("submitted", Format::Fastq, "submitted (2 files", Format::Sra),
        ("ncbi-only", Format::Fastq, "aws)", Format::Sra),
        ("lite-only", Format::Sra, "there is fastq (2 files", Format::SraLite),
        ("paired", Format::Submitted, "there is fastq (2 files", Format::Fastq),
    ] {
        let run = id(data().shape(shape), "run_accession");
        let error = server.resolve(&[run], wish(format)).problem().clone();
        assert_eq!(error.kind, ErrorKind::NotFound, "{shape}: {error}");
        assert!(error.message.contains(there) && error.message.contains(run), "{shape}: {error}");
        assert!(error.message.contains("--allow-fallback takes it"), "{shape}: {error}");
        let outcome = server.resolve(&[run], fallback(format));
        assert!(outcome.problems.is_empty(), "{shape}: {:?}", outcome.problems);
        assert!(outcome.records.iter().all(|record| record.meta["format"] == taken.name()), "{shape}");
        let [note] = &outcome.notes[..] else { panic!("{shape}: one note, not {:?}", outcome.notes) };
        assert!(note.contains(run) && note.contains(&format!("taking {taken}")), "{note}");
    }
    // Where there is nothing at all, nothing helps; and what is under control stays so.
    let controlled = id(data().shape("controlled"), "run_accession");
    let error = server.resolve(&[controlled], fallback(Format::Fastq)).problem().clone();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("dbGaP phs000001"), "{error}");
}

#[test]
fn sra_files_have_mirrors_where_archives_agree() {
    let Some(server) = standin("sra_files_have_mirrors_where_archives_agree", &[]) else { return };
    let sra = |shape: &str, source| {
        let run = data().shape(shape);
        let mut outcome = server.resolve(&[id(run, "run_accession")], from(source, Format::Sra));
        assert!(outcome.problems.is_empty(), "{shape}: {:?}", outcome.problems);
        assert_eq!(outcome.records.len(), 1);
        (run, outcome.records.remove(0))
    };
    let (run, record) = sra("paired", Source::Auto);
    assert_is(&record, &run["sra"][0]);
    assert_is(&record, &run["ena_sra"][0]);
    assert_eq!((record.urls.len(), record.meta["source"].as_str()), (2, "ena"));
    assert_eq!(record.path.to_string(), format!("{}.sra", id(run, "run_accession")));
    // ENA packed this one itself: it is another file, so it stands alone.
    let (run, record) = sra("other-sra", Source::Auto);
    assert_is(&record, &run["ena_sra"][0]);
    assert_eq!(record.urls.len(), 1);
    for source in [Source::Ncbi, Source::Aws] {
        let (run, record) = sra("other-sra", source);
        assert_is(&record, &run["sra"][0]);
        assert_eq!((record.urls.len(), record.meta["source"].as_str()), (1, "aws"));
    }
    let (run, record) = sra("ncbi-only", Source::Auto);
    assert_is(&record, &run["sra"][0]);
    assert_eq!(record.meta["instrument_platform"], "ILLUMINA");
    let (_, record) = sra("paired", Source::Ena);
    assert_eq!(record.urls.len(), 1);
}

#[test]
fn sra_lite_and_submitted_files_are_found() {
    let Some(server) = standin("sra_lite_and_submitted_files_are_found", &[]) else { return };
    for shape in ["paired", "lite-only", "ncbi-only"] {
        let run = data().shape(shape);
        let outcome = server.resolve(&[id(run, "run_accession")], wish(Format::SraLite));
        assert_eq!(outcome.paths(), [format!("{}.sralite", id(run, "run_accession"))], "{shape}");
        assert_is(&outcome.records[0], &run["sralite"][0]);
        assert_eq!((outcome.records[0].meta["source"].as_str(), outcome.notes.len()), ("ncbi", 0));
    }
    // What was submitted has one name in every run: it must not have one in the directory.
    let run = data().shape("submitted");
    let name = id(run, "run_accession");
    for source in [Source::Auto, Source::Ncbi] {
        let outcome = server.resolve(&[name], from(source, Format::Submitted));
        let bam = format!("{name}_possorted_genome_bam.bam");
        assert_eq!(outcome.paths(), [bam.clone(), format!("{bam}.bai")], "{source}");
        assert_is(&outcome.records[0], &run["submitted"][0]);
    }
    let error = server.resolve(&[name], from(Source::Ncbi, Format::Fastq)).problem().clone();
    assert!(error.message.contains("no fastq for it from ncbi; there is sra"), "{error}");
}

#[test]
fn every_way_to_say_nothing_is_one() {
    if !is_there("every_way_to_say_nothing_is_one") {
        return;
    }
    for empty in ["header", "204", "404", "[]"] {
        let server = Standin::start(data(), &["--empty", empty, "--strict-ids"]);
        for list in [&["SRR999999999"][..], &["SRR999999999", "PRJNA1"]] {
            let outcome = server.resolve(list, ResolveOptions::default());
            assert_eq!(outcome.problems.len(), list.len(), "{empty}: {:?}", outcome.problems);
            for (name, error) in &outcome.problems {
                assert_eq!(error.kind, ErrorKind::NotFound, "{empty}: {error}");
                assert!(list.contains(&name.as_str()) && error.message.contains(name), "{empty}: {error}");
            }
        }
    }
}

#[test]
fn what_passes_is_waited_for() {
    if !is_there("what_passes_is_waited_for") {
        return;
    }
    let list = [id(data().shape("paired"), "run_accession"), id(data().shape("ncbi-only"), "sample_alias")];
    for faults in [
        &["--limit-in-200", "2"][..],
        &["--html", "2"],
        &["--fail", "3", "--retry-after", "0.05"],
        &["--fail", "2", "--fail-status", "500"],
        &["--fail", "2", "--fail-status", "429"],
        &["--requests-a-second", "3", "--retry-after", "0.4"],
        &["--no-runinfo-header"],
        &["--strict-ids"],
    ] {
        let server = Standin::start(data(), faults);
        let outcome = server.resolve(&list, wish(Format::Sra));
        assert!(outcome.problems.is_empty(), "{faults:?}: {:?}", outcome.problems);
        assert_eq!(outcome.records.len(), 2, "{faults:?}");
    }
}

#[test]
fn what_does_not_pass_is_told_of_every_accession() {
    if !is_there("what_does_not_pass_is_told_of_every_accession") {
        return;
    }
    let list = [id(data().shape("paired"), "run_accession"), id(data().shape("three"), "run_accession")];
    for (faults, kind, words) in [
        (&["--html", "-1"][..], ErrorKind::Protocol, "answered 200: a page (Service page) in place of data"),
        (&["--fail", "-1"], ErrorKind::Connection, "answered 503: an error was asked for"),
        (&["--limit-in-200", "-1"], ErrorKind::Connection, "too many requests"),
        (&["--fail", "-1", "--fail-status", "403"], ErrorKind::Denied, "answered 403"),
        (&["--fail", "-1", "--fail-status", "301"], ErrorKind::Protocol, "answered 301"),
        (&["--fail", "-1", "--fail-status", "501"], ErrorKind::Protocol, "answered 501"),
    ] {
        let server = Standin::start(data(), faults);
        let settings =
            ArchiveSettings { retries: 2, api_key: Some("s3cr3t".to_owned()), ..server.settings() };
        let outcome = resolve(settings, &[list[0], list[1], "GSM7000001"], ResolveOptions::default());
        assert!(outcome.records.is_empty() && outcome.problems.len() == 3, "{faults:?}: {outcome:?}");
        for (name, error) in &outcome.problems {
            assert_eq!(error.kind, kind, "{faults:?}: {error}");
            assert!(error.message.contains(name) && error.message.contains(words), "{faults:?}: {error}");
            let is_final = ["403", "301", "501"].iter().any(|status| words.ends_with(status));
            assert_eq!(is_final, !error.message.contains("(tried "), "{faults:?}: {error}");
            assert!(!error.message.contains("s3cr3t") && !error.message.contains("127.0.0.1\""), "{error}");
        }
    }
    // Nobody there, and nobody in time.
    let server = Standin::start(data(), &["--slow", "0.5"]);
    let hasty = ArchiveSettings { timeout: Duration::from_millis(100), retries: 1, ..server.settings() };
    let absent =
        ArchiveSettings { ena_url: "http://127.0.0.1:9/".to_owned(), retries: 1, ..server.settings() };
    for settings in [hasty, absent] {
        let outcome = resolve(settings, &list[..1], from(Source::Ena, Format::Fastq));
        assert_eq!(outcome.problem().kind, ErrorKind::Connection, "{}", outcome.problem());
        assert!(outcome.problem().message.contains("cannot ask ENA"), "{}", outcome.problem());
    }
}

#[test]
fn one_interface_that_fails_does_not_take_the_others_along() {
    if !is_there("one_interface_that_fails_does_not_take_the_others_along") {
        return;
    }
    let at = |interface| {
        let server = Standin::start(data(), &["--fail", "-1", "--at", interface]);
        let settings = ArchiveSettings { retries: 1, ..server.settings() };
        (server, settings)
    };
    let (paired, ncbi) = (data().shape("paired"), data().shape("ncbi-only"));
    let (paired, ncbi) = (id(paired, "run_accession"), id(ncbi, "run_accession"));
    let (_server, settings) = at("ena");
    let outcome = resolve(settings, &[paired], wish(Format::Sra));
    assert_eq!((outcome.records.len(), outcome.problems.len()), (1, 0), "NCBI has SRA files: {outcome:?}");
    let (_server, settings) = at("eutils");
    let outcome = resolve(settings, &[paired, ncbi], ResolveOptions::default());
    assert_eq!(outcome.runs(), [paired]);
    assert!(outcome.problems[0].1.message.contains("E-utilities"), "{:?}", outcome.problems);
    let (_server, settings) = at("sdl");
    let outcome = resolve(settings.clone(), &[paired], from(Source::Aws, Format::Sra));
    assert_eq!((outcome.records.len(), outcome.problems.len()), (1, 0), "{outcome:?}");
    assert_eq!(outcome.records[0].meta["source"], "aws");
    let outcome = resolve(settings, &[paired, ncbi], wish(Format::Sra));
    // ENA has the one; the other is looked for on the open-data mirror, which says its size.
    assert_eq!((outcome.runs().len(), outcome.problems.len()), (2, 0), "{outcome:?}");
    let mirrored =
        outcome.records.iter().find(|record| record.group.as_deref() == Some(ncbi)).expect("found");
    assert_eq!(mirrored.bytes, data().shape("ncbi-only")["sra"][0]["bytes"].as_u64());
    assert!(mirrored.checksums.is_empty());
}

#[test]
fn a_row_that_is_cut_off_is_told_and_the_others_are_taken() {
    let Some(server) = standin("a_row_that_is_cut_off_is_told_and_the_others_are_taken", &["--cut"]) else {
        return;
    };
    let project = id(data().shape("three"), "study_accession");
    let outcome = server.resolve(&[project], ResolveOptions::default());
    let whole = Standin::start(data(), &[]).resolve(&[project], ResolveOptions::default());
    assert!(!outcome.records.is_empty() && outcome.records.len() < whole.records.len());
    let told = outcome.problems.iter().find(|(name, _)| name == project).expect("it is told");
    assert!(told.1.message.contains("1 rows of ENA's answer cannot be read"), "{}", told.1);
}

#[test]
fn an_outage_is_not_an_absence() {
    let Some(server) = standin("an_outage_is_not_an_absence", &["--fail", "-1", "--at", "sdl"]) else {
        return;
    };
    let settings = ArchiveSettings { retries: 0, ..server.settings() };
    let run = id(data().shape("paired"), "run_accession");
    // There is SRA Lite, but nobody can say so now: SRA is not taken in its place.
    let outcome = resolve(settings.clone(), &[run], fallback(Format::SraLite));
    assert_eq!(outcome.problem().kind, ErrorKind::Connection, "{}", outcome.problem());
    assert!(outcome.problem().message.contains("NCBI's locator"), "{}", outcome.problem());
    // Of FASTQ it is ENA that knows.
    let run = id(data().shape("no-fastq"), "run_accession");
    let outcome = resolve(settings, &[run], fallback(Format::Fastq));
    assert_eq!((outcome.records.len(), outcome.notes.len()), (1, 1), "{outcome:?}");
}

#[test]
fn a_refused_question_is_told_in_enas_words() {
    let Some(server) = standin("a_refused_question_is_told_in_enas_words", &[]) else { return };
    let unknown = ResolveOptions { fields: vec!["no_such_field".to_owned()], ..ResolveOptions::default() };
    let runs = [id(data().shape("paired"), "run_accession"), id(data().shape("three"), "run_accession")];
    let outcome = server.resolve(&runs, unknown);
    assert_eq!(outcome.problems.len(), 2, "{outcome:?}");
    for (_, error) in &outcome.problems {
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains("no_such_field"), "{error}");
    }
}

#[test]
fn a_thousand_accessions_take_a_handful_of_requests() {
    if !is_there("a_thousand_accessions_take_a_handful_of_requests") {
        return;
    }
    let data = DataSet::make(&["--runs", "1000", "--mb", "0", "--table-only", "--shapes", "paired"]);
    let runs: Vec<&str> = data.runs.iter().map(|run| id(run, "run_accession")).collect();
    let server = Standin::start(&data, &[]);
    // As fast as the archives allow, not as fast as the stand-in is.
    let usual = ArchiveSettings::default();
    let polite =
        ArchiveSettings { ena_rate: usual.ena_rate, ncbi_rate: usual.ncbi_rate, ..server.settings() };
    let start = Instant::now();
    let outcome = resolve(polite.clone(), &runs, ResolveOptions::default());
    println!("1000 accessions resolved in {:.2?}", start.elapsed());
    assert_eq!((outcome.records.len(), outcome.problems.len()), (2000, 0));
    let requests = server.requests();
    println!("requests: {requests:?}");
    assert_eq!(requests["/ena/portal/api/search"], 2, "{requests:?}");

    // Their SRA files are located a hundred at a time.
    let start = Instant::now();
    let outcome = resolve(polite, &runs, wish(Format::Sra));
    println!("1000 accessions resolved to SRA files and their mirrors in {:.2?}", start.elapsed());
    assert_eq!((outcome.records.len(), outcome.problems.len()), (1000, 0));
    assert!(outcome.records.iter().all(|record| record.urls.len() == 2));
    let both: u64 = server.requests().into_iter().filter(|(what, _)| what != "data").map(|(_, n)| n).sum();
    assert!(both <= 2 + 2 + 11, "{:?}", server.requests());
}

#[test]
fn the_first_files_are_known_before_the_last_accession() {
    let Some(server) = standin("the_first_files_are_known_before_the_last_accession", &[]) else { return };
    let archives = Arc::new(Archives::new(server.settings()).expect("good settings"));
    let (write, read) = mpsc::channel::<String>();
    let mut names = archives.resolve(read.into_iter(), ResolveOptions::default());
    let (one, three) =
        (id(data().shape("single"), "run_accession"), id(data().shape("three"), "run_accession"));
    write.send(one.to_owned()).expect("somebody reads");
    let first = names.next();
    assert!(
        matches!(&first, Some(Named::Record(record)) if record.group.as_deref() == Some(one)),
        "{first:?}"
    );
    write.send(three.to_owned()).expect("somebody reads on");
    drop(write);
    assert_eq!(names.count(), 3);
}

#[test]
fn a_list_that_breaks_does_not_look_like_one_that_ends() {
    let settings =
        ArchiveSettings { ena_url: "http://127.0.0.1:9/".to_owned(), ..ArchiveSettings::default() };
    let archives = Arc::new(Archives::new(settings).expect("good settings"));
    let list = ["CRR311377", ""].into_iter().map(|line| {
        assert!(!line.is_empty(), "this list breaks");
        line.to_owned()
    });
    let names: Vec<Named> = archives.resolve(list, ResolveOptions::default()).collect();
    let [Named::Problem(_, one), Named::Problem(_, last)] = &names[..] else { panic!("{names:?}") };
    assert!(one.message.contains("Genome Sequence Archive"), "{one}");
    assert!(last.message.contains("before the end of the list"), "{last}");
}

#[test]
fn a_stream_that_nobody_reads_ends() {
    let Some(server) = standin("a_stream_that_nobody_reads_ends", &["--fail", "-1", "--retry-after", "60"])
    else {
        return;
    };
    let archives = Arc::new(Archives::new(server.settings()).expect("good settings"));
    let watch = Arc::downgrade(&archives);
    let list = data().runs.iter().map(|run| id(run, "run_accession").to_owned()).collect::<Vec<_>>();
    drop(archives.resolve(list.into_iter(), ResolveOptions::default()));
    // The threads let go of the archives when they end: far sooner than the server asks to wait.
    let start = Instant::now();
    while watch.strong_count() > 0 && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(watch.strong_count(), 0);
}

#[test]
fn an_archive_behind_an_authority_of_the_house_is_trusted_when_told_to() {
    let root = tempfile::tempdir().expect("a directory");
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/ena");
    fs::create_dir(root.path().join("ena")).expect("made");
    for name in ["filereport", "search"] {
        let report = format!("{samples}/SRR7706354.filereport.tsv");
        fs::copy(report, root.path().join("ena").join(name)).expect("copied");
    }
    // A POST is answered with the file too.
    let posted = "location /ena/ { default_type text/tab-separated-values; error_page 405 =200 $uri; }";
    let Some(nginx) = Nginx::with(root.path(), "", posted) else {
        return skip(
            "an_archive_behind_an_authority_of_the_house_is_trusted_when_told_to",
            "nginx is missing",
        );
    };
    let settings = |ca| ArchiveSettings {
        ena_url: nginx.secure_url("ena").to_string(),
        ca,
        retries: 0,
        ..ArchiveSettings::default()
    };
    let wish = || from(Source::Ena, Format::Fastq);
    let outcome = resolve(settings(Some(nginx.certificates().ca.clone())), &["SRR7706354"], wish());
    assert!(outcome.problems.is_empty(), "{outcome:?}");
    assert_eq!(outcome.runs(), ["SRR7706354"]);
    let outcome = resolve(settings(None), &["SRR7706354"], wish());
    assert_eq!(outcome.problem().kind, ErrorKind::Denied, "{}", outcome.problem());
    let outcome = resolve(settings(Some(root.path().join("none.pem"))), &["SRR7706354"], wish());
    assert!(outcome.problem().message.contains("none.pem"), "{}", outcome.problem());
}
