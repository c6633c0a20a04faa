//! What program a job is, and what it is told: all of it on its standard input, as a command line every user of a host can
//! read.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_spec::address;
use tidegate_spec::control::ControlLocal;
use tidegate_spec::get::GetSpec;
use tidegate_spec::run::{CopyRun, GetRun, NamedUrl, PutRun, Run, Setup};

use crate::job::{Request, Spec};

use super::programs::Programs;

/// Most streams of a job whose rule decides; more is asked for by nobody and borne by few.
pub(crate) const MAX_STREAMS: u16 = 512;

/// How long one attempt outlives an outage.
const ATTEMPT: Duration = Duration::from_secs(30);

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
pub(crate) struct Files {
    /// The epochs, one JSON line each.
    pub epochs: PathBuf,
    /// The most streams for now.
    pub bounds: PathBuf,
    /// What its learned rule decides by, if it has one.
    pub policy: Option<PathBuf>,
}

/// What the scheduler has decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
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
        ours(request, streams, files, programs)
    }
}

fn ours(request: &Request, streams: Streams, files: &Files, programs: &Programs) -> Result<Plan, String> {
    let run = told(request, streams, files, programs)?;
    let input = serde_json::to_vec(&run).map_err(|error| error.to_string())?;
    let arguments = ["run", "-"].map(OsString::from).into();
    Ok(Plan { program: programs.tidegate.clone(), arguments, input, ..Plan::default() })
}

/// What a program of ours is told.
fn told(request: &Request, streams: Streams, files: &Files, programs: &Programs) -> Result<Run, String> {
    let most = streams.most.clamp(1, MAX_STREAMS);
    let setup = Setup {
        json: true,
        quiet: true,
        epochs: Some(files.epochs.clone()),
        state: Some(programs.state.clone()),
        control: ControlLocal {
            policy: files.policy.clone(),
            save_policy: None,
            max_workers: most,
            start: streams.start.map(|start| start.clamp(1, most)),
            bounds: Some(files.bounds.clone()),
        },
        // Longer outages are outlived in the queue, where the job takes nobody's turn.
        retry_for: Some(Duration::from_secs(request.retry_for_s).min(ATTEMPT)),
        ca: programs.ca.clone(),
        pki: programs.pki.clone(),
    };
    let mut request = Cow::Borrowed(request);
    if !request.optimization && request.optimizer().is_none() {
        request.to_mut().options.set("optimizer", "fixed:1");
    }
    let local = |address: &String| OsString::from(address::local(address).into_owned());
    let sources = request.sources.iter().map(local).collect();
    let destination = local(&request.destination);
    Ok(match request.spec()? {
        Spec::Copy(spec) => Run::Copy(Box::new(CopyRun { sources, destination, spec: *spec, setup })),
        Spec::Put(spec) => Run::Put(Box::new(PutRun { sources, destination, spec: *spec, setup })),
        Spec::Get(spec) => Run::Get(Box::new(got(&request, *spec, setup))),
        Spec::GridFtp(_) => return Err("globus-url-copy moves it".to_owned()),
    })
}

/// A download: of what archives have, which is many files and what stands beside them, or of URLs.
fn got(request: &Request, spec: GetSpec, setup: Setup) -> GetRun {
    let destination = address::local(&request.destination);
    if request.is_archive() {
        let outdir = OsString::from(&*destination);
        return GetRun {
            names: request.sources.clone(),
            urls: Vec::new(),
            outdir,
            sidecars: true,
            spec,
            setup,
        };
    }
    let (directory, name) = target(&destination, request.sources.len() == 1);
    let url = |url: &String| NamedUrl { url: url.clone(), name: name.clone() };
    let urls = request.sources.iter().map(url).collect();
    GetRun { names: Vec::new(), urls, outdir: directory.into(), sidecars: false, spec, setup }
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
    use tidegate_spec::run::Pki;

    use super::*;

    fn programs() -> Programs {
        Programs::new("/bin/tidegate".into(), "/state".into())
    }

    fn plan_by(request: &Request, programs: &Programs) -> Plan {
        let files = Files { epochs: "/run/e".into(), bounds: "/run/b".into(), policy: None };
        let streams = Streams { start: Some(40), share: 8, most: 16 };
        Plan::of(request, streams, &files, programs).expect("a plan")
    }

    fn run(request: &Request) -> Run {
        let plan = plan_by(request, &programs());
        assert_eq!(plan.arguments, ["run", "-"], "nothing is on the command line");
        assert!(plan.environment.is_empty(), "{plan:?}");
        serde_json::from_slice(&plan.input).expect("a run")
    }

    fn copy(request: &Request) -> CopyRun {
        match run(request) {
            Run::Copy(run) => *run,
            _ => panic!("no copy"),
        }
    }

    fn get(request: &Request) -> GetRun {
        match run(request) {
            Run::Get(run) => *run,
            _ => panic!("no download"),
        }
    }

    #[test]
    fn a_run_is_told_what_the_job_says_and_what_was_decided() {
        let made = copy(&Request::transfer("tg://TICKET@h:1/a/b/", "/c"));
        assert_eq!((&made.sources[0], &made.destination), (&"tg://TICKET@h:1/a/b/".into(), &"/c".into()));
        let Setup { json, quiet, control, retry_for, .. } = made.setup;
        assert_eq!((json, quiet, control.start, control.max_workers), (true, true, Some(16), 16));
        assert_eq!(retry_for, Some(Duration::from_secs(30)));
        let request = Request { retry_for_s: 2, ..Request::transfer("https://u:p@h/x", "/d/name") };
        assert_eq!(get(&request).setup.retry_for, Some(Duration::from_secs(2)));
        let made = get(&Request { optimization: false, ..request });
        assert_eq!((&*made.spec.control.optimizer, made.sidecars), ("fixed:1", false));
        assert_eq!((&made.outdir, &*made.urls[0].url), (&"/d".into(), "https://u:p@h/x"));
        assert_eq!(made.urls[0].name.as_deref(), Some("name"));
        let mut request = Request::transfer("srr390728", "/d/name");
        request.options.set("format", "sra");
        let made = get(&request);
        assert_eq!(
            (&made.outdir, &made.names[..], made.sidecars),
            (&"/d/name".into(), &["srr390728".to_owned()][..], true)
        );
        assert!(made.urls.is_empty() && made.spec.archive.format.name() == "sra");
        let made = get(&Request::transfer("s3://b/x/", "/d/"));
        assert_eq!(
            (&made.outdir, &*made.urls[0].url, &made.urls[0].name),
            (&"/d/".into(), "s3://b/x/", &None)
        );
    }

    #[test]
    fn what_is_copied_is_said_in_the_jobs_own_words() {
        let mut request = Request::transfer("/s/", "/d/");
        let options = r#"{"filter": [{"exclude": "a"}, "+ b c", "- --x"], "files": ["-d", "e f"]}"#;
        request.options = serde_json::from_str(options).expect("options");
        let filters = copy(&request).spec.filters;
        assert_eq!((filters.rules.len(), filters.files), (3, Some(vec!["-d".to_owned(), "e f".to_owned()])));
        request.options = serde_json::from_str(r#"{"files": []}"#).expect("options");
        assert_eq!(copy(&request).spec.filters.files, Some(Vec::new()), "nothing is copied");
    }

    /// The list that `get` reads from a pipe may name no files of this machine, and a job cannot make it: its sources
    /// are of one kind, one a line. Files of this host are copied, as whoever submits jobs may have them copied.
    #[test]
    fn files_of_this_host_are_copied_and_never_got() {
        let made = copy(&Request::transfer("file:///data/a%20b", "/c/"));
        assert_eq!((&made.sources[0], &made.destination), (&"/data/a b".into(), &"/c/".into()));
        let Run::Put(made) = run(&Request::transfer("FILE:///data/x", "s3://b/x")) else {
            panic!("no upload")
        };
        assert_eq!((&made.sources[0], &made.destination), (&"/data/x".into(), &"s3://b/x".into()));
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
    fn a_run_is_told_whom_to_trust() {
        let pki = Pki { ca: "/ca.pem".into(), cert: "/c".into(), key: "/k".into() };
        let programs = Programs { pki: Some(pki.clone()), ca: Some("/ca.pem".into()), ..programs() };
        let plan = plan_by(&Request::transfer("/a", "tg://h:1/b"), &programs);
        let Ok(Run::Copy(run)) = serde_json::from_slice(&plan.input) else { panic!("no copy") };
        assert_eq!((run.setup.pki, run.setup.ca), (Some(pki), Some("/ca.pem".into())));
    }
}
