//! Requests that one command answers together, so that many small files share its connections.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::{FailedFile, Summary};
use tidegate_contract::text::show;
use tidegate_run::remotes;
use tidegate_spec::address::{End, Route};
use tidegate_spec::copy::CopySpec;
use tidegate_spec::get::GetSpec;
use tidegate_spec::put::PutSpec;
use tidegate_spec::run::{CopyRun, GetRun, NamedUrl, PutRun, Run, Setup};

use super::request::Request;
use super::trouble::Trouble;

/// Requests for one run of a command.
#[derive(Clone, Debug)]
pub struct Batch {
    route: Route,
    upload: bool,
    /// Where all of them go to by their own names; `None` for one that gets another name.
    together: Option<OsString>,
    /// What is moved.
    pub requests: Vec<Request>,
}

/// Makes batches of requests, and says of the rest why not.
pub fn plan(requests: Vec<Request>, upload: bool) -> (Vec<Batch>, Vec<(Request, Trouble)>) {
    let (mut batches, mut refused) = (Vec::<Batch>::new(), Vec::new());
    for request in requests {
        let route = match route(&request, upload) {
            Ok(route) => route,
            Err(trouble) => {
                refused.push((request, trouble));
                continue;
            }
        };
        let together = together(&request, route, upload);
        let is_of = |batch: &&mut Batch| {
            (batch.route, &batch.together) == (route, &together)
                && batch.parent_here(&request)
                && batch.requests.iter().all(|known| known.name != request.name)
        };
        match batches.iter_mut().find(is_of).filter(|_| together.is_some()) {
            Some(batch) => batch.requests.push(request),
            None => batches.push(Batch { route, upload, together, requests: vec![request] }),
        }
    }
    (batches, refused)
}

/// What moves `request`, if anything does.
fn route(request: &Request, upload: bool) -> Result<Route, Trouble> {
    let wrong = |why: String| Err(Trouble::new(ErrorKind::Usage, &why));
    if request.url.contains(|c: char| c.is_control()) {
        return wrong("the URL has control characters".to_owned());
    }
    let scheme = request.scheme();
    let there = End::of_scheme(&scheme).filter(|end| super::is_taken(*end));
    let Some(there) = there else {
        let known = super::methods();
        return wrong(format!("'{scheme}' is none of the schemes {known}"));
    };
    let route = if upload { Route::of(End::Local, there) } else { Route::of(there, End::Local) };
    let Some(route) = route.filter(|route| *route != Route::GridFtp) else {
        return wrong(format!(
            "nothing is put to {scheme}://: outputs go to tg://, ssh://, s3:// and WebDAV (https://)"
        ));
    };
    let path = request.path();
    match std::fs::metadata(&path) {
        Err(error) if upload => {
            let why = format!("cannot read {}: {error}", path.display());
            Err(Trouble::new(ErrorKind::NotFound, &why).here())
        }
        Ok(found) if found.is_dir() && !upload && !request.is_directory() => {
            wrong(format!("{} is a directory: end the URL with a slash to get one", path.display()))
        }
        _ => Ok(route),
    }
}

/// Where a request and others like it go to, if it keeps its name.
fn together(request: &Request, route: Route, upload: bool) -> Option<OsString> {
    let path = request.path();
    let (parent, name) = request.parent_and_name()?;
    // `get` gives any name, by its list.
    let keeps_name = path.file_name() == Some(OsStr::new(name)) && !name.contains(['%', '?', '#']);
    match (route, upload) {
        (Route::Get, _) => path.parent().map(Into::into),
        (_, false) if keeps_name => path.parent().map(|parent| with_slash(parent.as_os_str())),
        (_, true) if keeps_name && !path.is_dir() => Some(place(parent)),
        _ => None,
    }
}

/// A place as `copy` takes it: the host of a URL without a ticket may be the name of an endpoint that is remembered.
fn place(url: &str) -> OsString {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    // Theirs are the same in either case; ours and those of ssh are written in lower case.
    let lower = scheme.to_ascii_lowercase();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    match lower == "tg" && remotes::is_name(host) && remotes::find(host).is_ok() {
        true => format!("{host}:/{path}").into(),
        false => format!("{lower}://{rest}").into(),
    }
}

fn with_slash(path: &OsStr) -> OsString {
    let mut path = path.to_owned();
    if !path.as_encoded_bytes().ends_with(b"/") {
        path.push("/");
    }
    path
}

impl Batch {
    /// The same for one of its requests.
    pub fn alone(&self, request: &Request) -> Self {
        Self { requests: vec![request.clone()], ..self.clone() }
    }

    /// Whether sources of `copy` are at one place, which is all that it takes.
    fn parent_here(&self, request: &Request) -> bool {
        let parent = |request: &Request| request.parent_and_name().map(|(parent, _)| parent.to_owned());
        self.route != Route::Copy
            || self.upload
            || self.requests.first().is_none_or(|first| parent(first) == parent(request))
    }

    /// What moves it, with state in that directory if it is not in the usual one.
    pub fn run(&self, state: Option<&Path>) -> Run {
        let setup =
            Setup { json: true, quiet: true, state: state.map(Path::to_path_buf), ..Setup::default() };
        let urls = || self.requests.iter().map(|request| place(&request.url));
        let paths = || self.requests.iter().map(|request| request.path().into_os_string());
        if self.route == Route::Get {
            return Run::Get(Box::new(self.download(setup)));
        }
        let contents = |path: OsString| if Path::new(&path).is_dir() { with_slash(&path) } else { path };
        let sources = if self.upload { paths().map(contents).collect() } else { urls().collect() };
        let alone = || {
            let request = self.requests.first()?;
            let path = request.path().into_os_string();
            Some(match (self.upload, request.is_directory()) {
                (true, _) => place(&request.url),
                (false, true) => with_slash(&path),
                (false, false) => path,
            })
        };
        let destination = self.together.clone().or_else(alone).unwrap_or_default();
        match self.route {
            Route::Put => {
                Run::Put(Box::new(PutRun { sources, destination, spec: PutSpec::default(), setup }))
            }
            _ => Run::Copy(Box::new(CopyRun { sources, destination, spec: CopySpec::default(), setup })),
        }
    }

    /// Files by their new names into one directory, or all that lies beneath a URL.
    fn download(&self, setup: Setup) -> GetRun {
        let spec = GetSpec { overwrite: true, ..GetSpec::default() };
        let named = |request: &Request| {
            let name = Some(request.path().file_name()?.to_str()?.to_owned());
            Some(NamedUrl { url: request.url.clone(), name })
        };
        let outdir = |request: &Request| request.path().into_os_string();
        match &self.together {
            Some(directory) => GetRun {
                names: Vec::new(),
                urls: self.requests.iter().filter_map(named).collect(),
                outdir: directory.clone(),
                sidecars: false,
                spec,
                setup,
            },
            None => GetRun {
                names: self.requests.iter().map(|request| request.url.clone()).collect(),
                urls: Vec::new(),
                outdir: self.requests.first().map(outdir).unwrap_or_default(),
                sidecars: false,
                spec,
                setup,
            },
        }
    }

    /// Why a request's file did not arrive, as a run tells that some did not.
    pub fn failure<'a>(&self, summary: &'a Summary, request: &Request) -> Option<&'a FailedFile> {
        let alone = self.requests.len() == 1;
        summary.failures.iter().find(|failed| alone || is_of(failed, request))
    }

    /// Whether all that a run tells of failures is told of requests, so that the others have arrived.
    pub fn is_explained(&self, summary: &Summary) -> bool {
        let is_known = |failed: &FailedFile| self.requests.iter().any(|request| is_of(failed, request));
        summary.files.failed <= summary.failures.len() as u64 && summary.failures.iter().all(is_known)
    }

    /// How many bytes a request came to, after a run that told of no failure.
    pub fn arrived(&self, request: &Request, summary: &Summary) -> Result<Moved, Trouble> {
        let path = request.path();
        let found = std::fs::metadata(&path);
        let bytes = match found {
            Ok(found)
                if found.is_dir() && !self.upload && self.together.is_none() && !request.is_directory() =>
            {
                let why = "it is a directory there: end the URL with a slash to get what it holds";
                return Err(Trouble::new(ErrorKind::Usage, why));
            }
            Ok(found) if found.is_dir() => summary.bytes,
            Ok(found) => found.len(),
            Err(error) => {
                let why = format!("{} is not there: {error}", path.display());
                return Err(Trouble::new(ErrorKind::Io, &why));
            }
        };
        let alone = self.requests.len() == 1;
        Ok(Moved { bytes, carried: if alone { summary.bytes + summary.resent_bytes } else { bytes } })
    }
}

/// Whether it is the file of a request that failed, or lies within it.
fn is_of(failed: &FailedFile, request: &Request) -> bool {
    let path = request.path();
    let name = show(path.file_name().unwrap_or_default().as_encoded_bytes()).into_owned();
    failed.path == name || failed.path.strip_prefix(&name).is_some_and(|rest| rest.starts_with('/'))
}

/// What a request came to, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Of the file.
    pub bytes: u64,
    /// Over the network, as far as that is known of the file alone: less where a part was there.
    pub carried: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str, name: &str) -> Request {
        Request { url: url.to_owned(), name: name.to_owned() }
    }

    /// What moves it, in words: of a download each URL with its name.
    fn words(batch: &Batch) -> String {
        let text = |word: &OsString| word.to_str().expect("text").to_owned();
        let words = |name: &str, sources: &[OsString], to: &OsString| {
            let sources: Vec<String> = sources.iter().map(text).collect();
            format!("{name} {} → {}", sources.join(" "), text(to))
        };
        match batch.run(None) {
            Run::Copy(run) => words("copy", &run.sources, &run.destination),
            Run::Put(run) => words("put", &run.sources, &run.destination),
            Run::Get(run) => {
                assert!(run.spec.overwrite && !run.sidecars && run.setup.json && run.setup.quiet);
                let named = run
                    .urls
                    .iter()
                    .map(|url| format!("{} as {}", url.url, url.name.as_deref().unwrap_or("it is")));
                let all: Vec<OsString> = run.names.iter().cloned().chain(named).map(OsString::from).collect();
                words("get", &all, &run.outdir)
            }
            _ => panic!("nothing is measured"),
        }
    }

    #[test]
    fn files_that_keep_their_names_go_together() {
        let requests = vec![
            request("tg://h/in/a", "/none/w/a"),
            request("https://h/a?x=1", "/none/w/x"),
            request("tg://h/in/b", "/none/w/b"),
            request("tg://h/in/b", "/none/w/c"),
            request("ftp://h/b", "/none/w/y"),
            request("tg://h/d/", "/none/w/d"),
            request("gopher://h/b", "/none/w/z"),
        ];
        let (batches, refused) = plan(requests, false);
        let all: Vec<String> = batches.iter().map(words).collect();
        assert_eq!(
            all,
            [
                "copy tg://h/in/a tg://h/in/b → /none/w/",
                "get https://h/a?x=1 as x ftp://h/b as y → /none/w",
                "copy tg://h/in/b → /none/w/c",
                "copy tg://h/d/ → /none/w/d/",
            ]
        );
        assert_eq!((refused.len(), &*refused[0].0.url), (1, "gopher://h/b"));
    }

    #[test]
    fn files_are_put_beside_each_other_or_by_the_names_they_get() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path().to_str().expect("text");
        for name in ["a", "b", "c%"] {
            std::fs::write(directory.path().join(name), "x").expect("written");
        }
        let requests = vec![
            request("s3://k/p/a", &format!("{here}/a")),
            request("s3://k/p/b", &format!("{here}/b")),
            request("s3://k/p/other", &format!("{here}/b")),
            request("s3://k/p/c%25", &format!("{here}/c%")),
            request("TG://h/d", here),
            request("gs://k/p/a", &format!("{here}/a")),
            request("s3://k/p/gone", &format!("{here}/gone")),
        ];
        let (batches, refused) = plan(requests, true);
        let all: Vec<String> = batches.iter().map(words).collect();
        assert_eq!(
            all,
            [
                format!("put {here}/a {here}/b → s3://k/p/"),
                format!("put {here}/b → s3://k/p/other"),
                format!("put {here}/c% → s3://k/p/c%25"),
                format!("copy {here}/ → tg://h/d"),
            ]
        );
        assert_eq!(refused.len(), 2);
    }

    #[test]
    fn failures_are_laid_to_the_requests_that_they_are_of() {
        let named =
            ["a", "tree", "x\x1b"].map(|name| request(&format!("tg://h/{name}"), &format!("/w/{name}")));
        let batch = Batch { route: Route::Copy, upload: false, together: None, requests: named.to_vec() };
        let failed = |paths: &[&str], failed: u64| {
            let failure = |path: &&str| FailedFile {
                path: (*path).to_owned(),
                kind: ErrorKind::Denied,
                message: "no".to_owned(),
                errno: None,
            };
            let mut summary = Summary { failures: paths.iter().map(failure).collect(), ..Summary::default() };
            summary.files.failed = failed;
            summary
        };
        let of =
            |summary: &Summary| named.each_ref().map(|request| batch.failure(summary, request).is_some());
        let some = failed(&["tree/deep/y", "x\\x1b"], 2);
        assert_eq!((of(&some), batch.is_explained(&some)), ([false, true, true], true));
        // What is told of nobody, or not told at all, may be of anybody.
        for unclear in [failed(&["a", "treetop"], 2), failed(&["a"], 2)] {
            assert_eq!((of(&unclear), batch.is_explained(&unclear)), ([true, false, false], false));
        }
    }
}
