//! What a user asks for: checked once, when it is submitted, so that nothing in the queue makes no sense.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_contract::redact;
use tidegate_contract::text::one_line;
use tidegate_control::ByteCount;
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::Threshold;
use tidegate_fetch::archive::Accession;
use tidegate_spec::address::{self, Route};
use tidegate_spec::estimate::SamplerKind;
use tidegate_spec::form::threshold;
use tidegate_spec::options::Options;
use tidegate_spec::pair::{Pair, Site};

use super::JobId;
use super::spec::{AnyOptions, Spec};
use super::values::{ReadAs, Sources, WrittenTime, milliseconds, one_or_many, seconds, well_formed};
use crate::names::{Names, name_of};

/// The most sources of one job.
const MAX_SOURCES: usize = 1000;
/// The most dependencies and kept attributes, each.
const MAX_ENTRIES: usize = 100;
/// The most bytes of a whole request, which is what a row of the queue holds.
const MAX_BYTES: usize = 128 << 10;
/// A day in seconds.
const DAY_S: u64 = 86_400;
/// The most times that a job may be tried again.
const MAX_RETRIES: u32 = 1000;
/// The longest time that a job waits for an end that does not answer: a year, in seconds.
const MAX_RETRY_FOR_S: u64 = 366 * 86_400;

/// What kind of job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Moves data; takes its turn in the queue.
    #[default]
    Transfer,
    /// Tells how fast and with how many streams data would move; is answered at once.
    Estimation,
    /// Is moved by many hosts, which take it shard by shard.
    Spread,
}

/// How the events of a job are written into its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One line an event.
    #[default]
    Lines,
    /// As HTCondor writes its user logs, which Stork's users have tools for.
    Htcondor,
}

impl LogFormat {
    /// Every one of them.
    pub const ALL: [Self; 2] = [Self::Lines, Self::Htcondor];

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Htcondor => "htcondor",
        }
    }
}

tidegate_control::named!(LogFormat, "format of a log");

/// A job that must be done first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged, expecting = "the number of a job, or the name of one in the same batch")]
pub enum Dependency {
    /// By its number.
    Id(JobId),
    /// By its name, in the same batch.
    Name(String),
}

/// A job as it is asked for.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobRequest")]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What others of the same batch call it in `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is to be done.
    #[serde(default)]
    pub kind: JobKind,
    /// Where the data is: one address or path, or several at the same place.
    #[serde(alias = "source", deserialize_with = "one_or_many")]
    #[schemars(with = "ReadAs<Sources, Vec<String>>", extend("x-alias" = "source"))]
    pub sources: Vec<String>,
    /// Where it is to go.
    pub destination: String,
    /// How much it is; else files and servers are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteCount>,
    /// Options by their names, with underscores, of what moves the data: `{"optimizer": "aimd", "limit_network": "80Mbit/s",
    /// "delete": true}`. Rates are bit/s, sizes bytes and times seconds, as numbers or as texts with a unit. What is copied
    /// stands in `filter` (rules in rsync's language, or `{"exclude": PATTERN}`, `{"include": PATTERN}`) and `files` (names
    /// relative to the one source). `files_from` and
    /// rules that name a file are refused, as they would be of the service's host.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    #[schemars(with = "AnyOptions")]
    pub options: Options,
    /// Whether the streams are chosen and adapted; otherwise there is one.
    #[serde(default = "yes")]
    pub optimization: bool,
    /// Whether an earlier estimate is good enough.
    #[serde(default)]
    pub use_history: bool,
    /// Jobs of a higher priority are begun first.
    #[serde(default)]
    pub priority: i32,
    /// Jobs that must be done first, by number or by name in the same batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependency>,
    /// How often it is tried again after failures that may pass, other than that nobody answers.
    #[serde(default = "retries")]
    #[schemars(range(max = MAX_RETRIES))]
    pub retries: u32,
    /// For how many seconds it is tried again while an end of it does not answer, since it last moved anything.
    #[serde(default = "retry_for")]
    #[schemars(range(max = MAX_RETRY_FOR_S))]
    pub retry_for_s: u64,
    /// How old an earlier estimate may be: seconds, or a text such as `30d`.
    #[serde(
        default,
        alias = "history_age",
        deserialize_with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<ReadAs<WrittenTime, u64>>", extend("default" = DAY_S, "x-alias" = "history_age"))]
    pub history_age_s: Option<u64>,
    /// TCP buffer of each stream, where the program takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<ByteCount>,
    /// Bytes moved for a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_bytes: Option<ByteCount>,
    /// How long a sample is, instead: milliseconds, or a text such as `500ms`.
    #[serde(
        default,
        alias = "sample_time",
        deserialize_with = "milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<ReadAs<WrittenTime, u64>>", extend("x-alias" = "sample_time"))]
    pub sample_ms: Option<u64>,
    /// What samples the path; by the addresses if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerKind>,
    /// `HOST:PORT` of an iperf3 server at the remote site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iperf3: Option<String>,
    /// What one more stream must add for sampling to go on: a share of what the first carries, or a rate such as `20Mbit/s`.
    #[serde(default, deserialize_with = "threshold::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReadAs<threshold::WrittenThreshold, Threshold>>")]
    pub threshold: Option<Threshold>,
    /// Which models tell what more streams would bring: ours, or those of the papers as published.
    #[serde(default, skip_serializing_if = "ModelSelection::is_default")]
    #[schemars(extend("default" = ModelSelection::default()))]
    pub model: ModelSelection,
    /// Whether it is sampled even where that costs more than it can bring.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub always_sample: bool,
    /// What a learned rule decides by: the content of a policy file in base64. A job that was taken has its digest here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// A file for the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// A file for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<PathBuf>,
    /// A file that events are appended to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// How events are written into the log: one a line, or as HTCondor writes its user logs. Of a ClassAd it is `htcondor`.
    #[serde(default, skip_serializing_if = "is_usual")]
    #[schemars(extend("default" = LogFormat::default()))]
    pub log_format: LogFormat,
    /// The grid proxy certificate to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x509proxy: Option<PathBuf>,
    /// Attributes of a ClassAd that mean nothing here, kept to be given back: name and expression.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

/// Why a request makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct RequestError(pub String);

fn is_usual(format: &LogFormat) -> bool {
    *format == LogFormat::default()
}

fn yes() -> bool {
    true
}

fn retries() -> u32 {
    5
}

fn retry_for() -> u64 {
    DAY_S
}

/// Without its secrets, as it may stand in a log.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.clone().public()).map_err(|_| fmt::Error)?)
    }
}

impl Request {
    /// A transfer with everything as usual.
    pub fn transfer(source: impl Into<String>, destination: impl Into<String>) -> Self {
        Self {
            name: None,
            kind: JobKind::Transfer,
            sources: vec![source.into()],
            destination: destination.into(),
            bytes: None,
            options: Options::default(),
            optimization: true,
            use_history: false,
            priority: 0,
            after: Vec::new(),
            retries: retries(),
            retry_for_s: retry_for(),
            history_age_s: None,
            buffer_bytes: None,
            sample_bytes: None,
            sample_ms: None,
            sampler: None,
            iperf3: None,
            threshold: None,
            model: ModelSelection::default(),
            always_sample: false,
            policy: None,
            output: None,
            err: None,
            log: None,
            log_format: LogFormat::default(),
            x509proxy: None,
            attributes: Vec::new(),
        }
    }

    /// The files of this host that it names, by what they are for.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let paths = [
            ("output", &self.output),
            ("err", &self.err),
            ("log", &self.log),
            ("x509proxy", &self.x509proxy),
        ];
        paths.into_iter().filter_map(|(what, path)| Some((what, path.as_deref()?)))
    }

    /// Whether it makes sense as far as can be told without asking anybody.
    pub fn check(&self) -> Result<(), RequestError> {
        self.checked().map_err(|why| RequestError(one_line(&why)))
    }

    fn checked(&self) -> Result<(), String> {
        if self.sources.is_empty() {
            return Err("it has no source".to_owned());
        }
        for (what, count, most) in [
            ("sources", self.sources.len(), MAX_SOURCES),
            ("dependencies", self.after.len(), MAX_ENTRIES),
            ("unknown attributes", self.attributes.len(), MAX_ENTRIES),
        ] {
            if count > most {
                return Err(format!("it has {count} {what}; at most {most} are taken"));
            }
        }
        for address in self.sources.iter().chain([&self.destination]) {
            well_formed("an address", address)?;
        }
        for (what, path) in self.paths() {
            well_formed(what, path.to_str().ok_or_else(|| format!("{what} is not valid UTF-8"))?)?;
            if !path.is_absolute() {
                return Err(format!(
                    "{what} {} is relative, and the service runs elsewhere: write it from / on",
                    path.display()
                ));
            }
        }
        if let Some(name) = &self.name {
            well_formed("its name", name)?;
        }
        if self.retries > MAX_RETRIES {
            return Err(format!("{} retries; at most {MAX_RETRIES} are taken", self.retries));
        }
        if self.retry_for_s > MAX_RETRY_FOR_S {
            return Err(format!("retry_for_s is {}; at most {MAX_RETRY_FOR_S} are taken", self.retry_for_s));
        }
        let route = self.route()?;
        self.pair()?;
        for address in self.sources.iter().chain([&self.destination]) {
            let path = address::local(address);
            if address::accession(&path).is_some() {
                continue;
            }
            if let Some(why) = reached_by_no_job(&path) {
                return Err(why);
            }
            if address::scheme(&path).is_none() && !path.starts_with('/') && name_of(&path).is_none() {
                return Err(match Accession::near_miss(&path) {
                    Some(error) => error.message,
                    None => {
                        format!("{path:?} is relative, and the service runs elsewhere: write it from / on")
                    }
                });
            }
        }
        self.check_no_program()?;
        let spec = self.spec()?;
        if let Spec::Copy(copy) = &spec
            && copy.filters.files.is_some()
            && self.sources.len() > 1
        {
            return Err("names of files are relative to one source, and it has several".to_owned());
        }
        self.check_rule(&spec)?;
        self.check_estimate()?;
        if self.kind == JobKind::Estimation && self.sources.len() > 1 {
            return Err("an estimation is of one source".to_owned());
        }
        if self.kind == JobKind::Estimation && !self.after.is_empty() {
            return Err("an estimation waits for nothing: it is answered at once".to_owned());
        }
        // It would stand on a command line, which every user of the host can read.
        if route == Route::Put && redact::address(&self.destination) != self.destination {
            return Err(
                "the destination has a password or a query in it: leave it out, and put logins into ~/.netrc"
                    .to_owned(),
            );
        }
        let size = serde_json::to_vec(&self.with_policy_named()).map_err(|error| error.to_string())?.len();
        if size > MAX_BYTES {
            return Err(format!(
                "it takes {size} bytes; at most {MAX_BYTES} are taken: make several jobs of it"
            ));
        }
        Ok(())
    }

    /// How its data is to be moved.
    pub fn spec(&self) -> Result<Spec, String> {
        Spec::of(&self.options, self.route()?, self.is_archive())
    }

    /// What moves its data.
    pub fn route(&self) -> Result<Route, String> {
        // What a name stands for is an endpoint.
        let destination = name_of(&self.destination).map_or(&self.destination[..], |_| "tg://name/");
        let mut routes = self.sources.iter().map(|source| Route::of_job(source, destination));
        let first = routes.next().ok_or("it has no source")??;
        match routes.all(|route| route == Ok(first)) {
            true => Ok(first),
            false => Err("its sources are not of one kind".to_owned()),
        }
    }

    /// Whether it gets what an archive has under accessions.
    pub(crate) fn is_archive(&self) -> bool {
        self.sources.first().is_some_and(|source| address::accession(source).is_some())
    }

    /// Between which sites data moves, as far as addresses tell: an endpoint that is named counts as local.
    pub fn pair(&self) -> Result<Pair, String> {
        self.pair_by(&Names::default())
    }

    /// Between which sites data moves.
    pub(crate) fn pair_by(&self, names: &Names) -> Result<Pair, String> {
        let site = |address: &str| match address::accession(address) {
            Some(_) => Ok(Site::archive(self.options.text("source"))),
            // A pool has its name where it was spread from, and its endpoints are in what movers are told.
            None if self.kind == JobKind::Spread => Site::of(address).map_err(|error| error.to_string()),
            None => Site::of(&names.resolve(address)?).map_err(|error| error.to_string()),
        };
        let (first, others) = self.sources.split_first().ok_or("it has no source")?;
        let source = site(first)?;
        for other in others {
            let other = site(other)?;
            if other != source {
                return Err(format!("its sources are at several sites, {source} and {other}"));
            }
        }
        Ok(Pair { source, destination: site(&self.destination)? })
    }

    /// From where to where, without secrets and as nobody escaped it.
    pub fn route_in_words(&self) -> String {
        let source = self.sources.first().map(|source| redact::address(source)).unwrap_or_default();
        let more = match self.sources.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        format!("{source}{more} → {}", redact::address(&self.destination))
    }

    /// The same without the secrets of its addresses, to be shown.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.sources.iter_mut().for_each(|source| *source = redact::address(source));
        self.destination = redact::address(&self.destination);
        // What nobody here understands may hold an address too.
        self.attributes.retain(|(_, expression)| !expression.contains("://"));
        if self.policy.is_some() {
            self = self.with_policy_named().into_owned();
        }
        self
    }
}

/// Why no job reaches `address`, which is another host's.
fn reached_by_no_job(address: &str) -> Option<String> {
    let host = address.split_once(':').map(|(host, _)| host).filter(|host| !host.contains('/'))?;
    if address.starts_with("file://") {
        return Some(format!(
            "{address} is at another host: name an endpoint there, or write file:/// for the service's host"
        ));
    }
    host.contains('@')
        .then(|| format!("{address:?} is reached by ssh, and by no job: name an endpoint there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        let fine = Request::transfer("/a", "tg://FPR:secret@h/b");
        assert_eq!(fine.check(), Ok(()));
        let change = |change: fn(&mut Request)| {
            let mut request = fine.clone();
            change(&mut request);
            request.check().expect_err("refused").to_string()
        };
        for (error, wanted) in [
            (change(|r| r.sources.clear()), "no source"),
            (change(|r| r.sources.push("tg://g/x".into())), "sites"),
            (change(|r| r.sources.push("https://g/x".into())), "sites"),
            (change(|r| r.sources.push("gsiftp://g/x".into())), "of one kind"),
            (change(|r| r.sources[0] = "a/b".into()), "relative"),
            (change(|r| r.sources[0] = "/a\nb".into()), "control"),
            (change(|r| r.sources[0] = "x".repeat(9000)), "bytes"),
            (change(|r| r.destination = "gopher://h".into()), "gopher"),
            (change(|r| r.destination = String::new()), "empty"),
            (change(|r| r.destination = "file://elsewhere/b".into()), "at another host"),
            (change(|r| r.destination = "user@elsewhere:/b".into()), "reached by ssh, and by no job"),
            (change(|r| r.log = Some("job.log".into())), "relative"),
            (change(|r| r.options.set("epochs", "/etc/passwd")), "no option"),
            (change(|r| r.options.set("staging", "much")), "staging: "),
            (change(|r| r.sources[0] = "SRR390728".into()), "an accession to tg://"),
            (change(|r| r.sources[0] = "CRR311377".into()), "Genome Sequence Archive"),
            (change(|r| r.retries = 1_000_000), "retries"),
            (change(|r| r.retry_for_s = u64::MAX), "retry_for_s"),
        ] {
            assert!(error.contains(wanted) && !error.contains('\n') && !error.contains("secret"), "{error}");
        }
        let mut request = fine.clone();
        request.options.set("optimizer", "aimd");
        request.options.set("staging", "8MiB");
        request.options.set("checksum", true);
        assert_eq!(request.check(), Ok(()));
        assert_eq!(request.optimizer(), Some("aimd"));
        assert_eq!(Request::transfer("dtn:/a", "/b").check(), Ok(()));
        // What a server has is copied to an endpoint, by its address or its name.
        for destination in ["tg://FPR:secret@h/b", "dtn:/b"] {
            let request = Request::transfer("https://g/x", destination);
            assert_eq!((request.check(), request.route()), (Ok(()), Ok(Route::Copy)));
        }
    }

    #[test]
    fn accessions_are_of_one_archive_and_go_to_a_path() {
        let get = |sources: &[&str], options: &str| {
            let sources = sources.iter().map(|word| (*word).to_owned()).collect();
            let options = serde_json::from_str(options).expect("options");
            Request { sources, options, ..Request::transfer("", "/b/") }
        };
        let site = |request: &Request| request.pair().map(|pair| pair.source.to_string());
        let request = get(&["SRR390728", "prjna480016"], r#"{"format": "sra"}"#);
        assert_eq!((request.check(), request.route()), (Ok(()), Ok(Route::Get)));
        assert_eq!(site(&request), Ok("archive://insdc".to_owned()));
        let request = get(&["SRR390728"], r#"{"format": "sra", "source": "aws"}"#);
        assert_eq!((request.check(), site(&request)), (Ok(()), Ok("archive://aws".to_owned())));
        for (request, wanted) in [
            (get(&["SRR390728", "https://h/x"], "{}"), "several sites"),
            (get(&["SRR390728", "/a"], "{}"), "of one kind"),
            (get(&["SRR12"], "{}"), "6 to 12 digits"),
            (get(&["SRR390728", "phs000001"], "{}"), "of one kind"),
            (get(&["SRR390728"], r#"{"source": "mirror"}"#), "auto, ena"),
            (get(&["SRR390728"], r#"{"data_plane": "clear"}"#), "by `tidegate get`"),
            (get(&["https://h/x"], r#"{"format": "sra"}"#), "no option"),
            (Request { sampler: Some(SamplerKind::Native), ..get(&["SRR390728"], "{}") }, "not sampled"),
            (Request { iperf3: Some("h".into()), ..get(&["SRR390728"], "{}") }, "not sampled"),
        ] {
            let error = request.check().expect_err(wanted).to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{wanted}: {error}");
        }
    }

    #[test]
    fn a_request_is_shown_without_secrets_and_written_as_it_was() {
        let mut request = Request::transfer("https://u:secret@h/x?sig=secret", "/b");
        request.attributes = vec![("their_url".to_owned(), "\"ftp://secret@h\"".to_owned())];
        let text = serde_json::to_string(&request).expect("plain data");
        assert_eq!(serde_json::from_str::<Request>(&text).expect("read"), request);
        assert!(!format!("{request:?}").contains("secret"));
        assert!(!serde_json::to_string(&request.public()).expect("plain data").contains("secret"));
    }
}
