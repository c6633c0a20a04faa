//! How the data of a job is to be moved: its options, as what moves it reads them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_spec::address::Route;
use tidegate_spec::archive::ArchiveSpec;
use tidegate_spec::control::ControlSpec;
use tidegate_spec::copy::CopySpec;
use tidegate_spec::get::GetSpec;
use tidegate_spec::options::Options;
use tidegate_spec::put::PutSpec;

use super::stream_rule::{StreamRule, StreamSpec};
use super::values::well_formed;

/// The most levels of an option's value.
const MAX_DEPTH: usize = 8;

/// How data is to be moved, by what moves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// Between hosts that run Tidegate.
    Copy(Box<CopySpec>),
    /// From servers of others.
    Get(Box<GetSpec>),
    /// To servers of others.
    Put(Box<PutSpec>),
    /// By globus-url-copy.
    GridFtp(StreamSpec),
}

/// The options of any job in JSON: those that one of the specs has, or, of a job that was taken, what was said of them.
pub(crate) struct AnyOptions;

impl JsonSchema for AnyOptions {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyOptions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if generator.contract().is_serialize() {
            return json_schema!({"type": "object"});
        }
        let specs = [
            generator.subschema_for::<CopySpec>(),
            generator.subschema_for::<GetSpec>(),
            generator.subschema_for::<PutSpec>(),
            generator.subschema_for::<StreamSpec>(),
        ];
        json_schema!({"type": "object", "anyOf": specs})
    }
}

impl Spec {
    /// What the options of a job on that route say, of accessions or not.
    ///
    /// # Errors
    /// In one line: an option that there is not, a value that cannot be read, or what makes no sense together.
    pub fn of(options: &Options, route: Route, is_archive: bool) -> Result<Self, String> {
        for (name, value) in options.iter() {
            check_text(name, value, MAX_DEPTH)?;
        }
        let of_job = |why: String| {
            why.replace("is no option of this", &format!("is no option of a job by {}", program(route)))
        };
        Ok(match route {
            Route::Copy => {
                let spec: CopySpec = options.read().map_err(of_job)?;
                spec.check(false)?;
                spec.filters.check_content()?;
                Self::Copy(Box::new(spec))
            }
            Route::Get => {
                let spec: GetSpec = options.read().map_err(of_job)?;
                spec.check()?;
                if !is_archive && spec.archive != ArchiveSpec::default() {
                    let said = Options::of(&spec.archive);
                    let names: Vec<&str> = said.iter().map(|(name, _)| name).collect();
                    return Err(format!(
                        "{} is no option of a job by {}: it is of accessions",
                        names.join(", "),
                        program(route)
                    ));
                }
                Self::Get(Box::new(spec))
            }
            Route::Put => {
                let spec: PutSpec = options.read().map_err(of_job)?;
                spec.check()?;
                spec.filters.check_content()?;
                Self::Put(Box::new(spec))
            }
            Route::GridFtp => {
                let spec: StreamSpec = options.read().map_err(of_job)?;
                StreamRule::of(&spec)?;
                Self::GridFtp(spec)
            }
        })
    }

    /// Options that were typed, for a job on that route.
    ///
    /// # Errors
    /// In one line: an option that there is not, or a value that cannot be read.
    pub fn typed(words: &[String], route: Route) -> Result<Options, String> {
        let options = match route {
            Route::Copy => Options::typed::<CopySpec>(words),
            Route::Get => Options::typed::<GetSpec>(words),
            Route::Put => Options::typed::<PutSpec>(words),
            Route::GridFtp => Options::typed::<StreamSpec>(words),
        };
        options.map_err(|why| format!("{why}, in a job by {}", program(route)))
    }

    /// The rule that decides and how it is run, where a program of ours does.
    pub fn control(&self) -> Option<&ControlSpec> {
        match self {
            Self::Copy(spec) => Some(&spec.control),
            Self::Get(spec) => Some(&spec.control),
            Self::Put(spec) => Some(&spec.control),
            Self::GridFtp(_) => None,
        }
    }
}

/// Refuses texts that may not be shown and handed on, and what is said to be nothing.
fn check_text(name: &str, value: &Value, depth: usize) -> Result<(), String> {
    if depth == 0 {
        return Err(format!("{name} is nested too deeply"));
    }
    match value {
        Value::String(text) if name != "files" || text.is_empty() => well_formed(name, text),
        Value::String(text) => well_formed("a name of files", text),
        Value::Array(items) => items.iter().try_for_each(|item| check_text(name, item, depth - 1)),
        Value::Object(items) => items.values().try_for_each(|item| check_text(name, item, depth - 1)),
        // It could be meant for none of many, and would be all.
        Value::Null => Err(format!("{name} is null: leave it out, or say what it is")),
        Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// What moves the data of such a job.
const fn program(route: Route) -> &'static str {
    match route {
        Route::Copy => "`tidegate copy`",
        Route::Get => "`tidegate get`",
        Route::Put => "`tidegate put`",
        Route::GridFtp => "globus-url-copy",
    }
}

#[cfg(test)]
mod tests {
    use tidegate_spec::control::ControlLocal;
    use tidegate_spec::deletion::BackupDir;
    use tidegate_spec::setup::Setup;

    use super::*;

    fn of(route: Route, is_archive: bool, options: &str) -> Result<Spec, String> {
        Spec::of(&serde_json::from_str(options).expect("an object"), route, is_archive)
    }

    /// A spec holds nothing that only the user of the host that runs it may say, whatever is added to it.
    #[test]
    fn no_field_names_a_file_a_program_or_a_secret_of_the_services_host() {
        // Options of the commands themselves, which this crate knows nothing of.
        let of_commands = [
            "tls_ca",
            "tls_cert",
            "tls_key",
            "outdir",
            "input_format",
            "base_url",
            "ena_url",
            "eutils_url",
            "sdl_url",
            "aws_url",
            "api_key",
            "email",
            "max_connections",
            "header",
            "ssh",
            "refresh_url_with",
            "install_remote",
            "remote_path",
            "via",
            "advertise",
            "port_range",
            "s3_endpoint",
            "gs_endpoint",
            "billing_project",
            "requester_pays",
            "convert",
            "names",
            "paths",
            "no_read_back",
            "retries",
        ];
        let of_host = [
            Options::all(&Setup::default()),
            Options::all(&ControlLocal::default()),
            Options::all(&BackupDir::default()),
        ];
        let of_host =
            of_host.iter().flat_map(Options::iter).map(|(name, _)| name).filter(|name| *name != "control");
        let local: Vec<&str> = of_host.chain(of_commands).collect();
        assert!(local.len() > 40, "{local:?}");
        let empty = Options::default();
        for route in [Route::Copy, Route::Get, Route::Put, Route::GridFtp] {
            let spec = Spec::of(&empty, route, true).expect("what is usual");
            let Ok(Value::Object(by_route)) = serde_json::to_value(&spec) else { panic!("{spec:?}") };
            let fields: Vec<&String> =
                by_route.values().filter_map(Value::as_object).flat_map(|fields| fields.keys()).collect();
            assert!(fields.len() > 2, "{spec:?}");
            let wrong: Vec<_> = fields.iter().filter(|field| local.contains(&field.as_str())).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
            for name in &local {
                let text = format!("{{\"{name}\": \"/etc/passwd\"}}");
                let why = of(route, true, &text).expect_err(name);
                assert!(why.contains(&format!("\"{name}\" is no option of a job by")), "{why}");
            }
        }
        // One that a copy alone has may name a file; a job's may not.
        for rules in [r#"[". /etc/passwd"]"#, r#"[{"exclude_from": "/etc/passwd"}]"#] {
            let why = of(Route::Copy, false, &format!("{{\"filter\": {rules}}}")).expect_err(rules);
            assert!(why.contains("where the service runs"), "{why}");
        }
        let why = of(Route::Copy, false, r#"{"files_from": "/etc/passwd"}"#).expect_err("a file");
        assert!(why.contains("where the service runs"), "{why}");
    }

    /// Whatever field is a path is refused, if a job names a file by it.
    #[test]
    fn no_field_of_a_job_is_a_path() {
        let mut generator = SchemaGenerator::default();
        let mut paths = 0;
        for (route, schema) in [
            (Route::Copy, CopySpec::json_schema(&mut generator)),
            (Route::Get, GetSpec::json_schema(&mut generator)),
            (Route::Put, PutSpec::json_schema(&mut generator)),
            (Route::GridFtp, StreamSpec::json_schema(&mut generator)),
        ] {
            let fields = schema.get("properties").and_then(Value::as_object).expect("fields");
            let usual = Options::all(&CopySpec::default());
            assert!(
                route != Route::Copy || usual.iter().all(|(name, _)| fields.contains_key(name)),
                "{fields:?}"
            );
            for name in fields.iter().filter(|(_, field)| field["format"] == "path").map(|(name, _)| name) {
                let text = format!("{{\"{name}\": \"/etc/passwd\"}}");
                let why = of(route, true, &text).expect_err(name);
                assert!(why.contains("where the service runs"), "{why}");
                paths += 1;
            }
        }
        assert_eq!(paths, 2, "`files_from` of copies and of uploads");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        for (route, is_archive, options, wanted) in [
            (
                Route::Copy,
                false,
                r#"{"limit_rate": "1Mbit/s"}"#,
                "by `tidegate copy`; there are aimd_epsilon",
            ),
            (Route::Get, false, r#"{"data_plane": "clear"}"#, "by `tidegate get`"),
            (Route::Get, false, r#"{"format": "sra"}"#, "of accessions"),
            (Route::Put, false, r#"{"no_verify": true}"#, "by `tidegate put`"),
            (Route::GridFtp, false, r#"{"staging": "8MiB"}"#, "by globus-url-copy"),
            (Route::Copy, false, r#"{"epoch": "1s\n--state=/x"}"#, "control"),
            (Route::Copy, false, r#"{"filter": ["- a\nb"]}"#, "control"),
            (Route::Copy, false, r#"{"files": ["a", ""]}"#, "empty"),
            (Route::Copy, false, r#"{"filter": ["nonsense"]}"#, "begins with none of"),
            (Route::Copy, false, r#"{"filter": [{"exclude": ""}]}"#, "empty"),
            (Route::Copy, false, r#"{"max_delete": 3}"#, "--delete"),
            (Route::Copy, false, r#"{"move": true, "verify": "block"}"#, "--move"),
            (Route::Copy, false, r#"{"delete": true, "files": ["a"]}"#, "--files-from"),
            (Route::Copy, false, r#"{"max_size": "much"}"#, "max_size: "),
            (Route::Copy, false, r#"{"staging": "1B"}"#, "staging must be from 1MiB"),
            (Route::Put, false, r#"{"links": "keep"}"#, "links: "),
            (Route::Get, false, r#"{"checksum": ["md5", "sum"]}"#, "\"sum\""),
            (Route::Get, true, r#"{"format": "bam"}"#, "fastq, sra"),
            (Route::Copy, false, r#"{"utility_k": 0.5}"#, "utility_k must be a number, 1 or more"),
            (Route::GridFtp, false, r#"{"epoch": "2s"}"#, "needs optimizer"),
        ] {
            let why = of(route, is_archive, options).expect_err(options);
            assert!(why.contains(wanted) && !why.contains('\n'), "{options}: {why}");
        }
    }

    #[test]
    fn what_is_typed_is_read_as_the_command_reads_it() {
        let typed = |route, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let options = Spec::typed(&words, route)?;
            Spec::of(&options, route, route == Route::Get).map(|_| options)
        };
        for (route, words) in [
            (Route::Copy, &["--optimizer", "aimd", "--staging=8MiB", "--checksum", "--links", "skip"][..]),
            (
                Route::Get,
                &["--format=sra", "--source", "aws", "--allow-fallback", "--checksum", "md5,sha-256"],
            ),
            (
                Route::Copy,
                &["--exclude", "*.tmp", "--filter=- a b", "--filter=:e .keep", "--exclude=!", "--update"],
            ),
            (Route::Copy, &["--min-size=1M+1", "--newer-than", "7d", "--older-than=2026-01-31"]),
            (Route::Put, &["--part-size=8MiB", "--timeout=30s", "--checksum"]),
            (Route::GridFtp, &["--optimizer=aimd", "--epoch", "5s"]),
        ] {
            assert!(typed(route, words).is_ok_and(|options| !options.is_empty()), "{words:?}");
        }
        for (route, words, wanted) in [
            (Route::Copy, &["--state=/x"][..], "'--state' found, in a job by `tidegate copy`"),
            (Route::Copy, &["-e", "sh -c id"], "'-e'"),
            (Route::Copy, &["--filter=. /etc/passwd"], "where the service runs"),
            (Route::Copy, &["--exclude-from=/etc/passwd"], "where the service runs"),
            (Route::Copy, &["--staging"], "a value is required"),
            (Route::Copy, &["/etc/passwd"], "unexpected"),
            (Route::Get, &["--exclude=a"], "by `tidegate get`"),
        ] {
            let why = typed(route, words).expect_err("refused");
            assert!(why.contains(wanted) && !why.contains('\n'), "{words:?}: {why}");
        }
    }
}
