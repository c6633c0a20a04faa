//! Options that a job may pass on to what moves its data. What the service sets itself, what names files of the service's
//! host, and what carries secrets is not among them.

use tidegate_control::units::parse_duration;
use tidegate_control::{BitRate, ByteCount};
use tidegate_fetch::archive::{Format, Layout, Naming, Protocol, Source};
use tidegate_fetch::checksum::Algorithm;
use tidegate_fetch::sidecar::Shape;

use super::selection;
use super::values::well_formed;
use crate::address::Route;

/// What stands behind an option, and whether it can be read; its bounds are those of the command.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// Nothing: it is a switch.
    None,
    /// What others look at, or nobody before the command does.
    Text,
    Rate,
    Size,
    Time,
    Number,
    Whole,
    OneOf(&'static [&'static str]),
    Checked(fn(&str) -> Result<(), String>),
}

type Options = &'static [(&'static str, Value)];

const SWITCH: Value = Value::OneOf(&["on", "off"]);

/// Who decides: of every program of ours.
const CONTROL: Options = &[
    ("--optimizer", Value::Text),
    ("--aimd-epsilon", Value::Text),
    ("--share", Value::Text),
    ("--epoch", Value::Time),
    ("--seed", Value::Whole),
    ("--utility-k", Value::Number),
    ("--utility-b", Value::Number),
    ("--utility-loss", Value::OneOf(&["falcon", "ldm", "none"])),
];

const COPY: Options = &[
    ("--data-plane", Value::OneOf(&["tls", "clear"])),
    ("--verify", Value::Text),
    ("--limit-read", Value::Rate),
    ("--limit-network", Value::Rate),
    ("--limit-write", Value::Rate),
    ("--limit-link", Value::Rate),
    ("--staging", Value::Size),
    ("--chunk-size", Value::Size),
    ("--chunking", SWITCH),
    ("--pipelining", SWITCH),
    ("--links", Value::OneOf(&["keep", "skip", "follow"])),
    ("--checksum", Value::None),
    // What is copied. Options that name a file have their content in `filter` and `files` of the job.
    ("--exclude", Value::Checked(selection::pattern)),
    ("--include", Value::Checked(selection::pattern)),
    ("--filter", Value::Checked(selection::rule)),
    ("--min-size", Value::Checked(selection::size)),
    ("--max-size", Value::Checked(selection::size)),
    ("--newer-than", Value::Checked(selection::moment)),
    ("--older-than", Value::Checked(selection::moment)),
    ("--one-file-system", Value::None),
    ("--existing", Value::None),
    ("--ignore-existing", Value::None),
    ("--update", Value::None),
    // What is removed. A backup directory may lie anywhere on the service's host, and so is none of a job's.
    ("--delete", Value::None),
    ("--delete-excluded", Value::None),
    ("--max-delete", Value::Whole),
    ("--move", Value::None),
];

const GET: Options = &[
    ("--limit-network", Value::Rate),
    ("--limit-write", Value::Rate),
    ("--limit-rate", Value::Rate),
    ("--staging", Value::Size),
    ("--chunk-size", Value::Size),
    ("--chunking", SWITCH),
    ("--pipelining", SWITCH),
    ("--timeout", Value::Time),
    ("--checksum", Value::Checked(|names| names.split(',').try_for_each(chosen::<Algorithm>))),
    ("--no-verify", Value::None),
    ("--overwrite", Value::None),
];

/// What is wanted of accessions.
const ARCHIVE: Options = &[
    ("--format", Value::Checked(chosen::<Format>)),
    ("--allow-fallback", Value::None),
    ("--source", Value::Checked(chosen::<Source>)),
    ("--protocol", Value::Checked(chosen::<Protocol>)),
    ("--layout", Value::Checked(chosen::<Layout>)),
    ("--name", Value::Checked(chosen::<Naming>)),
    ("--fields", Value::Text),
    ("--samplesheet", Value::Checked(chosen::<Shape>)),
];

const PUT: Options = &[
    ("--limit-read", Value::Rate),
    ("--limit-network", Value::Rate),
    ("--limit-rate", Value::Rate),
    ("--staging", Value::Size),
    ("--part-size", Value::Size),
    ("--timeout", Value::Time),
    ("--links", Value::OneOf(&["skip", "follow"])),
    ("--checksum", Value::None),
];

/// The options of a program that is no other's: they are read by [`super::StreamRule`].
const GRIDFTP: Options = &[("--optimizer", Value::Text), ("--epoch", Value::Time), ("--seed", Value::Whole)];

/// The kinds of options of a job on that route, of accessions or not.
fn kinds(route: Route, is_archive: bool) -> impl Iterator<Item = &'static (&'static str, Value)> {
    let (common, own) = match route {
        Route::Copy => (CONTROL, COPY),
        Route::Get => (CONTROL, GET),
        Route::Put => (CONTROL, PUT),
        Route::GridFtp => (GRIDFTP, &[][..]),
    };
    common.iter().chain(own).chain(if is_archive { ARCHIVE } else { &[] })
}

/// The options that a job on that route may have, of accessions or not: their names, and whether a value follows.
pub fn job_options(route: Route, is_archive: bool) -> impl Iterator<Item = (&'static str, bool)> {
    kinds(route, is_archive).map(|(name, value)| (*name, !matches!(value, Value::None)))
}

/// Whether a job on that route may have these options, and their values can be read.
pub(super) fn check(options: &[String], route: Route, is_archive: bool) -> Result<(), String> {
    let mut words = options.iter();
    while let Some(word) = words.next() {
        well_formed("an option", word)?;
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let Some((_, kind)) = kinds(route, is_archive).find(|(known, _)| *known == name) else {
            let shown: String = name.chars().take(40).collect();
            let known: Vec<&str> = job_options(route, is_archive).map(|(name, _)| name).collect();
            let known = known.join(", ");
            return Err(format!("{shown:?} is no option of a job by {}; there are {known}", program(route)));
        };
        let value = match (kind, value) {
            (Value::None, Some(_)) => return Err(format!("{name} takes no value")),
            (Value::None, None) => continue,
            (_, Some(value)) => value,
            (_, None) => {
                let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
                well_formed(name, value)?;
                if value.starts_with('-') {
                    return Err(format!(
                        "{name} needs a value, and {value:?} looks like an option: write {name}=…"
                    ));
                }
                value
            }
        };
        kind.check(value).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
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

impl Value {
    fn check(self, text: &str) -> Result<(), String> {
        let shown = || text.chars().take(40).collect::<String>();
        match self {
            Self::None | Self::Text => Ok(()),
            Self::Rate => text.parse::<BitRate>().map(drop).map_err(|error| error.to_string()),
            Self::Size => text.parse::<ByteCount>().map(drop).map_err(|error| error.to_string()),
            Self::Time => parse_duration(text).map(drop).map_err(|error| error.to_string()),
            Self::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(()),
                _ => Err(format!("{:?} is no number", shown())),
            },
            Self::Whole => {
                text.parse::<u64>().map(drop).map_err(|_| format!("{:?} is no whole number", shown()))
            }
            Self::OneOf(known) if known.contains(&text) => Ok(()),
            Self::OneOf(known) => Err(format!("{:?} is none of {}", shown(), known.join(", "))),
            Self::Checked(check) => check(text),
        }
    }
}

/// Whether `text` is the name of a choice.
fn chosen<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<(), String> {
    text.parse::<T>().map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(route: Route, is_archive: bool, options: &[&str]) -> Result<(), String> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        check(&options, route, is_archive)
    }

    #[test]
    fn options_of_another_program_of_files_and_of_secrets_are_refused() {
        for (route, is_archive, options, wanted) in [
            (Route::Copy, false, &["--limit-rate=1Mbit/s"][..], "by `tidegate copy`; there are --optimizer"),
            (Route::Get, false, &["--data-plane", "clear"], "by `tidegate get`"),
            (Route::Get, false, &["--format=sra"], "no option"),
            (Route::Put, false, &["--no-verify"], "by `tidegate put`"),
            (Route::GridFtp, false, &["--staging=8MiB"], "by globus-url-copy"),
            (Route::Copy, true, &["-o"], "no option"),
            // Files of the service's host, and where it keeps things.
            (Route::Copy, false, &["--policy=/etc/passwd"], "no option"),
            (Route::Copy, false, &["--epochs", "/etc/passwd"], "no option"),
            (Route::Copy, false, &["--state=/x"], "no option"),
            (Route::Copy, false, &["--tls-key=/x"], "no option"),
            (Route::Get, true, &["--ca=/x"], "no option"),
            (Route::Get, true, &["--outdir=/x"], "no option"),
            (Route::Get, true, &["--input-format=urls"], "no option"),
            // Where requests go, what is told there, and how many connections.
            (Route::Get, true, &["--ena-url=http://169.254.169.254/"], "no option"),
            (Route::Get, true, &["--api-key=x"], "no option"),
            (Route::Get, true, &["--max-connections=512"], "no option"),
            (Route::Put, false, &["--header", "Authorization: x"], "no option"),
            (Route::Copy, false, &["--bounds=/x"], "no option"),
            // Commands, and whatever else is of ssh.
            (Route::Copy, false, &["--ssh=sh -c id"], "no option"),
            (Route::Copy, false, &["-e", "sh -c id"], "no option"),
            (Route::Get, false, &["--refresh-url-with=sh -c id"], "no option"),
            (Route::Get, true, &["--refresh-url-with", "sh -c id"], "no option"),
            (Route::Copy, false, &["-esh"], "no option"),
            (Route::Copy, false, &["--install-remote"], "no option"),
            (Route::Copy, false, &["--install-remote=/bin/sh"], "no option"),
            (Route::Copy, false, &["--remote-path=/bin/sh"], "no option"),
            (Route::Copy, false, &["--via=ssh"], "no option"),
            (Route::Copy, false, &["--advertise=h"], "no option"),
            (Route::Copy, false, &["--port-range=1-2"], "no option"),
            (Route::Copy, false, &["--backup-dir=/x"], "no option"),
            (Route::Copy, false, &["--max-delete=all"], "no whole number"),
            (Route::Get, false, &["--delete"], "by `tidegate get`"),
            // Files of rules and of names.
            (Route::Copy, false, &["--exclude-from=/etc/passwd"], "no option"),
            (Route::Copy, false, &["--include-from", "/etc/passwd"], "no option"),
            (Route::Copy, false, &["--files-from=/etc/passwd"], "no option"),
            (Route::Copy, false, &["-f. /etc/passwd"], "no option"),
            (Route::Copy, false, &["--filter=. /etc/passwd"], "where the service runs"),
            (Route::Copy, false, &["--filter", "merge,e /etc/passwd"], "where the service runs"),
            (Route::Get, false, &["--exclude=a"], "by `tidegate get`"),
            (Route::Put, false, &["--exclude=a"], "by `tidegate put`"),
            (Route::Copy, false, &["--"], "no option"),
            (Route::Copy, false, &["/etc/passwd"], "no option"),
            (Route::Copy, false, &["--checksum", "/etc/passwd"], "no option"),
            (Route::Copy, false, &["--epoch=1s\n--state=/x"], "control"),
        ] {
            let error = checked(route, is_archive, options).expect_err("refused");
            assert!(error.contains(wanted) && !error.contains('\n'), "{options:?}: {error}");
        }
    }

    #[test]
    fn values_that_cannot_be_read_are_refused() {
        for (route, options, wanted) in [
            (Route::Copy, &["--limit-read=fast"][..], "--limit-read: "),
            (Route::Copy, &["--staging=8 apples"], "--staging: "),
            (Route::Copy, &["--staging"], "needs a value"),
            (Route::Copy, &["--staging", "--json"], "looks like"),
            (Route::Copy, &["--checksum=md5"], "takes no value"),
            (Route::Copy, &["--links=hard"], "none of keep, skip, follow"),
            (Route::Put, &["--links=keep"], "none of skip, follow"),
            (Route::Copy, &["--epoch=soon"], "--epoch: "),
            (Route::Copy, &["--filter=nonsense"], "begins with none of"),
            (Route::Copy, &["--exclude="], "no pattern"),
            (Route::Copy, &["--max-size=much"], "--max-size: must be bytes"),
            (Route::Copy, &["--newer-than=yesterday"], "must be an age"),
            (Route::Copy, &["--update=yes"], "takes no value"),
            (Route::Copy, &["--seed=-1"], "no whole number"),
            (Route::Copy, &["--utility-k=NaN"], "no number"),
            (Route::Get, &["--checksum=md5,sum"], "\"sum\""),
            (Route::Get, &["--format=bam"], "fastq, sra"),
            (Route::Get, &["--samplesheet", "mine"], "rnaseq"),
        ] {
            let error = checked(route, true, options).expect_err("refused");
            assert!(error.contains(wanted) && !error.contains('\n'), "{options:?}: {error}");
        }
    }

    #[test]
    fn options_that_fit_are_taken_in_both_ways_of_writing() {
        for (route, options) in [
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
            assert_eq!(checked(route, route == Route::Get, options), Ok(()), "{options:?}");
        }
    }
}
