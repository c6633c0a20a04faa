//! Requests that one command answers together, so that many small files share its connections.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::{FailedFile, Summary};
use tidegate_contract::text::show;

use super::request::Request;
use super::trouble::Trouble;
use crate::remotes;

/// What a command is to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// From or to a host that runs Tidegate.
    Copy,
    /// From a server of others.
    Get,
    /// To one.
    Put,
}

/// Requests for one run of a command.
#[derive(Clone, Debug)]
pub struct Batch {
    command: Command,
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
        let command = match command(&request, upload) {
            Ok(command) => command,
            Err(trouble) => {
                refused.push((request, trouble));
                continue;
            }
        };
        let together = together(&request, command, upload);
        let is_of = |batch: &&mut Batch| {
            (batch.command, &batch.together) == (command, &together)
                && batch.parent_here(&request)
                && batch.requests.iter().all(|known| known.name != request.name)
        };
        match batches.iter_mut().find(is_of).filter(|_| together.is_some()) {
            Some(batch) => batch.requests.push(request),
            None => batches.push(Batch { command, upload, together, requests: vec![request] }),
        }
    }
    (batches, refused)
}

/// What moves `request`, if anything does.
fn command(request: &Request, upload: bool) -> Result<Command, Trouble> {
    let wrong = |why: String| Err(Trouble::new(ErrorKind::Usage, &why));
    if request.url.contains(|c: char| c.is_control()) {
        return wrong("the URL has control characters".to_owned());
    }
    let command = match (&*request.scheme(), upload) {
        ("tg" | "ssh", _) => Command::Copy,
        ("http" | "https" | "ftp" | "ftps" | "s3" | "gs", false) => Command::Get,
        ("http" | "https" | "s3", true) => Command::Put,
        (scheme @ ("ftp" | "ftps" | "gs"), true) => {
            return wrong(format!(
                "nothing is put to {scheme}://: outputs go to tg://, ssh://, s3:// and WebDAV (https://)"
            ));
        }
        (scheme, _) => return wrong(format!("'{scheme}' is none of the schemes {}", super::METHODS)),
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
        _ => Ok(command),
    }
}

/// Where a request and others like it go to, if it keeps its name.
fn together(request: &Request, command: Command, upload: bool) -> Option<OsString> {
    let path = request.path();
    let (parent, name) = request.parent_and_name()?;
    // `get` gives any name, by its list.
    let keeps_name = path.file_name() == Some(OsStr::new(name)) && !name.contains(['%', '?', '#']);
    match (command, upload) {
        (Command::Get, _) => path.parent().map(Into::into),
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
        self.command != Command::Copy
            || self.upload
            || self.requests.first().is_none_or(|first| parent(first) == parent(request))
    }

    /// The list of URLs for `get`.
    pub fn list(&self) -> Option<String> {
        let name = |request: &Request| Some(request.path().file_name()?.to_str()?.to_owned());
        let line = |request: &Request| Some(format!("{}\n out={}\n", request.url, name(request)?));
        let is_listed = self.command == Command::Get && self.together.is_some();
        is_listed.then(|| self.requests.iter().filter_map(line).collect())
    }

    /// The command line, where `list` holds the list; with more options.
    pub fn words<'a>(&self, list: &Path, more: impl Iterator<Item = &'a OsStr>) -> Vec<OsString> {
        let (name, options): (&str, &[&str]) = match self.command {
            Command::Copy => ("copy", &[]),
            Command::Get => ("get", &["--no-sidecars", "--overwrite"]),
            Command::Put => ("put", &[]),
        };
        let mut words: Vec<OsString> =
            [name, "--json", "--quiet"].iter().chain(options).map(Into::into).collect();
        words.extend(more.map(Into::into));
        let urls = || self.requests.iter().map(|request| place(&request.url));
        let paths = || self.requests.iter().map(|request| request.path().into_os_string());
        match (self.command, &self.together) {
            (Command::Get, Some(directory)) => {
                words.extend(["--input-format=urls".into(), "--outdir".into(), directory.clone()]);
                words.extend(["--".into(), list.into()]);
            }
            (Command::Get, None) => {
                words.push("--outdir".into());
                words.extend(paths());
                words.push("--".into());
                words.extend(urls());
            }
            (_, together) => {
                words.push("--".into());
                let contents =
                    |path: OsString| if Path::new(&path).is_dir() { with_slash(&path) } else { path };
                match self.upload {
                    true => words.extend(paths().map(contents)),
                    false => words.extend(urls()),
                }
                match (together, self.upload) {
                    (Some(together), _) => words.push(together.clone()),
                    (None, true) => words.extend(urls()),
                    (None, false) => {
                        words.extend(self.requests.iter().zip(paths()).map(|(request, path)| {
                            if request.is_directory() { with_slash(&path) } else { path }
                        }));
                    }
                }
            }
        }
        words
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

    fn words(batch: &Batch) -> String {
        let words = batch.words(Path::new("/l"), std::iter::empty());
        words.iter().map(|word| word.to_str().expect("text")).collect::<Vec<_>>().join(" ")
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
        let get = "get --json --quiet --no-sidecars --overwrite --input-format=urls --outdir /none/w -- /l";
        assert_eq!(
            all,
            [
                "copy --json --quiet -- tg://h/in/a tg://h/in/b /none/w/",
                get,
                "copy --json --quiet -- tg://h/in/b /none/w/c",
                "copy --json --quiet -- tg://h/d/ /none/w/d/",
            ]
        );
        assert_eq!(batches[1].list().as_deref(), Some("https://h/a?x=1\n out=x\nftp://h/b\n out=y\n"));
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
                format!("put --json --quiet -- {here}/a {here}/b s3://k/p/"),
                format!("put --json --quiet -- {here}/b s3://k/p/other"),
                format!("put --json --quiet -- {here}/c% s3://k/p/c%25"),
                format!("copy --json --quiet -- {here}/ tg://h/d"),
            ]
        );
        assert_eq!(refused.len(), 2);
    }

    #[test]
    fn failures_are_laid_to_the_requests_that_they_are_of() {
        let named =
            ["a", "tree", "x\x1b"].map(|name| request(&format!("tg://h/{name}"), &format!("/w/{name}")));
        let batch = Batch { command: Command::Copy, upload: false, together: None, requests: named.to_vec() };
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
