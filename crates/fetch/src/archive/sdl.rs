//! NCBI's locator of data (SDL 2): where a run's SRA files are, with its qualities or without, and what was
//! submitted.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::text::show;
use ureq::http::Method;
use url::Url;

use super::client::{Answer, ArchiveClient};
use super::eutils::number;

/// Runs in one request.
pub(crate) const MAX_RUNS: usize = 100;

/// What of a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Its SRA file in full quality; without, if there is none other.
    Full,
    /// Its SRA file without the reads' own qualities.
    Lite,
    /// Everything: what was submitted too.
    All,
}

/// What the locator says of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Located {
    /// Its files.
    pub files: Vec<SdlFile>,
    /// Why there are none, in the locator's words.
    pub refusal: Option<String>,
}

/// How good an SRA file's qualities are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    /// As they were measured.
    Full,
    /// Left out: SRA Lite.
    Lite,
    /// Something else, in the locator's word.
    Other(String),
}

/// A file that is located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SdlFile {
    /// `sra`, `vdbcache`, `bam`, ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether it is what was submitted.
    pub(crate) original: bool,
    /// Of SRA files.
    pub(crate) quality: Quality,
    /// Its size.
    pub bytes: Option<u64>,
    /// Its MD5.
    pub md5: Option<String>,
    /// Where it is for everybody, for nothing, at once.
    pub places: Vec<Place>,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its URL.
    pub url: Url,
    /// Whether that is Amazon's.
    pub aws: bool,
}

/// Locates up to [`MAX_RUNS`] runs in one request.
pub(crate) fn retrieve(
    client: &ArchiveClient,
    runs: &[&str],
    want: Want,
    over: &AtomicBool,
) -> Result<HashMap<String, Located>> {
    let list = runs.join(",");
    let mut form =
        vec![("acc", list.as_str()), ("accept-proto", "https"), ("accept-alternate-locations", "yes")];
    form.push(("capability", if want == Want::Lite { "zqa:z" } else { "ZQA:RZ" }));
    if want != Want::All {
        form.push(("filetype", "run"));
    }
    match client.call(&client.sdl, &Method::POST, "", &form, over)? {
        Answer::Text(text) => read(&text),
        Answer::Nothing => Ok(HashMap::new()),
        Answer::Refused(words) => Err(said(&words)),
    }
}

fn said(words: &str) -> Error {
    let words: String = words.chars().take(160).collect();
    Error::new(ErrorKind::Protocol, format!("NCBI's locator answered: {}", show(words.as_bytes())))
}

fn read(text: &str) -> Result<HashMap<String, Located>> {
    let answer: Value =
        serde_json::from_str(text).map_err(|error| said(&format!("something that is no JSON: {error}")))?;
    let Some(results) = answer["result"].as_array() else {
        let message = answer["message"].as_str().or_else(|| answer["msg"].as_str());
        return Err(said(message.unwrap_or("something without a result")));
    };
    let located = results.iter().filter_map(|result| {
        let run = result["bundle"].as_str().or_else(|| result["query"].as_str())?;
        Some((run.to_owned(), one(result)))
    });
    Ok(located.collect())
}

/// What is said of one run; the status is its own, with HTTP's meaning.
fn one(result: &Value) -> Located {
    let status = number(&result["status"]).unwrap_or(200);
    if status != 200 {
        let words: String = result["msg"].as_str().unwrap_or("no reason given").chars().take(120).collect();
        return Located { files: Vec::new(), refusal: Some(show(words.as_bytes()).into_owned()) };
    }
    let files = result["files"].as_array().into_iter().flatten().filter_map(file).collect();
    Located { files, refusal: None }
}

fn file(value: &Value) -> Option<SdlFile> {
    let text = |name: &str| value[name].as_str();
    let name = text("name")?.to_owned();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let quality = match text("quality") {
        _ if value["noqual"] == true || stem.ends_with("lite") => Quality::Lite,
        None | Some("full") => Quality::Full,
        Some(other) => Quality::Other(show(other.as_bytes()).chars().take(20).collect()),
    };
    let places = value["locations"].as_array().into_iter().flatten().filter_map(place).collect();
    Some(SdlFile {
        kind: text("type")?.to_owned(),
        original: text("object").is_some_and(|object| object.starts_with("remote|")),
        quality,
        bytes: number(&value["size"]),
        md5: text("md5").filter(|md5| !md5.is_empty()).map(str::to_lowercase),
        places,
        name,
    })
}

/// A place that asks for nothing: no payment, no identity, no thawing, no key.
fn place(value: &Value) -> Option<Place> {
    let asks = ["payRequired", "ceRequired", "rehydrationRequired", "encryptedForProjectId"];
    if asks.iter().any(|name| !matches!(&value[*name], Value::Null | Value::Bool(false))) {
        return None;
    }
    let url = Url::parse(value["link"].as_str()?).ok()?;
    let open = matches!(url.scheme(), "http" | "https") && !url.path().ends_with("/sdlr.fcgi");
    open.then(|| Place { aws: value["service"] == "s3", url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_answers_are_read() {
        let text = include_str!("../../tests/samples/sdl/SRR20172067.json");
        let located = &read(text).expect("an answer")["SRR20172067"];
        let [original, sra] = &located.files[..] else { panic!("{located:?}") };
        assert_eq!((original.kind.as_str(), original.original), ("TenX", true));
        assert_eq!(original.name, "possorted_genome_bam_TC2_d15_1.bam");
        assert_eq!((sra.kind.as_str(), sra.original, sra.bytes), ("sra", false, Some(7_650_138_419)));
        assert_eq!(sra.md5.as_deref(), Some("b2f5d7e58e8187771eb0470be2c1f3bf"));
        assert_eq!((sra.quality.clone(), sra.places.len(), sra.places[0].aws), (Quality::Full, 1, true));
        let plain =
            &read(include_str!("../../tests/samples/sdl/SRR390728.json")).expect("an answer")["SRR390728"];
        assert_eq!(plain.files.len(), 1);
    }

    #[test]
    fn qualities_are_told_apart() {
        for (text, quality) in [
            (include_str!("../../tests/samples/sdl/sdl_SRR053325_full.json"), Quality::Full),
            (include_str!("../../tests/samples/sdl/sdl_SRR053325_no.json"), Quality::Lite),
            (
                include_str!("../../tests/samples/sdl/sdl_SRR053325_dbl.json"),
                Quality::Other("dbl".to_owned()),
            ),
        ] {
            let located = read(text).expect("an answer");
            let file = &located["SRR053325"].files[0];
            assert_eq!(file.quality, quality);
            assert!(!file.places[0].aws && file.places.len() == 1);
        }
    }

    #[test]
    fn a_refusal_belongs_to_its_run() {
        for (text, run, words) in [
            (
                include_str!("../../tests/samples/sdl/not_found.json"),
                "SRR999999999",
                "Cannot resolve accession",
            ),
            (
                include_str!("../../tests/samples/sdl/no_data_at_location.json"),
                "SRR867664",
                "No data at given location.region",
            ),
        ] {
            assert_eq!(read(text).expect("an answer")[run].refusal.as_deref(), Some(words));
        }
        let error = read(r#"{"status":500,"message":"out of order"}"#).expect_err("no result");
        assert_eq!(error.message, "NCBI's locator answered: out of order");
        assert!(read("[]").is_err() && read("<html>").is_err());
    }

    #[test]
    fn places_that_ask_for_something_are_left_out() {
        let text = r#"{"result":[{"query":"SRR1","status":"200","files":[{"type":"sra","name":"SRR1","size":"7",
            "md5":"AB","locations":[
            {"service":"gs","link":"https://a/1","payRequired":true},
            {"service":"s3","link":"https://a/2","ceRequired":true},
            {"service":"s3","link":"https://a/3","rehydrationRequired":true},
            {"service":"s3","link":"https://a/4","encryptedForProjectId":"p"},
            {"service":"ncbi","link":"https://a/sdlr/sdlr.fcgi?jwt=x"},
            {"service":"s3","link":"s3://a/5"},
            {"service":"s3","link":"https://a/6","payRequired":false}]}]}]}"#;
        let located = read(text).expect("an answer");
        let file = &located["SRR1"].files[0];
        assert_eq!((file.bytes, file.md5.as_deref()), (Some(7), Some("ab")));
        let places: Vec<&str> = file.places.iter().map(|place| place.url.as_str()).collect();
        assert_eq!(places, ["https://a/6"]);
    }
}
