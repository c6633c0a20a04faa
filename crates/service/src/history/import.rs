//! Records from elsewhere: logs of GridFTP servers, what iperf3 printed, and exports of our own. Sites have years
//! of the first two, so that the very first estimate of a path can be one from history.
//!
//! A file is read as a stream, each line or document by itself. What makes no sense is counted with the number
//! of its line and never ends an import.

mod gridftp;
mod iperf3;
mod lines;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

use serde::Serialize;

use tidegate_contract::text::one_line;
use tidegate_spec::pair::{Pair, Site};

use super::csv;
use super::record::{Record, Timestamp};
use lines::{Line, LineReader};

/// Longest line of a log or an export; longer ones are bad lines.
const LONGEST_LINE: usize = 1 << 20;

/// LineReader looked at to tell what a file is.
const FIRST_LINES: usize = 100;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportFormat {
    /// The transfer log of a GridFTP server (`FTP_INFO` lines).
    Gridftp,
    /// One or more documents of `iperf3 -J`.
    Iperf3,
    /// Our own export, a record a line.
    Jsonl,
    /// Our own export of one kind, as CSV.
    Csv,
}

impl ImportFormat {
    /// The names by which a format can be asked for.
    pub const NAMES: [&'static str; 4] = ["gridftp", "iperf3", "jsonl", "csv"];

    /// What the first lines of a file say that it is.
    fn of(line: &str) -> Option<Self> {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.contains("NL.EVNT=") {
            Some(Self::Gridftp)
        } else if line.starts_with('{') {
            let ours =
                serde_json::from_str::<serde_json::Value>(line).is_ok_and(|value| !value["kind"].is_null());
            Some(if ours { Self::Jsonl } else { Self::Iperf3 })
        } else if csv::is_header(line) {
            Some(Self::Csv)
        } else {
            None
        }
    }
}

impl FromStr for ImportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "gridftp" => Ok(Self::Gridftp),
            "iperf3" => Ok(Self::Iperf3),
            "jsonl" => Ok(Self::Jsonl),
            "csv" => Ok(Self::Csv),
            _ => Err(format!("'{name}' is no format: {}", Self::NAMES.join(", "))),
        }
    }
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gridftp => "gridftp",
            Self::Iperf3 => "iperf3",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        })
    }
}

/// Which sites the hosts of a log are. A log knows hosts by address; jobs name them by URL.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Where all of it came from, whatever the log says.
    pub source: Option<Site>,
    /// Where all of it went.
    pub destination: Option<Site>,
    /// The sites of hosts by their names or addresses, in lower case.
    pub by_host: BTreeMap<String, Site>,
}

impl Sites {
    /// The pair of two hosts that a log names; without a rule a host is called `scheme://host`.
    fn pair(&self, scheme: &str, source: &Host<'_>, destination: &Host<'_>) -> Result<Pair, String> {
        let site = |all: &Option<Site>, host: &Host<'_>| match (all, host) {
            (Some(site), _) => Ok(site.clone()),
            (None, Host::Local) => Site::of(Site::LOCAL).map_err(|error| error.to_string()),
            (None, Host::Named(name)) => {
                if let Some(site) = self.by_host.get(&name.to_ascii_lowercase()) {
                    return Ok(site.clone());
                }
                let host = if name.contains(':') { format!("[{name}]") } else { (*name).to_owned() };
                Site::of(&format!("{scheme}://{host}")).map_err(|error| error.to_string())
            }
        };
        Ok(Pair { source: site(&self.source, source)?, destination: site(&self.destination, destination)? })
    }
}

/// A host as a log speaks of it.
enum Host<'a> {
    /// The one whose history this is.
    Local,
    /// By its name or address.
    Named(&'a str),
}

/// What one line or document of a file gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The line it begins at, from 1.
    pub line: u64,
    /// Its records, none if it tells of nothing that is remembered; or what is wrong with it.
    pub found: Result<Vec<Record>, String>,
}

/// A file that is read item by item.
pub struct Import<R> {
    lines: LineReader<R>,
    /// LineReader read to tell the format, before those of `lines`.
    first: std::vec::IntoIter<Line>,
    format: ImportFormat,
    sites: Sites,
    now: Timestamp,
    documents: iperf3::Documents,
    header: Option<csv::Header>,
}

impl<R: BufRead> Import<R> {
    /// Reads `file` as `format`, or as what its first lines say. `now` is the time of what tells none.
    pub fn new(file: R, format: Option<ImportFormat>, sites: Sites, now: Timestamp) -> io::Result<Self> {
        let mut lines = LineReader::new(file, LONGEST_LINE);
        let (mut first, mut format) = (Vec::<Line>::new(), format);
        while format.is_none() && first.len() < FIRST_LINES {
            let Some(line) = lines.next()? else { break };
            format = ImportFormat::of(&line.text);
            first.push(line);
        }
        // Logs are rotated: one with nothing in it is not a wrong one.
        if first.iter().all(|line| line.text.trim().is_empty() && !line.is_cut) && first.len() < FIRST_LINES {
            format = format.or(Some(ImportFormat::Jsonl));
        }
        let format = format.ok_or_else(|| {
            let why = format!("is none of the known formats ({}); name one", ImportFormat::NAMES.join(", "));
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let (documents, first) = (iperf3::Documents::default(), first.into_iter());
        Ok(Self { lines, first, format, sites, now, documents, header: None })
    }

    /// What the file is read as.
    pub fn format(&self) -> ImportFormat {
        self.format
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        match self.first.next() {
            Some(line) => Ok(Some(line)),
            None => self.lines.next(),
        }
    }

    /// The next line or document, until the end of the file. What is wrong with it may be told in its own words.
    pub fn next_item(&mut self) -> io::Result<Option<Item>> {
        let item = self.read_item()?;
        Ok(item.map(|item| Item { found: item.found.map_err(|why| one_line(&why)), ..item }))
    }

    fn read_item(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(document) = self.documents.ready() {
                return Ok(Some(self.iperf3(&document)));
            }
            let Some(line) = self.next_line()? else { break };
            if line.text.trim().is_empty() && !line.is_cut {
                continue;
            }
            if self.format == ImportFormat::Iperf3 {
                self.documents.add(&line);
                continue;
            }
            let found = if line.is_cut {
                Err(format!("is longer than {LONGEST_LINE} bytes"))
            } else {
                self.records(line.text.trim_start_matches('\u{feff}').trim())
            };
            return Ok(Some(Item { line: line.number, found }));
        }
        Ok(self.documents.rest().map(|document| self.iperf3(&document)))
    }

    fn records(&mut self, text: &str) -> Result<Vec<Record>, String> {
        match self.format {
            ImportFormat::Gridftp => {
                let found = gridftp::transfer(text, &self.sites)?;
                Ok(found.into_iter().map(Record::from).collect())
            }
            ImportFormat::Csv => match &self.header {
                None => {
                    self.header = Some(csv::Header::read(text)?);
                    Ok(Vec::new())
                }
                Some(header) => header.record(text).map(|record| vec![record]),
            },
            _ => {
                let record: Record = serde_json::from_str(text).map_err(|error| without_place(&error))?;
                Ok(vec![record])
            }
        }
    }

    fn iperf3(&self, document: &iperf3::Document) -> Item {
        Item { line: document.line, found: iperf3::records(document, &self.sites, self.now) }
    }
}

/// What serde says, without the line and column of the piece of text it saw.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}
