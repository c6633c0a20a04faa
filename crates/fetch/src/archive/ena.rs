//! ENA's Portal API: runs and their files, for one accession or a thousand in one request.

use std::panic::resume_unwind;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use ureq::http::Method;

use super::accession::{Accession, Kind};
use super::client::{Answer, ArchiveClient};

/// Accessions in one request, as ENA's own tool does it; fewer where they go into a query.
const MAX_INCLUDED: usize = 1000;
const MAX_QUERIED: usize = 200;

/// Reports of single accessions that are asked for at the same time.
const REPORTS_AT_ONCE: usize = 8;

/// Requests spent on finding which accessions of a refused request ENA does not like.
const MAX_SPLITS: usize = 24;

/// The columns by which a run is told to belong to an accession.
pub(crate) const IDS: [&str; 7] = [
    "run_accession",
    "experiment_accession",
    "sample_accession",
    "secondary_sample_accession",
    "study_accession",
    "secondary_study_accession",
    "submission_accession",
];

/// The columns that say what files there are.
const FILES: &str = "fastq_ftp,fastq_bytes,fastq_md5,submitted_ftp,submitted_bytes,submitted_md5,submitted_format,\
                     sra_ftp,sra_bytes,sra_md5";

/// What people want to know of a run, unless they say what.
const METADATA: &str = "library_layout,library_strategy,library_source,library_selection,library_name,\
                        instrument_platform,instrument_model,read_count,base_count,tax_id,scientific_name,\
                        sample_title,sample_alias,experiment_title,study_title,center_name,first_public,last_updated,\
                        nominal_length";

/// The value of `fields` in a request.
pub(crate) fn fields(wanted: &[String]) -> String {
    if wanted.iter().any(|field| field == "all") {
        return "all".to_owned();
    }
    let mut fields = format!("{},{FILES},library_layout", IDS.join(","));
    let more = if wanted.is_empty() { METADATA.to_owned() } else { wanted.join(",") };
    for field in more.split(',').map(str::trim).filter(|field| !field.is_empty()) {
        if !fields.split(',').any(|known| known == field) {
            fields.push(',');
            fields.push_str(field);
        }
    }
    fields
}

/// How accessions of a kind are asked for when there are many: ENA's `includeAccessionType`, or the column of
/// a query where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum By {
    Type(&'static str),
    Query(&'static str),
}

fn by(kind: Kind) -> By {
    match kind {
        Kind::Run => By::Type("run"),
        Kind::Experiment => By::Type("experiment"),
        Kind::BioSample => By::Type("sample"),
        Kind::Project => By::Type("study"),
        Kind::Sample => By::Query("secondary_sample_accession"),
        Kind::Study => By::Query("secondary_study_accession"),
        Kind::Submission => By::Query("submission_accession"),
        // GEO's are asked for as what they are in the read archives.
        Kind::Series | Kind::GeoSample => By::Query("study_alias"),
    }
}

/// Cuts accessions into the lists that one request each asks for.
pub(crate) fn chunks(mut accessions: Vec<Accession>) -> Vec<Vec<Accession>> {
    accessions.sort_by_key(|accession| by(accession.kind()));
    let mut chunks: Vec<Vec<Accession>> = Vec::new();
    for accession in accessions {
        let by = by(accession.kind());
        let most = if matches!(by, By::Type(_)) { MAX_INCLUDED } else { MAX_QUERIED };
        match chunks.last_mut() {
            Some(chunk) if self::by(chunk[0].kind()) == by && chunk.len() < most => chunk.push(accession),
            _ => chunks.push(vec![accession]),
        }
    }
    chunks
}

/// Asks for the runs of accessions of one kind, and hands each answer to `take`, with those it speaks of: a
/// table, or why there is none. `None` is an answer too: there are no runs.
pub(crate) fn runs(
    client: &ArchiveClient,
    chunk: &[Accession],
    wanted: &[String],
    over: &AtomicBool,
    take: &mut dyn FnMut(&[Accession], Result<Option<String>>),
) {
    let mut open = vec![chunk];
    let mut splits = 0;
    while let Some(part) = open.pop() {
        let refused = match ask(client, part, wanted, over) {
            Ok(Answer::Text(text)) => {
                take(part, Ok(Some(text)));
                continue;
            }
            Ok(Answer::Nothing) => {
                take(part, Ok(None));
                continue;
            }
            Ok(Answer::Refused(words)) => words,
            Err(error) => {
                take(part, Err(error));
                continue;
            }
        };
        // One name that ENA does not like must not spoil the others.
        if part.len() > 1 && splits < MAX_SPLITS {
            splits += 1;
            let (left, right) = part.split_at(part.len() / 2);
            open.extend([right, left]);
        } else {
            let why = format!("ENA refused the question: {refused}");
            take(part, Err(Error::new(ErrorKind::Usage, why)));
        }
    }
}

/// Asks for the reports of accessions that a search did not find, as `runs` does: its index lacks some that are there.
pub(crate) fn reports(
    client: &ArchiveClient,
    accessions: &[Accession],
    wanted: &[String],
    over: &AtomicBool,
    take: &mut dyn FnMut(&[Accession], Result<Option<String>>),
) {
    let report = |one: &Accession| match ask(client, slice::from_ref(one), wanted, over)? {
        Answer::Text(text) => Ok(Some(text)),
        // The search took it.
        Answer::Nothing | Answer::Refused(_) => Ok(None),
    };
    for part in accessions.chunks(REPORTS_AT_ONCE) {
        if over.load(Relaxed) {
            return;
        }
        let answers: Vec<Result<Option<String>>> = thread::scope(|scope| {
            let asked: Vec<_> = part.iter().map(|one| scope.spawn(move || report(one))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        for (one, answer) in part.iter().zip(answers) {
            take(slice::from_ref(one), answer);
        }
    }
}

fn ask(client: &ArchiveClient, part: &[Accession], wanted: &[String], over: &AtomicBool) -> Result<Answer> {
    let fields = fields(wanted);
    let mut form =
        vec![("result", "read_run"), ("format", "tsv"), ("limit", "0"), ("fields", fields.as_str())];
    if let [one] = part {
        form.insert(0, ("accession", one.as_str()));
        return client.call(&client.ena, &Method::GET, "filereport", &form, over);
    }
    let names = || part.iter().map(Accession::as_str);
    let list = match by(part[0].kind()) {
        By::Type(kind) => {
            form.push(("includeAccessionType", kind));
            names().collect::<Vec<_>>().join(",")
        }
        By::Query(column) => {
            names().map(|name| format!("{column}=\"{name}\"")).collect::<Vec<_>>().join(" OR ")
        }
    };
    let key = if matches!(by(part[0].kind()), By::Type(_)) { "includeAccessions" } else { "query" };
    form.push((key, &list));
    client.call(&client.ena, &Method::POST, "search", &form, over)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(names: &[String]) -> Vec<Accession> {
        names.iter().map(|name| name.parse().expect("well formed")).collect()
    }

    #[test]
    fn a_thousand_runs_are_one_request_and_kinds_are_kept_apart() {
        let runs: Vec<String> = (0..1000).map(|i| format!("SRR{}", 100_000 + i)).collect();
        assert_eq!(chunks(parsed(&runs)).len(), 1);
        let mixed =
            ["ERR000001", "SRP000001", "SRR000002", "PRJNA1", "SAMN1", "ERS000001", "PRJEB2", "DRP000001"];
        let mixed: Vec<String> = mixed.map(str::to_owned).into();
        let chunks = chunks(parsed(&mixed));
        assert_eq!(chunks.iter().map(Vec::len).sum::<usize>(), mixed.len());
        assert_eq!(chunks.len(), 5);
        for chunk in chunks {
            assert!(chunk.iter().all(|one| by(one.kind()) == by(chunk[0].kind())));
        }
    }

    #[test]
    fn fields_hold_what_is_needed_once() {
        let usual = fields(&[]);
        assert!(
            usual.starts_with("run_accession,") && usual.contains(",sra_md5,") && usual.contains("tax_id")
        );
        let own = fields(&["collection_date".to_owned(), "run_accession,fastq_md5".to_owned()]);
        assert!(own.ends_with(",library_layout,collection_date"), "{own}");
        assert_eq!(fields(&["tax_id".to_owned(), "all".to_owned()]), "all");
    }
}
