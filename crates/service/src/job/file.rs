//! Job files: TOML or JSON with one or many jobs, and Stork's ClassAds.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;
use tidegate_contract::object::Object;
use tidegate_contract::text::one_line;
use tidegate_control::units::parse_duration;
use tidegate_spec::address::{self, Route};

use super::arguments::Arguments;
use super::request::{JobKind, LogFormat, Request};
use super::spec::Spec;
use crate::classad::{self, Attribute, ClassAd, SyntaxError};

/// The most bytes of a job file.
pub(crate) const MAX_BYTES: usize = classad::MAX_BYTES;
/// The most jobs of one file, and of one batch.
pub const MAX_JOBS: usize = 10_000;

/// How a job file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One job at the top, or several as `[[job]]`.
    Toml,
    /// One object, an array of them, or `{"job": […]}`.
    Json,
    /// Stork's `[ dap_type = transfer; … ]`.
    ClassAds,
}

/// What is wrong with a job file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// It cannot be read as what it is.
    #[error("{0}")]
    Syntax(#[from] SyntaxError),
    /// A job in it makes no sense.
    #[error("job {number}{}: {message}", match line { 0 => String::new(), line => format!(" (line {line})") })]
    Job {
        /// Which, from 1.
        number: usize,
        /// The line it begins on, where that is known.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// There is nothing in it, or too much.
    #[error("{0}")]
    Size(String),
}

impl Format {
    /// What a file is, by its name or else by how it begins.
    pub fn of(path: Option<&Path>, text: &str) -> Self {
        let extension = path.and_then(Path::extension).and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("toml") => return Self::Toml,
            Some("json") => return Self::Json,
            Some("stork" | "dap" | "sub" | "ad" | "classad" | "submit") => return Self::ClassAds,
            _ => {}
        }
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with("//") || text.starts_with("/*") {
            return Self::ClassAds;
        }
        if text.starts_with('{') {
            return Self::Json;
        }
        let Some(inside) = text.strip_prefix('[') else { return Self::Toml };
        if inside.starts_with('[') {
            return Self::Toml;
        }
        let inside = inside.trim_start();
        if inside.starts_with(['{', ']']) {
            return Self::Json;
        }
        // `[table]` of TOML has nothing else on its line, and an ad has an attribute, or nothing at all.
        let word = inside.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c)).unwrap_or(inside.len());
        if word > 0 && inside[word..].trim_start_matches([' ', '\t']).starts_with(']') {
            Self::Toml
        } else {
            Self::ClassAds
        }
    }
}

impl FileError {
    /// The same with the file's own words fit to be shown.
    fn shown(mut self) -> Self {
        let (Self::Syntax(SyntaxError { message, .. }) | Self::Job { message, .. } | Self::Size(message)) =
            &mut self;
        *message = one_line(message);
        self
    }
}

/// The jobs of a file. Paths that do not begin with `/` are relative to `base`, where one is given.
///
/// ```
/// use tidegate_service::job::file::{Format, read};
///
/// let text = r#"[ dap_type = transfer; src_url = "gsiftp://a/x"; dest_url = "gsiftp://b/y"; ]"#;
/// let jobs = read(text, Format::ClassAds, None)?;
/// assert_eq!((&jobs[0].sources[0][..], &jobs[0].destination[..]), ("gsiftp://a/x", "gsiftp://b/y"));
/// # Ok::<(), tidegate_service::job::file::FileError>(())
/// ```
pub fn read(text: &str, format: Format, base: Option<&Path>) -> Result<Vec<Request>, FileError> {
    jobs(text, format, base).map_err(FileError::shown)
}

fn jobs(text: &str, format: Format, base: Option<&Path>) -> Result<Vec<Request>, FileError> {
    if text.len() > MAX_BYTES {
        return Err(FileError::Size(format!(
            "the file has {} bytes; at most {MAX_BYTES} are taken",
            text.len()
        )));
    }
    let text = text.trim_start_matches('\u{feff}');
    let mut jobs: Vec<(usize, Request)> = match format {
        Format::Toml => read_toml(text)?,
        Format::Json => read_json(text)?.into_iter().map(|request| (0, request)).collect(),
        Format::ClassAds => read_ads(text)?,
    };
    if jobs.is_empty() {
        return Err(FileError::Size("there is no job in it".to_owned()));
    }
    if jobs.len() > MAX_JOBS {
        return Err(FileError::Size(format!(
            "there are {} jobs in it; at most {MAX_JOBS} are taken",
            jobs.len()
        )));
    }
    for (i, (line, request)) in jobs.iter_mut().enumerate() {
        if let Some(base) = base {
            make_absolute(request, base);
        }
        request.check().map_err(|error| FileError::Job {
            number: i + 1,
            line: *line,
            message: error.to_string(),
        })?;
    }
    Ok(jobs.into_iter().map(|(_, request)| request).collect())
}

/// A batch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct Jobs<T> {
    /// The jobs.
    job: Vec<T>,
}

/// What a job file of JSON is, which [`read`] takes apart so that it names what is wrong.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, reason = "it is described alone")]
pub(crate) enum JobsOfJson {
    One(Box<Request>),
    Many(Vec<Request>),
    Batch(Jobs<Request>),
}

fn read_toml(text: &str) -> Result<Vec<(usize, Request)>, FileError> {
    let wrong = |error: toml::de::Error| {
        let (line, column) = error.span().map_or((1, 1), |span| place(text, span.start));
        FileError::Syntax(SyntaxError { line, column, message: in_one_line(error.message()) })
    };
    let table: toml::Table = toml::from_str(text).map_err(wrong)?;
    if table.is_empty() {
        return Ok(Vec::new());
    }
    if !table.contains_key("job") {
        return toml::from_str(text).map(|Object(request)| vec![(1, request)]).map_err(wrong);
    }
    let jobs: Jobs<toml::Spanned<Object<Request>>> = toml::from_str(text).map_err(wrong)?;
    let mut at = (0, 1);
    let with_line = |job: toml::Spanned<Object<Request>>| {
        let start = job.span().start.min(text.len());
        // Jobs stand in order, so lines are counted once; one that does not costs a look from the beginning.
        let (from, line) = if start >= at.0 { at } else { (0, 1) };
        at = (start, line + text.as_bytes()[from..start].iter().filter(|b| **b == b'\n').count());
        (at.1, job.into_inner().0)
    };
    Ok(jobs.job.into_iter().map(with_line).collect())
}

fn read_json(text: &str) -> Result<Vec<Request>, FileError> {
    let wrong = |error: serde_json::Error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
        FileError::Syntax(SyntaxError {
            line: error.line().max(1),
            column: error.column().max(1),
            message: in_one_line(message),
        })
    };
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map(requests).map_err(wrong);
    }
    let keys: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(wrong)?;
    if keys.contains_key("job") {
        return serde_json::from_str(text).map(|jobs: Jobs<_>| requests(jobs.job)).map_err(wrong);
    }
    serde_json::from_str(text).map(|Object(request)| vec![request]).map_err(wrong)
}

fn requests(jobs: Vec<Object<Request>>) -> Vec<Request> {
    jobs.into_iter().map(|Object(request)| request).collect()
}

fn read_ads(text: &str) -> Result<Vec<(usize, Request)>, FileError> {
    let ads = ClassAd::parse_all(text)?;
    let of = |(i, ad): (usize, &ClassAd)| {
        let request = request_of(ad);
        let line = ad.attributes().first().map_or(0, |attribute| attribute.line);
        request.map(|request| (line, request)).map_err(|(line, message)| FileError::Job {
            number: i + 1,
            line,
            message,
        })
    };
    ads.iter().enumerate().map(of).collect()
}

/// What a Stork ad asks for, or what is wrong in which line.
pub(crate) fn request_of(ad: &ClassAd) -> Result<Request, (usize, String)> {
    let first = ad.attributes().first().map_or(0, |attribute| attribute.line);
    let mut request = Request::transfer("", "");
    let mut words = (first, Vec::new());
    request.sources.clear();
    // Whoever comes from Stork has tools that read it.
    request.log_format = LogFormat::Htcondor;
    for Attribute { name, value, line } in ad.attributes() {
        let wrong = |message: String| (*line, message);
        let word = || value.as_word().to_owned();
        let text = || {
            let text = value.as_text().map(str::to_owned);
            text.ok_or_else(|| wrong(format!("{name} is {value}, and must be one text in quotes")))
        };
        let switch = || {
            value
                .as_switch()
                .ok_or_else(|| wrong(format!("{name} is {value}, and must be \"YES\" or \"NO\"")))
        };
        let size = || {
            let bytes = word().parse::<u64>().map(tidegate_control::ByteCount);
            bytes.or_else(|_| word().parse()).map_err(|error| wrong(error.to_string()))
        };
        let time = || parse_duration(value.as_word()).map_err(|error| wrong(error.to_string()));
        match name.to_ascii_lowercase().as_str() {
            "dap_type" => {
                request.kind = match word().to_ascii_lowercase().as_str() {
                    "transfer" => JobKind::Transfer,
                    "estimation" => JobKind::Estimation,
                    _ => {
                        return Err(wrong(format!("dap_type is {value}; there are transfer and estimation")));
                    }
                }
            }
            "src_url" => request.sources.push(stork_url(&text()?)),
            "dest_url" => request.destination = stork_url(&text()?),
            "optimization" => request.optimization = switch()?,
            "use_history" => request.use_history = switch()?,
            "arguments" => {
                let arguments = Arguments::parse(&text()?).map_err(wrong)?;
                request.buffer_bytes = arguments.buffer;
                request.sample_bytes = arguments.sample;
                words = (*line, arguments.rest);
            }
            "output" => request.output = Some(text()?.into()),
            "err" => request.err = Some(text()?.into()),
            "log" => request.log = Some(text()?.into()),
            "log_format" => request.log_format = word().to_ascii_lowercase().parse().map_err(wrong)?,
            // Stork's word for the proxy that is found by itself.
            "x509proxy" if value.as_word().eq_ignore_ascii_case("default") => {}
            "x509proxy" => request.x509proxy = Some(text()?.into()),
            "job_name" => request.name = Some(text()?),
            "history_age" => request.history_age_s = Some(time()?.as_secs()),
            "sample_time" => request.sample_ms = Some(u64::try_from(time()?.as_millis()).unwrap_or(u64::MAX)),
            "sampler" => request.sampler = Some(word().to_ascii_lowercase().parse().map_err(wrong)?),
            "iperf3" => request.iperf3 = Some(text()?),
            "threshold" => request.threshold = Some(value.as_word().parse().map_err(wrong)?),
            "model" => request.model = word().to_ascii_lowercase().parse().map_err(wrong)?,
            "always_sample" => request.always_sample = switch()?,
            "policy" => request.policy = Some(text()?),
            "bytes" | "size" => request.bytes = Some(size()?),
            "priority" => {
                request.priority = word()
                    .parse()
                    .map_err(|_| wrong(format!("priority is {value}, and must be a whole number")))?;
            }
            "max_retry" => {
                request.retries = word()
                    .parse()
                    .map_err(|_| wrong(format!("max_retry is {value}, and must be a whole number")))?;
            }
            // Kept like what means nothing here, they would have more copied than is wanted.
            "filter" | "files" | "options" => {
                let why = format!(
                    "{name} is of job files in TOML and JSON: write arguments = \"--exclude=PATTERN\""
                );
                return Err(wrong(why));
            }
            _ => request.attributes.push((name.clone(), value.to_string())),
        }
    }
    if ad.get("dap_type").is_none() {
        return Err((
            first,
            "dap_type is missing: write dap_type = transfer; or dap_type = estimation;".to_owned(),
        ));
    }
    for (what, missing) in
        [("src_url", request.sources.is_empty()), ("dest_url", request.destination.is_empty())]
    {
        if missing {
            return Err((first, format!("{what} is missing")));
        }
    }
    let (line, words) = words;
    if !words.is_empty() {
        let typed = request.route().and_then(|route| Spec::typed(&words, route));
        request.options = typed.map_err(|why| (line, format!("arguments: {why}")))?;
    }
    Ok(request)
}

/// Stork writes `file:/path`, as RFC 8089 lets it; here an address of one slash begins with an endpoint's name.
fn stork_url(word: &str) -> String {
    match word.strip_prefix("file:/") {
        Some(path) if !path.starts_with('/') => format!("file:///{path}"),
        _ => word.to_owned(),
    }
}

fn make_absolute(request: &mut Request, base: &Path) {
    let paths = [&mut request.output, &mut request.err, &mut request.log, &mut request.x509proxy];
    for path in paths.into_iter().flatten() {
        *path = base.join(&*path);
    }
    make_path_absolute(&mut request.destination, base);
    for source in &mut request.sources {
        // What archives have goes to paths only: on its way elsewhere it is a file that is called so.
        let is_got =
            address::accession(source).is_some() && Route::between(source, &request.destination).is_ok();
        if !is_got {
            make_path_absolute(source, base);
        }
    }
}

fn make_path_absolute(text: &mut String, base: &Path) {
    let has_name = text.split('/').next().is_some_and(|first| first.contains(':'));
    if address::scheme(text).is_some() || has_name || text.is_empty() || text.starts_with('/') {
        return;
    }
    let path: PathBuf = base.join(&*text);
    if let Some(path) = path.to_str() {
        *text = path.to_owned();
    }
}

/// Line and column of a byte.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    (before.matches('\n').count() + 1, column)
}

fn in_one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use tidegate_control::ByteCount;
    use tidegate_control::throughput_model::ModelSelection;

    use super::*;
    use crate::classad::Value;

    /// The ad of a request, with everything that it came with.
    fn ad_of(request: &Request) -> ClassAd {
        let mut ad = ClassAd::default();
        let mut set = |name: &str, value: Value| ad.set(Attribute { name: name.to_owned(), value, line: 0 });
        let word = |word: &str| Value::Expression(word.to_owned());
        let text = |text: &str| Value::Text(text.to_owned());
        set(
            "dap_type",
            word(match request.kind {
                JobKind::Transfer => "transfer",
                JobKind::Estimation => "estimation",
                JobKind::Spread => "spread",
            }),
        );
        if let Some(source) = request.sources.first() {
            set("src_url", text(source));
        }
        set("dest_url", text(&request.destination));
        set("optimization", text(if request.optimization { "YES" } else { "NO" }));
        set("use_history", text(if request.use_history { "YES" } else { "NO" }));
        let mut arguments = Vec::new();
        for (option, size) in [("-b", request.buffer_bytes), ("-s", request.sample_bytes)] {
            arguments.extend(size.map(|size| format!("{option} {}", size.0)));
        }
        if !arguments.is_empty() {
            set("arguments", text(&arguments.join(" ")));
        }
        for (name, path) in request.paths() {
            if let Some(path) = path.to_str() {
                set(name, text(path));
            }
        }
        if let Some(name) = &request.name {
            set("job_name", text(name));
        }
        if let Some(bytes) = request.bytes {
            set("bytes", word(&bytes.0.to_string()));
        }
        if request.priority != 0 {
            set("priority", word(&request.priority.to_string()));
        }
        for (name, expression) in &request.attributes {
            set(name, word(expression));
        }
        ad
    }
    use crate::job::Dependency;

    /// Every attribute that the paper names.
    const STORK: &str = r#"[
  dap_type = transfer;
  stork_server = "stork.example.org";
  opt_server = "opt.example.org";
  src_url = "gsiftp://dtn1.example.org/scratch/test1.dat";
  dest_url = "gsiftp://dtn2.example.org/scratch/test1.dat";
  optimization = "YES";
  use_history = "YES";
  arguments = "-b 128K -s 10M";
  output = "test1.out";
  err = "test1.err";
  log = "test1.log";
  x509proxy = "default";
]
"#;

    #[test]
    fn a_stork_ad_is_a_request_and_is_given_back() {
        let jobs = read(STORK, Format::of(None, STORK), Some(Path::new("/home/u"))).expect("read");
        let [request] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!(request.sources, ["gsiftp://dtn1.example.org/scratch/test1.dat"]);
        assert_eq!(
            (request.kind, request.optimization, request.use_history),
            (JobKind::Transfer, true, true)
        );
        assert_eq!(
            (request.buffer_bytes, request.sample_bytes),
            (Some(ByteCount::kib(128)), Some(ByteCount::mib(10)))
        );
        assert_eq!(request.log.as_deref(), Some(Path::new("/home/u/test1.log")));
        assert_eq!(request.x509proxy, None);
        assert_eq!(request.attributes[0], ("stork_server".to_owned(), "\"stork.example.org\"".to_owned()));
        let again = ad_of(request).to_string();
        assert_eq!(read(&again, Format::ClassAds, None).as_deref(), Ok(&jobs[..]), "{again}");
    }

    #[test]
    fn a_stork_ad_may_write_a_file_with_one_slash_as_rfc_8089_does() {
        for (written, means) in [
            ("file:/etc/hosts", "file:///etc/hosts"),
            ("file:///etc/hosts", "file:///etc/hosts"),
            ("file:etc/hosts", "file:etc/hosts"),
        ] {
            let ad = format!("[ dap_type = transfer; src_url = \"{written}\"; dest_url = \"{written}\"; ]");
            let jobs = read(&ad, Format::ClassAds, Some(Path::new("/home/u"))).expect("read");
            assert_eq!((jobs[0].sources[0].as_str(), jobs[0].destination.as_str()), (means, means));
        }
    }

    #[test]
    fn every_form_names_the_models_that_estimate_and_no_other() {
        let toml = |model: &str| {
            format!("[[job]]\nsource = \"/a\"\ndestination = \"tg://h/b\"\nmodel = \"{model}\"\n")
        };
        let json =
            |model: &str| format!("{{\"source\":\"/a\",\"destination\":\"tg://h/b\",\"model\":\"{model}\"}}");
        let ad = |model: &str| {
            format!(
                "[ dap_type = transfer; src_url = \"/a\"; dest_url = \"tg://h/b\"; model = \"{model}\"; ]"
            )
        };
        let jobs = |text: &str| read(text, Format::of(None, text), None);
        for form in [&toml as &dyn Fn(&str) -> String, &json, &ad] {
            for model in ModelSelection::ALL {
                let read = jobs(&form(model.name())).expect("read");
                assert_eq!(read[0].model, model);
                // And asked of the estimator.
                let asked = read[0].estimate(ByteCount(1), 8).expect("asked");
                assert_eq!(asked.spec.sampling.model, Some(model));
            }
            let refused = jobs(&form("newton")).expect_err("no such model").to_string();
            let told = ModelSelection::NAMES.iter().all(|name| refused.contains(name));
            assert!(told && !refused.contains('\n'), "{refused}");
        }
    }

    #[test]
    fn a_stork_ad_that_is_wrong_says_where() {
        for (text, wanted) in [
            ("[ dap_type = fly;\n ]", "line 1): dap_type is fly"),
            ("[\n src_url = \"/a\"; ]", "line 2): dap_type is missing"),
            ("[ dap_type = \"transfer\"; src_url = \"/a\" ]", "dest_url is missing"),
            ("[ dap_type = transfer;\n optimization = \"MAYBE\"; ]", "line 2): optimization"),
            (
                "[ dap_type = transfer;\n src_url = { \"/a\", \"/b\" }; ]",
                "line 2): src_url is { \"/a\", \"/b\" }, and must be one text",
            ),
            ("[ dap_type = transfer;\n dest_url = strcat(\"/a\", \"/b\"); ]", "must be one text"),
            ("[ dap_type = transfer;\n output = undefined; ]", "must be one text"),
            ("[ dap_type = transfer;\n log = 5; ]", "must be one text"),
            ("[ dap_type = transfer;\n arguments = \"--exclude='*.cfg' --delete\"; ]", "quotes mean nothing"),
            ("[ dap_type = transfer;\n filter = \"- a\"; ]", "line 2): filter is of job files"),
            ("[ dap_type = transfer;\n\n arguments = \"-b much\"; ]", "line 3): -b much"),
            (
                "[ dap_type = transfer; src_url = \"/a\"; dest_url = \"/b\"; arguments = \"--state /x\" ]",
                "arguments: unexpected argument '--state'",
            ),
            (
                "[ dap_type = transfer; src_url = \"/a\"; dest_url = \"/b\" ]\n[ dap_type = 1 ]",
                "job 2 (line 2)",
            ),
            ("[ dap_type = transfer;\n src_url \"/a\" ]", "line 2, column 10"),
        ] {
            let error = read(text, Format::ClassAds, None).expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn toml_and_json_are_read_and_unknown_keys_are_refused_with_their_line() {
        let toml = concat!(
            "[[job]]\nname = \"first\"\nsource = \"data/a\"\ndestination = \"tg://FPR:s@h/x\"\nbytes = \"10GiB\"\n\n",
            "[[job]]\nsources = [\"/a\", \"/b\"]\ndestination = \"/c/\"\nafter = [\"first\", 7]\npriority = -3\n",
        );
        let jobs = read(toml, Format::of(None, toml), Some(Path::new("/base"))).expect("read");
        assert_eq!((jobs.len(), &jobs[0].sources[0][..]), (2, "/base/data/a"));
        assert_eq!(jobs[0].bytes, Some(ByteCount::gib(10)));
        let seven = crate::job::JobId::new(7).expect("a number");
        assert_eq!(jobs[1].after, [Dependency::Name("first".to_owned()), Dependency::Id(seven)]);
        let json = serde_json::to_string(&jobs).expect("plain data");
        assert_eq!(read(&json, Format::of(None, &json), None).as_deref(), Ok(&jobs[..]));
        let archive = concat!(
            "[[job]]\nsource = \"SRR390728\"\ndestination = \"out/\"\n",
            "[[job]]\nsource = \"SRR390728\"\ndestination = \"tg://T@h/x\"\n",
            "[[job]]\nsource = \"./SRR390728\"\ndestination = \"/x\"\n",
        );
        let jobs = read(archive, Format::Toml, Some(Path::new("/base"))).expect("read");
        let sources: Vec<&str> = jobs.iter().map(|job| &job.sources[0][..]).collect();
        assert_eq!(sources, ["SRR390728", "/base/SRR390728", "/base/./SRR390728"]);
        assert_eq!(jobs[0].destination, "/base/out/");
        let one = "source = \"/a\"\ndestination = \"/b\"\n";
        assert_eq!(read(one, Format::Toml, None).map(|jobs| jobs.len()), Ok(1));
        for (text, wanted) in [
            ("source = \"/a\"\ndestination = \"/b\"\nspeed = 3\n", "line 3, column 1: unknown field `speed`"),
            ("[[job]]\nsource = \"/a\"\ndestination = \"/b\"\n[[job]]\nsource = 1\n", "line 5"),
            (
                "[[job]]\nsource = \"/a\"\ndestination = \"/b\"\n\n[[job]]\nsource = \"a\"\ndestination = \"/b\"\n",
                "job 2 (line 5): \"a\" is relative",
            ),
            ("source = \"/a\n", "line 1"),
            ("", "no job"),
            ("{\n \"source\": \"/a\",\n \"dest\": 1 }", "line 3"),
            ("[ {\"source\": \"/a\", \"destination\": \"/b\"}, 3 ]", "line 1"),
            ("{\"job\": [], \"x\": 1}", "unknown field `x`"),
            // Items of a list are no fields in their order.
            ("{\"job\": [[\"name\", \"transfer\", \"/a\", \"/b\"]]}", "expected an object"),
            ("job = [[\"name\", \"transfer\", \"/a\", \"/b\"]]", "expected an object"),
            (
                "{\"source\": \"/a\", \"destination\": \"/b\", \"options\": {\"files\": null}}",
                "files is null",
            ),
            ("{\"source\": \"/a\", \"destination\": \"/b\", \"options\": \"--delete\"}", "expected a map"),
            ("{\"source\": \"/a\", \"destination\": \"/b\", \"options\": [\"--delete\"]}", "expected a map"),
            ("{\"source\": {\"/a\": 1}, \"destination\": \"/b\"}", "an address, or a list"),
            ("{\"source\": \"/a\", \"destination\": \"/b\", \"after\": [true]}", "the number of a job"),
            ("{\"source\": [\"/a\", true], \"destination\": \"/b\"}", "an address, or a list"),
            ("{\"source\": \"/a\", \"destination\": \"/b\", \"retries\": true}", "invalid type"),
            ("{\"source\": \"/a\", \"destination\": \"/b\", \"priority\": 1.5}", "invalid type"),
            ("[]\n", "no job"),
        ] {
            let error = read(text, Format::of(None, text), None).expect_err(text).to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_is_no_job_with_its_fields_in_their_order() {
        let list = "[[\"name\", \"transfer\", \"/a\", \"/b\"]]";
        let error = read(list, Format::Json, None).expect_err("a list").to_string();
        assert!(error.contains("expected an object"), "{error}");
    }

    #[test]
    fn a_format_is_known_by_name_or_beginning() {
        for (name, text, format) in [
            (Some("a.toml"), "{", Format::Toml),
            (Some("a.stork"), "", Format::ClassAds),
            (None, "# x\n[[job]]", Format::Toml),
            (None, "[ dap_type = transfer ]", Format::ClassAds),
            (None, "[\n  dap_type = transfer ]", Format::ClassAds),
            (None, "[job]\nx = 1", Format::Toml),
            (None, "[ {", Format::Json),
            (None, "// x\n[", Format::ClassAds),
            (None, " {", Format::Json),
        ] {
            assert_eq!(Format::of(name.map(Path::new), text), format, "{text}");
        }
    }
}
