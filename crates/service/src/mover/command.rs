//! What program a job is, and what it is told. No secret is told on a command line, which every user of a host
//! can read: tickets go by the environment, and lists of addresses by standard input.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::address::{self, Route};
use crate::job::Request;

use super::programs::Programs;

/// Most streams of a job whose rule decides; more is asked for by nobody and borne by few.
pub(crate) const MAX_STREAMS: u16 = 512;

/// How long one attempt outlives an outage, in seconds.
const ATTEMPT_S: u64 = 30;

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The program.
    pub program: PathBuf,
    /// What it is told.
    pub arguments: Vec<OsString>,
    /// What it is told in secret.
    pub environment: Vec<(String, OsString)>,
    /// What it reads.
    pub input: Vec<u8>,
}

/// Files by which the child and the service talk while it runs.
#[derive(Clone, Debug)]
pub struct Files {
    /// The epochs, one JSON line each.
    pub epochs: PathBuf,
    /// The most streams for now.
    pub bounds: PathBuf,
    /// What its learned rule decides by, if it has one.
    pub policy: Option<PathBuf>,
}

/// What the scheduler has decided.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// To begin with.
    pub start: Option<u16>,
    /// For now.
    pub share: u16,
    /// At all.
    pub most: u16,
}

impl Plan {
    /// What runs `request` by a program of ours.
    pub fn of(
        request: &Request,
        streams: Streams,
        files: &Files,
        programs: &Programs,
    ) -> Result<Self, String> {
        let route = request.route()?;
        ours(request, route, streams, files, programs)
    }

    fn arg(&mut self, argument: impl Into<OsString>) -> &mut Self {
        self.arguments.push(argument.into());
        self
    }
}

fn ours(
    request: &Request,
    route: Route,
    streams: Streams,
    files: &Files,
    programs: &Programs,
) -> Result<Plan, String> {
    let mut plan = Plan { program: programs.tidegate.clone(), ..Plan::default() };
    let command = match route {
        Route::Get => "get",
        Route::Put => "put",
        Route::Copy | Route::GridFtp => "copy",
    };
    plan.arg(command).arg("--json").arg("--quiet");
    plan.arg("--epochs").arg(&files.epochs).arg("--bounds").arg(&files.bounds);
    plan.arg("--max-workers").arg(streams.most.clamp(1, MAX_STREAMS).to_string());
    plan.arg("--state").arg(&programs.state);
    if route != Route::Put {
        // Longer outages are outlived in the queue, where the job takes nobody's turn.
        plan.arg("--retry-for").arg(format!("{}s", request.retry_for_s.min(ATTEMPT_S)));
    }
    if let Some(start) = streams.start {
        plan.arg("--start").arg(start.clamp(1, streams.most.max(1)).to_string());
    }
    if !request.optimization && request.optimizer().is_none() {
        plan.arg("--optimizer").arg("fixed:1");
    }
    for option in &request.options {
        plan.arg(option);
    }
    if let Some(policy) = &files.policy {
        plan.arg("--policy").arg(policy);
    }
    let trust = match route {
        Route::Get | Route::Put => &programs.servers,
        Route::Copy | Route::GridFtp => &programs.endpoints,
    };
    plan.arguments.extend(trust.iter().cloned());
    match route {
        Route::Get => {
            let destination = address::local(&request.destination);
            if request.is_archive() {
                // Theirs are many files, and what stands beside them.
                plan.arg("--outdir").arg(&*destination).arg("--");
                plan.arguments.extend(request.sources.iter().map(Into::into));
                return Ok(plan);
            }
            let (directory, name) = target(&destination, request.sources.len() == 1);
            plan.arg("--no-sidecars")
                .arg("--input-format")
                .arg("urls")
                .arg("--outdir")
                .arg(directory)
                .arg("--")
                .arg("-");
            for source in &request.sources {
                plan.input.extend_from_slice(source.as_bytes());
                plan.input.push(b'\n');
                if let Some(name) = &name {
                    plan.input.extend_from_slice(format!("  out={name}\n").as_bytes());
                }
            }
        }
        Route::Put => {
            plan.arg("--");
            for source in &request.sources {
                plan.arg(address::local(source).into_owned());
            }
            plan.arg(&request.destination);
        }
        Route::Copy | Route::GridFtp => {
            for rule in &request.filter {
                plan.arg(format!("--filter={rule}"));
            }
            if let Some(names) = &request.files {
                // There may be more than a command line holds.
                plan.arg("--from0").arg("--files-from=-");
                plan.input = names.join("\0").into_bytes();
            }
            plan.arg("--");
            let places = request.sources.iter().chain([&request.destination]);
            for (i, place) in places.enumerate() {
                let argument = endpoint(place, i, &mut plan.environment);
                plan.arg(argument);
            }
        }
    }
    Ok(plan)
}

/// A path, or an endpoint by a name that only the environment explains.
fn endpoint(place: &str, number: usize, environment: &mut Vec<(String, OsString)>) -> String {
    if address::scheme(place).as_deref() != Some("tg") {
        return address::local(place).into_owned();
    }
    let rest = &place["tg://".len()..];
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    environment.push((format!("TIDEGATE_REMOTE_JOB_{number}"), format!("tg://{authority}/").into()));
    format!("job-{number}:/{path}")
}

/// The directory that files are got into, and the name of a single one if it is given.
fn target(destination: &str, single: bool) -> (PathBuf, Option<String>) {
    let path = Path::new(destination);
    if single
        && !destination.ends_with('/')
        && !path.is_dir()
        && let (Some(directory), Some(name)) =
            (path.parent(), path.file_name().and_then(|name| name.to_str()))
    {
        return (directory.to_path_buf(), Some(name.to_owned()));
    }
    (path.to_path_buf(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(request: &Request) -> Plan {
        let programs = Programs::new("/bin/tidegate".into(), "/state".into());
        let files = Files { epochs: "/run/e".into(), bounds: "/run/b".into(), policy: None };
        let streams = Streams { start: Some(40), share: 8, most: 16 };
        Plan::of(request, streams, &files, &programs).expect("a plan")
    }

    fn words(plan: &Plan) -> String {
        plan.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tickets_are_not_on_the_command_line() {
        let request = Request::transfer("tg://TICKET@h:1/a/b/", "/c");
        let made = plan(&request);
        assert!(words(&made).ends_with("-- job-0:/a/b/ /c"), "{}", words(&made));
        assert!(
            words(&made).contains("--start 16 ") && words(&made).contains("--retry-for 30s "),
            "{made:?}"
        );
        assert_eq!(made.environment, [("TIDEGATE_REMOTE_JOB_0".to_owned(), "tg://TICKET@h:1/".into())]);
        let request = Request { retry_for_s: 2, ..Request::transfer("https://u:p@h/x", "/d/name") };
        assert!(words(&plan(&request)).contains("--retry-for 2s "), "{request:?}");
        let request = Request { optimization: false, ..request };
        let made = plan(&request);
        assert!(
            words(&made).ends_with("--optimizer fixed:1 --no-sidecars --input-format urls --outdir /d -- -")
        );
        assert_eq!(String::from_utf8_lossy(&made.input), "https://u:p@h/x\n  out=name\n");
        let mut request = Request::transfer("srr390728", "/d/name");
        request.options = vec!["--format=sra".to_owned()];
        let made = plan(&request);
        assert!(words(&made).starts_with("get --json "), "{made:?}");
        assert!(words(&made).ends_with("--format=sra --outdir /d/name -- srr390728"), "{made:?}");
        assert!(made.input.is_empty());
        let made = plan(&Request::transfer("s3://b/x/", "/d/"));
        assert_eq!((words(&made).contains("--outdir /d/ "), &made.input[..]), (true, &b"s3://b/x/\n"[..]));
    }

    #[test]
    fn what_is_copied_is_said_in_the_jobs_own_words_and_names_go_by_standard_input() {
        let words_of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let made = plan(&Request {
            options: words_of(&["--exclude=a"]),
            filter: words_of(&["+ b c", "- --x"]),
            files: Some(words_of(&["-d", "e f"])),
            ..Request::transfer("/s/", "/d/")
        });
        let rest = "--exclude=a --filter=+ b c --filter=- --x --from0 --files-from=- -- /s/ /d/";
        assert!(words(&made).ends_with(rest), "{made:?}");
        assert_eq!(made.input, b"-d\0e f");
        let nothing = plan(&Request { files: Some(Vec::new()), ..Request::transfer("/s/", "/d/") });
        assert!(words(&nothing).contains("--files-from=-") && nothing.input.is_empty(), "{nothing:?}");
    }

    /// The list that `get` reads from a pipe may name no files of this machine, and a job cannot make it: its sources
    /// are of one kind, one a line. Files of this host are copied, as whoever submits jobs may have them copied.
    #[test]
    fn files_of_this_host_are_copied_and_never_got() {
        let made = plan(&Request::transfer("file:///data/a%20b", "/c/"));
        assert!(words(&made).starts_with("copy ") && words(&made).ends_with("-- /data/a b /c/"), "{made:?}");
        assert!(made.input.is_empty());
        let made = plan(&Request::transfer("FILE:///data/x", "s3://b/x"));
        assert!(
            words(&made).starts_with("put ") && words(&made).ends_with("-- /data/x s3://b/x"),
            "{made:?}"
        );
        let of = |sources: &[&str]| {
            let sources = sources.iter().map(|source| (*source).to_owned()).collect();
            Request { sources, ..Request::transfer("", "/c/") }.check()
        };
        assert_eq!(of(&["file:///a", "file:///b"]), Ok(()));
        for sources in [
            &["https://h/x", "file:///etc/passwd"][..],
            &["file:///etc/passwd", "https://h/x"],
            &["https://h/x\nfile:///etc/passwd"],
            &["https://h/x\tfile:///etc/passwd"],
            &["https://h/x\r  out=../y"],
        ] {
            assert!(of(sources).is_err(), "{sources:?}");
        }
    }

    #[test]
    fn each_program_is_told_whom_to_trust_in_its_own_words() {
        let mut programs = Programs::new("/bin/tidegate".into(), "/state".into());
        programs.endpoints =
            ["--tls-ca", "/ca.pem", "--tls-cert", "/c", "--tls-key", "/k"].map(OsString::from).into();
        programs.servers = ["--ca", "/ca.pem"].map(OsString::from).into();
        let files = Files { epochs: "/run/e".into(), bounds: "/run/b".into(), policy: None };
        let streams = Streams { start: None, share: 8, most: 16 };
        for (from, to, trust) in [
            ("/a", "tg://h:1/b", "--tls-ca /ca.pem --tls-cert /c --tls-key /k --"),
            ("https://h/a", "/b", "--ca /ca.pem --no-sidecars"),
            ("/a", "https://h/b", "--ca /ca.pem --"),
        ] {
            let plan = Plan::of(&Request::transfer(from, to), streams, &files, &programs).expect("a plan");
            assert!(words(&plan).contains(trust), "{}", words(&plan));
        }
    }
}
