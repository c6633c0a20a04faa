//! Asks each interface for one run that is known to be there, and tells what of the answer is not as it is expected
//! here. An archive that changes its answers is noticed so before a list of a thousand runs is.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tidegate_transfer::error::Result;
use ureq::http::Method;

use super::accession::Accession;
use super::client::{ArchiveClient, ArchiveSettings, Probe, Service};
use super::ena;
use super::eutils::{RUN_COLUMNS, number};

/// A run that archives have had since 2012 and that others' documents use as their example.
pub const KNOWN_RUN: &str = "SRR390728";

/// What one interface answered.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceCheck {
    /// Which one.
    pub name: &'static str,
    /// Where it was asked, without the question.
    pub url: String,
    /// How it went.
    pub status: CheckStatus,
    /// What differs from what is expected here, or why there was no answer.
    pub differs: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// All that is needed is there.
    AsExpected,
    /// It answered something else.
    Differs,
    /// It did not answer: no connection, no trust in its certificate, no such name.
    NoAnswer,
}

/// Asks every interface once for `run`.
///
/// # Errors
///
/// If the settings make no sense; what the interfaces do is in the answer.
pub fn self_check(settings: ArchiveSettings, run: &Accession) -> Result<Vec<InterfaceCheck>> {
    let client = ArchiveClient::new(settings)?;
    let run = run.as_str();
    let mut checks = Vec::new();
    let mut files = None;
    let fields = ena::fields(&[]);
    let report =
        [("accession", run), ("result", "read_run"), ("format", "tsv"), ("limit", "0"), ("fields", &fields)];
    let get = (&Method::GET, &report[..]);
    checks.push(check(&client, &client.ena, "filereport", get, |probe, wrong| {
        files = report_of(probe, run, &fields, wrong);
    }));
    let list = [
        ("includeAccessionType", "run"),
        ("includeAccessions", run),
        ("result", "read_run"),
        ("format", "tsv"),
        ("limit", "0"),
        ("fields", &fields),
    ];
    checks.push(check(&client, &client.ena, "search", (&Method::POST, &list), |probe, wrong| {
        report_of(probe, run, &fields, wrong);
    }));
    if let Some((url, bytes)) = &files {
        checks.push(match Service::new("ENA's files", url, 0.0) {
            Ok(service) => check(&client, &service, "", (&Method::HEAD, &[]), |probe, wrong| {
                head_of(probe, Some(*bytes), wrong);
            }),
            Err(error) => InterfaceCheck {
                name: "ENA's files",
                url: url.clone(),
                status: CheckStatus::Differs,
                differs: vec![error.message],
                seconds: 0.0,
            },
        });
    }
    let search =
        [("db", "sra"), ("term", run), ("retmode", "json"), ("usehistory", "y"), ("tool", "tidegate")];
    checks.push(check(&client, &client.eutils, "esearch.fcgi", (&Method::POST, &search), search_of));
    let table =
        [("db", "sra"), ("id", run), ("rettype", "runinfo"), ("retmode", "text"), ("tool", "tidegate")];
    checks.push(check(&client, &client.eutils, "efetch.fcgi", (&Method::POST, &table), |probe, wrong| {
        run_table_of(probe, run, wrong);
    }));
    let located = [("acc", run), ("accept-proto", "https"), ("filetype", "run"), ("capability", "ZQA:RZ")];
    checks.push(check(&client, &client.sdl, "", (&Method::POST, &located), |probe, wrong| {
        located_of(probe, run, wrong);
    }));
    let path = format!("sra/{run}/{run}");
    checks.push(check(&client, &client.aws, &path, (&Method::HEAD, &[]), |probe, wrong| {
        head_of(probe, None, wrong);
    }));
    Ok(checks)
}

/// Asks once, and holds the answer against what is expected.
fn check(
    client: &ArchiveClient,
    service: &Service,
    path: &str,
    (method, form): (&Method, &[(&str, &str)]),
    judge: impl FnOnce(&Probe, &mut Vec<String>),
) -> InterfaceCheck {
    let began = Instant::now();
    let mut differs = Vec::new();
    let status = match client.probe(service, method, path, form) {
        Err(error) => {
            differs.push(error.message);
            CheckStatus::NoAnswer
        }
        Ok(probe) => {
            if let Some(from) = &probe.redirected_to {
                differs.push(format!("it redirects to {from}"));
            }
            match probe.status {
                200 => judge(&probe, &mut differs),
                status => differs.push(format!("it answers with status {status}, and not 200")),
            }
            if differs.is_empty() { CheckStatus::AsExpected } else { CheckStatus::Differs }
        }
    };
    let seconds = began.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    InterfaceCheck { name: service.name(), url: service.place(path), status, differs, seconds }
}

/// A table of ENA's; the first file's place and size.
fn report_of(probe: &Probe, run: &str, fields: &str, wrong: &mut Vec<String>) -> Option<(String, u64)> {
    let mut lines = probe.text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    lacks("column", fields.split(','), &header, wrong);
    let at = |name: &str| header.iter().position(|column| *column == name);
    let rows: Vec<_> = lines.filter(|cells| cells.iter().any(|cell| !cell.is_empty())).collect();
    let key = at("run_accession")?;
    let Some(row) = rows.iter().find(|row| row.get(key) == Some(&run)) else {
        wrong.push(format!("it has no row of {run}"));
        return None;
    };
    if rows.len() > 1 {
        wrong.push(format!("it has {} rows, and one was asked for", rows.len()));
    }
    let cell = |name: &str| at(name).and_then(|at| row.get(at)).copied().unwrap_or_default();
    let list = |name: &str| cell(name).split(';').map(str::to_owned).collect::<Vec<_>>();
    let (places, sizes, sums) = (list("fastq_ftp"), list("fastq_bytes"), list("fastq_md5"));
    if places.len() != sizes.len() || places.len() != sums.len() {
        wrong.push("fastq_ftp, fastq_bytes and fastq_md5 are lists of different lengths".to_owned());
    }
    let bytes = sizes[0].parse().ok();
    if bytes.is_none() {
        wrong.push("fastq_bytes is no number".to_owned());
    }
    if !sums.iter().all(|sum| is_md5(sum)) {
        wrong.push("fastq_md5 is no MD5".to_owned());
    }
    let place = places.into_iter().next().filter(|place| !place.is_empty())?;
    // Places come without a scheme.
    let url = if place.contains("://") { place } else { format!("https://{place}") };
    Some((url, bytes?))
}

fn search_of(probe: &Probe, wrong: &mut Vec<String>) {
    let Some(answer) = json(probe, wrong) else { return };
    let result = &answer["esearchresult"];
    for name in ["count", "webenv", "querykey", "idlist"] {
        if result[name].is_null() {
            wrong.push(format!("esearchresult.{name} is missing"));
        }
    }
    if number(&result["count"]) == Some(0) {
        wrong.push("it finds nothing".to_owned());
    }
}

fn run_table_of(probe: &Probe, run: &str, wrong: &mut Vec<String>) {
    let mut lines = probe.text.trim().lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lacks("column", RUN_COLUMNS.iter().map(|(name, _)| *name), &header, wrong);
    if !lines.any(|line| line.split(',').next() == Some(run)) {
        wrong.push(format!("it has no row of {run}"));
    }
}

fn located_of(probe: &Probe, run: &str, wrong: &mut Vec<String>) {
    let Some(answer) = json(probe, wrong) else { return };
    if answer["version"] != "2" {
        wrong.push(format!("its version is {}, and not \"2\"", answer["version"]));
    }
    let Some(result) = answer["result"].as_array().and_then(|results| results.first()) else {
        return wrong.push("result is missing".to_owned());
    };
    if result["bundle"] != run {
        wrong.push("result[0].bundle is not the run".to_owned());
    }
    if number(&result["status"]) != Some(200) {
        wrong.push(format!("result[0].status is {}, and not 200", result["status"]));
    }
    let files = result["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(file) = files.iter().find(|file| file["type"] == "sra") else {
        return wrong.push("no file has the type \"sra\"".to_owned());
    };
    let has = [
        ("name", file["name"].is_string()),
        ("size", number(&file["size"]).is_some()),
        ("md5", file["md5"].as_str().is_some_and(is_md5)),
        ("locations", file["locations"].as_array().is_some_and(|places| !places.is_empty())),
        ("locations[0].link", file["locations"][0]["link"].is_string()),
        ("locations[0].service", file["locations"][0]["service"].is_string()),
    ];
    for (name, _) in has.iter().filter(|(_, there)| !there) {
        wrong.push(format!("the SRA file's {name} is missing, or is something else"));
    }
}

/// What is said of a file.
fn head_of(probe: &Probe, bytes: Option<u64>, wrong: &mut Vec<String>) {
    let said = probe.header("content-length").and_then(|text| text.parse::<u64>().ok());
    match (said, bytes) {
        (None, _) => wrong.push("it tells no size".to_owned()),
        (Some(said), Some(bytes)) if said != bytes => {
            wrong.push(format!("it has {said} bytes, and the report says {bytes}"));
        }
        _ => {}
    }
    if !probe.header("accept-ranges").is_some_and(|units| units.eq_ignore_ascii_case("bytes")) {
        wrong.push("it does not say that parts can be asked for".to_owned());
    }
    if probe.header("etag").is_none() && probe.header("last-modified").is_none() {
        wrong.push("nothing tells one version from the next".to_owned());
    }
}

fn json(probe: &Probe, wrong: &mut Vec<String>) -> Option<Value> {
    let answer = serde_json::from_str(&probe.text).ok();
    if answer.is_none() {
        wrong.push("it answers with something that is no JSON".to_owned());
    }
    answer
}

/// Notes which names are not there.
fn lacks<'a>(what: &str, wanted: impl Iterator<Item = &'a str>, there: &[&str], wrong: &mut Vec<String>) {
    let missing: Vec<&str> = wanted.filter(|name| !there.contains(name)).collect();
    match &missing[..] {
        [] => {}
        [one] => wrong.push(format!("the {what} {one} is missing")),
        // Another kind of answer altogether lacks them all.
        many => wrong.push(format!("the {what}s {} are missing", many[..many.len().min(5)].join(", "))),
    }
}

fn is_md5(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
