//! NCBI's E-utilities: the run table of what ENA does not know, and what GEO's entries are in the read
//! archives.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;

use super::accession::{Accession, Kind};
use super::client::{Answer, ArchiveClient};
use super::table::Row;

/// Identifiers in one request, and rows in one answer, as NCBI asks for.
const MAX_IDS: usize = 500;

/// Accessions in the term of one search.
const MAX_TERMS: usize = 100;

/// Pages of one search: 100,000 runs.
const MAX_PAGES: usize = 200;

/// The run table's columns in their usual order, for answers that come without them, and what ENA calls them.
/// Those that ENA has no name for keep their own.
pub(crate) const RUN_COLUMNS: [(&str, &str); 47] = [
    ("Run", "run_accession"),
    ("ReleaseDate", "first_public"),
    ("LoadDate", "last_updated"),
    ("spots", "read_count"),
    ("bases", "base_count"),
    ("spots_with_mates", ""),
    ("avgLength", ""),
    ("size_MB", ""),
    ("AssemblyName", ""),
    ("download_path", ""),
    ("Experiment", "experiment_accession"),
    ("LibraryName", "library_name"),
    ("LibraryStrategy", "library_strategy"),
    ("LibrarySelection", "library_selection"),
    ("LibrarySource", "library_source"),
    ("LibraryLayout", "library_layout"),
    ("InsertSize", "nominal_length"),
    ("InsertDev", "nominal_sdev"),
    ("Platform", "instrument_platform"),
    ("Model", "instrument_model"),
    ("SRAStudy", "secondary_study_accession"),
    ("BioProject", "study_accession"),
    ("Study_Pubmed_id", ""),
    ("ProjectID", ""),
    ("Sample", "secondary_sample_accession"),
    ("BioSample", "sample_accession"),
    ("SampleType", ""),
    ("TaxID", "tax_id"),
    ("ScientificName", "scientific_name"),
    ("SampleName", "sample_alias"),
    ("g1k_pop_code", ""),
    ("source", ""),
    ("g1k_analysis_group", ""),
    ("Subject_ID", ""),
    ("Sex", ""),
    ("Disease", ""),
    ("Tumor", ""),
    ("Affection_Status", ""),
    ("Analyte_Type", ""),
    ("Histological_Type", ""),
    ("Body_Site", ""),
    ("CenterName", "center_name"),
    ("Submission", "submission_accession"),
    ("dbgap_study_accession", ""),
    ("Consent", ""),
    ("RunHash", ""),
    ("ReadHash", ""),
];

/// The runs of accessions of any kind but GEO's, as rows under ENA's names of columns.
pub(crate) fn runinfo(
    client: &ArchiveClient,
    accessions: &[Accession],
    over: &AtomicBool,
) -> Result<Vec<Row>> {
    let (runs, others): (Vec<&Accession>, Vec<_>) =
        accessions.iter().partition(|accession| accession.kind() == Kind::Run);
    let mut rows = Vec::new();
    let mut searched = others;
    for chunk in runs.chunks(MAX_IDS) {
        let ids = chunk.iter().map(|run| run.as_str()).collect::<Vec<_>>().join(",");
        let form = [("db", "sra"), RUN_TABLE, TEXT, ("id", &ids)];
        match client.eutils("efetch.fcgi", &form, over).and_then(table) {
            Ok(found) => rows.extend(found),
            // One that NCBI does not know may spoil the question; a search passes over it.
            Err(error) if error.kind == ErrorKind::Protocol => searched.extend(chunk),
            Err(error) => return Err(error),
        }
    }
    for chunk in searched.chunks(MAX_TERMS) {
        let term = chunk.iter().map(|one| one.as_str()).collect::<Vec<_>>().join(" OR ");
        pages(client, "sra", &term, over, &mut |page| {
            rows.extend(table(client.eutils("efetch.fcgi", &[page, &[RUN_TABLE, TEXT]].concat(), over)?)?);
            Ok(())
        })?;
    }
    Ok(rows)
}

const RUN_TABLE: (&str, &str) = ("rettype", "runinfo");
const TEXT: (&str, &str) = ("retmode", "text");

/// What GEO's series and samples are in the read archives: none if their reads are not there.
pub(crate) fn geo(
    client: &ArchiveClient,
    accessions: &[Accession],
    over: &AtomicBool,
) -> Result<HashMap<String, Vec<Accession>>> {
    let mut targets = HashMap::new();
    for chunk in accessions.chunks(MAX_TERMS) {
        let term = |one: &Accession| {
            let kind = if one.kind() == Kind::Series { "gse" } else { "gsm" };
            format!("({one}[GEO Accession] AND {kind}[Entry Type])")
        };
        let term = chunk.iter().map(term).collect::<Vec<_>>().join(" OR ");
        pages(client, "gds", &term, over, &mut |page| {
            let answer = client.eutils("esummary.fcgi", &[page, &[("retmode", "json")]].concat(), over)?;
            targets.extend(summaries(&json(answer)?));
            Ok(())
        })?;
    }
    Ok(targets)
}

/// Searches, and hands over the arguments that name each page of what was found.
fn pages(
    client: &ArchiveClient,
    db: &str,
    term: &str,
    over: &AtomicBool,
    page: &mut dyn FnMut(&[(&str, &str)]) -> Result<()>,
) -> Result<()> {
    let form = [("db", db), ("term", term), ("retmode", "json"), ("usehistory", "y"), ("retmax", "0")];
    let Some(found) = Found::new(&json(client.eutils("esearch.fcgi", &form, over)?)?)? else { return Ok(()) };
    let pages = found.count.div_ceil(MAX_IDS);
    if pages > MAX_PAGES {
        let why = format!("a search found {} entries, more than are read at once; name fewer", found.count);
        return Err(said(&why));
    }
    for number in 0..pages {
        let (start, most) = ((number * MAX_IDS).to_string(), MAX_IDS.to_string());
        page(&[
            ("db", db),
            ("query_key", &found.key),
            ("WebEnv", &found.environment),
            ("retstart", &start),
            ("retmax", &most),
        ])?;
    }
    Ok(())
}

/// What a search left on the history server.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    count: usize,
    key: String,
    environment: String,
}

impl Found {
    /// `None` if nothing was found.
    fn new(answer: &Value) -> Result<Option<Self>> {
        let result = &answer["esearchresult"];
        if let Some(error) = result["ERROR"].as_str().or_else(|| answer["error"].as_str()) {
            return Err(said(error));
        }
        let count = number(&result["count"]).ok_or_else(|| said("a search without a count"))?;
        if count == 0 {
            return Ok(None);
        }
        let text = |name: &str| match &result[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if result["webenv"].is_null() || result["querykey"].is_null() {
            return Err(said("a search without its history"));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Some(Self { count, key: text("querykey"), environment: text("webenv") }))
    }
}

/// What each entry of GEO is in the read archives: what it names itself, else its project.
fn summaries(answer: &Value) -> HashMap<String, Vec<Accession>> {
    let entries = answer["result"].as_object().into_iter().flatten().filter(|(name, _)| *name != "uids");
    let targets = entries.filter_map(|(_, entry)| {
        let relations = entry["extrelations"].as_array().into_iter().flatten();
        let in_sra = relations.filter(|relation| relation["relationtype"] == "SRA");
        let named = in_sra.filter_map(|relation| relation["targetobject"].as_str()?.parse().ok());
        let mut targets: Vec<Accession> = named.collect();
        if targets.is_empty() {
            targets
                .extend(entry["bioproject"].as_str().and_then(|project| project.parse::<Accession>().ok()));
        }
        Some((entry["accession"].as_str()?.to_owned(), targets))
    });
    targets.collect()
}

/// A number that may be written as text.
pub fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn json(answer: Answer) -> Result<Value> {
    let text = words(answer)?;
    serde_json::from_str(&text).map_err(|error| said(&format!("an answer that is no JSON: {error}")))
}

fn words(answer: Answer) -> Result<String> {
    match answer {
        Answer::Text(text) => Ok(text),
        Answer::Nothing => Ok(String::new()),
        Answer::Refused(words) => Err(said(&words)),
    }
}

fn said(words: &str) -> Error {
    let words: String = words.chars().take(160).collect();
    Error::new(ErrorKind::Protocol, format!("NCBI's E-utilities answered: {}", show(words.as_bytes())))
}

/// Reads a run table. Its header is sometimes missing, and sometimes comes again in the middle.
fn table(answer: Answer) -> Result<Vec<Row>> {
    let text = words(answer)?;
    let text = text.trim();
    if text.starts_with(['<', '{']) {
        let from = text.find("<ERROR>").map_or(0, |at| at + "<ERROR>".len());
        return Err(said(text[from..].split("</").next().unwrap_or_default()));
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut header: Vec<String> = RUN_COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| said(&format!("a run table that is no CSV: {error}")))?;
        match record.get(0).unwrap_or_default() {
            "" => {}
            "Run" => header = record.iter().map(str::to_owned).collect(),
            // A row that is too short may have been cut off.
            _ if record.len() != header.len() => {
                let why = format!("a run table with {} cells in a row, not {}", record.len(), header.len());
                return Err(said(&why));
            }
            _ => rows.push(Row(header.iter().zip(&record).map(cell).collect::<BTreeMap<_, _>>())),
        }
    }
    Ok(rows)
}

/// A cell under ENA's name of its column; ENA leaves empty what NCBI calls 0, and gives days without hours.
fn cell((name, cell): (&String, &str)) -> (String, String) {
    let known = RUN_COLUMNS.iter().find(|(theirs, ours)| theirs == name && !ours.is_empty());
    let name = known.map_or(name.as_str(), |(_, ours)| ours);
    let cell = match name {
        "nominal_length" | "nominal_sdev" if cell == "0" => "",
        "first_public" | "last_updated" => cell.split(' ').next().unwrap_or_default(),
        _ => cell,
    };
    // `source` says here what kind of sample it was; records say with it who gave the file.
    (if name == "source" { "sample_source".to_owned() } else { name.to_owned() }, cell.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN_TABLE: &str = include_str!("../../tests/samples/eutils/runinfo_SRR12548243.csv");

    #[test]
    fn a_run_table_is_read_with_and_without_its_header() {
        let row = RUN_TABLE.lines().nth(1).expect("a row");
        let header = RUN_TABLE.lines().next().expect("a header");
        for text in [RUN_TABLE.to_owned(), format!("\n{row}\n\n"), format!("{header}\n{row}\n{header}\n")] {
            let rows = table(Answer::Text(text)).expect("a table");
            assert_eq!(rows.len(), 1);
            for (column, cell) in [
                ("run_accession", "SRR12548243"),
                ("experiment_accession", "SRX9036864"),
                ("study_accession", "PRJNA660263"),
                ("sample_accession", "SAMN15943290"),
                ("instrument_model", "NextSeq 500"),
                ("first_public", "2021-04-07"),
                ("nominal_length", ""),
                ("Consent", "public"),
                ("ReadHash", "9EE437AA19CFF2DAD503DF6FDB4EC570"),
            ] {
                assert_eq!(rows[0].get(column), cell, "{column}");
            }
        }
        let names: Vec<&str> = header.split(',').collect();
        assert_eq!(names, RUN_COLUMNS.map(|(name, _)| name));
    }

    #[test]
    fn errors_in_other_clothes_are_told() {
        let xml =
            "<?xml version=\"1.0\"?><eFetchResult><ERROR>Empty result - nothing to do</ERROR></eFetchResult>";
        let error = table(Answer::Text(xml.to_owned())).expect_err("no table");
        assert_eq!(error.message, "NCBI's E-utilities answered: Empty result - nothing to do");
        assert!(table(Answer::Nothing).expect("nothing").is_empty());
        assert!(table(Answer::Refused("no".to_owned())).is_err());
        let cut = &RUN_TABLE[..RUN_TABLE.len() - 80];
        assert!(table(Answer::Text(cut.to_owned())).is_err(), "{cut}");
        assert!(json(Answer::Text("{".to_owned())).is_err());
    }

    #[test]
    fn a_search_is_read() {
        let sample = include_str!("../../tests/samples/geo/GSE93374.esearch.json");
        let sample: Value = serde_json::from_str(sample).expect("JSON");
        assert!(Found::new(&sample).is_err(), "asked for without history, so it has none");
        let found = |text: &str| Found::new(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(found(r#"{"esearchresult":{"count":"0","querykey":"1","webenv":"M"}}"#), Ok(None));
        let some = found(r#"{"esearchresult":{"count":"13","querykey":"1","webenv":"M"}}"#);
        let some = some.expect("good").expect("something");
        assert_eq!((some.count, some.key.as_str(), some.environment.as_str()), (13, "1", "M"));
        assert!(found(r#"{"esearchresult":{"ERROR":"Invalid db name"}}"#).is_err());
        assert!(found("{}").is_err());
    }

    #[test]
    fn geo_leads_to_the_read_archives() {
        let series: Value =
            serde_json::from_str(include_str!("../../tests/samples/geo/GSE93374.esummary.json"))
                .expect("JSON");
        let targets = summaries(&series);
        assert_eq!(targets["GSE93374"], ["SRP096361".parse().expect("an accession")]);
        // The sample is what stands beneath `result`.
        let sample: Value =
            serde_json::from_str(include_str!("../../tests/samples/geo/GSM3717978.summary.trimmed.json"))
                .expect("JSON");
        let targets = summaries(&serde_json::json!({ "result": sample }));
        assert_eq!(targets["GSM3717978"], ["SRX5692097".parse().expect("an accession")]);
        assert!(summaries(&serde_json::json!({"result": {"uids": []}})).is_empty());
    }
}
