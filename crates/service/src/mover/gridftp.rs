//! A job by `globus-url-copy`: what is to be moved is listed, moved, and compared with what is there then.
//!
//! That it ends well is no proof. It leaves out a directory that the server shows as the same as another one, as a link
//! makes it, and says nothing of it; so directories are listed once more, one by one. What it cannot show to be there by
//! name, size and (where both servers tell checksums) content is not done.

mod adaptive;
mod listing;
mod said;
pub(crate) mod sizing;
mod slices;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::{FailedFile, Files, Status, Summary};
use tidegate_control::{BitRate, ByteCount, Epoch, Host, PerStage};
use tidegate_spec::address;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::estimate::FEW;
use crate::job::{Request, StreamRule};
use crate::sampler::{credential, gridftp};

use super::attempt::{Class, Ended, Outcome, Run};
use super::child::{Exit, Spawner};
use super::command::{Plan, Streams};
use super::programs::Programs;
use super::report::{cut, how, shown};

use adaptive::{Moved, Shares};
use listing::{Listed, path_of, subdirectories};
use said::{OutputReader, class, error};

/// Directories that are listed at the same time.
const AT_ONCE: usize = 8;
/// What a server says of a directory that is asked for as a file.
const IS_DIRECTORY: &str = "Is a directory";
/// The kind of what the program leaves out.
const LEFT_OUT: ErrorKind = ErrorKind::Denied;
/// Compares by size, and by checksum.
const BY_SIZE: &str = "1";
const BY_CHECKSUM: &str = "3";

/// One attempt.
struct Attempt<'a> {
    spawner: &'a Spawner,
    programs: &'a Programs,
    request: &'a Request,
    pairs: Vec<(String, String)>,
    /// Where it writes down what it would move.
    dump: PathBuf,
    /// The address of a directory that there is not.
    nowhere: String,
    stop: watch::Receiver<bool>,
    started: Instant,
    /// What it begins with, and has to its end where no rule decides.
    streams: u16,
    /// Who decides, if anybody does.
    rule: Option<StreamRule>,
    shares: Shares,
    /// What was moved under the rule so far.
    moved: Mutex<Moved>,
}

/// What was found out about an attempt so far.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Files and bytes at the source.
    all: (u64, u64),
    /// Those that were there before.
    before: (u64, u64),
}

/// Runs one attempt to its end.
pub async fn run(spawner: &Spawner, programs: &Programs, run: Run, dump: PathBuf) -> Ended {
    let Run { attempt, request, start, most, share, stop, epochs, .. } = run;
    let now = *share.borrow();
    let streams = Streams { start, share: now, most };
    let (pairs, rule) = match (pairs(&request), request.stream_rule()) {
        (Ok(pairs), Ok(rule)) => (pairs, rule),
        (Err(why), _) | (_, Err(why)) => return Ended::failed(Class::Usage, why),
    };
    let unsampled = rule.is_none() && start.is_none();
    let rule = rule.or_else(|| own_rule(&request, &pairs).filter(|_| unsampled));
    let start = start.or(rule.as_ref().filter(|_| unsampled).map(|_| FEW.min(now)));
    let nowhere = url::Url::from_file_path(dump.with_extension("nowhere")).map(String::from);
    let this = Attempt {
        spawner,
        programs,
        request: &request,
        pairs,
        nowhere: nowhere.unwrap_or_default(),
        stop,
        started: Instant::now(),
        streams: parallel(&request, rule.as_ref(), streams),
        rule: rule.filter(StreamRule::adapts),
        shares: Shares { start, most, now: share },
        moved: Mutex::default(),
        dump,
    };
    let ended = this.run(attempt, epochs).await;
    for file in [&this.dump, &this.list()] {
        let _ = tokio::fs::remove_file(file).await;
    }
    ended.unwrap_or_else(|ended| ended)
}

impl Attempt<'_> {
    async fn run(&self, attempt: u32, epochs: mpsc::Sender<Epoch>) -> Result<Ended, Ended> {
        let nowhere = self.pairs.iter().enumerate().map(|(i, (source, _))| {
            let slash = if source.ends_with('/') { "/" } else { "" };
            (source.clone(), format!("{}/{i}{slash}", self.nowhere))
        });
        let nowhere: Vec<_> = nowhere.collect();
        let listed = self.listed(&nowhere, BY_SIZE).await?;
        self.keep_list().await?;
        let mut known = Known { all: (listed.files, listed.bytes), before: (0, 0) };
        // What is there already is held against the source, and skipped if it is the same.
        let mut skips = false;
        if attempt > 1
            && let Some(left) = self.differing(known).await?
        {
            skips = true;
            self.keep_list().await?;
            known.before = (listed.files.saturating_sub(left.files), listed.bytes.saturating_sub(left.bytes));
        }
        let moving = match &self.rule {
            None => self.at_once(skips, known, epochs).await,
            Some(rule) => {
                self.slice_by_slice(rule, known, epochs).await?;
                // What no slice could hold: empty directories, and files that were there and longer than their parts.
                self.start(&self.moving(known, Some(BY_SIZE)), |_| {})
                    .await
                    .map(|exit| (exit, self.moved_bytes()))
            }
        };
        let (exit, moved) = moving?;
        if exit.code() != Ok(0) {
            return Err(self.broke(&exit, known, moved));
        }
        let left_out = self.left_out(&listed).await?;
        let (left, verified) = match self.differing(known).await? {
            Some(left) => (left, true),
            None => (self.listed(&self.pairs, BY_SIZE).await?, false),
        };
        let how = if verified { "size or content differs" } else { "its size differs" };
        let differs = |name: &String| FailedFile {
            path: name.clone(),
            kind: ErrorKind::Corrupt,
            message: format!("{name}: it is missing at the destination, or {how}"),
            errno: None,
        };
        // The directories of an address with a password were not looked into.
        let verified = verified && !self.pairs.iter().any(|(source, _)| has_password(source));
        let missing = left.files + left_out.len() as u64;
        let failures = left.names.iter().map(differs).chain(left_out).collect();
        Ok(self.compared(known, &left, missing, failures, verified))
    }

    /// Moves everything by one run of the program, and tells how it ended and what it moved.
    async fn at_once(
        &self,
        skips: bool,
        known: Known,
        epochs: mpsc::Sender<Epoch>,
    ) -> Result<(Exit, u64), Ended> {
        let mut listener = OutputReader::new(epochs, self.streams, (known.before.1, known.all.1));
        let plan = self.moving(known, skips.then_some(BY_CHECKSUM));
        let exit = self.start(&plan, |piece| listener.hear(piece)).await?;
        Ok((exit, listener.moved()))
    }

    /// How it ended after both sides were compared.
    fn compared(
        &self,
        known: Known,
        left: &Listed,
        missing: u64,
        failures: Vec<FailedFile>,
        verified: bool,
    ) -> Ended {
        let Some(first) = failures.first().filter(|_| missing > 0) else {
            let summary = self.summary(Status::Complete, known, known.all.1.saturating_sub(known.before.1));
            let ok = known.all.0.saturating_sub(known.before.0);
            let files = Files { ok, ..summary.files };
            let summary = Summary { files, verified, ..summary };
            return Ended { outcome: Outcome::Complete, message: String::new(), summary: Some(summary) };
        };
        let message = match missing {
            1 => first.message.clone(),
            _ => format!("{} (and {} more that did not arrive)", first.message, missing - 1),
        };
        let moved = known.all.1.saturating_sub(known.before.1).saturating_sub(left.bytes);
        // What it leaves out it will leave out again.
        let lasts = failures.iter().all(|failure| failure.kind == LEFT_OUT);
        let class = if lasts { Class::Denied } else { Class::Passing };
        let summary = self.summary(Status::Incomplete, known, moved);
        let ok = known.all.0.saturating_sub(known.before.0).saturating_sub(left.files);
        let summary = Summary {
            files: Files { ok, failed: missing, total: known.all.0 + missing - left.files, ..summary.files },
            failures: shown(failures, self.request),
            ..summary
        };
        Ended {
            outcome: Outcome::Failed(class),
            message: cut(&message, self.request),
            summary: Some(summary),
        }
    }

    /// How it ended where a program did not end well.
    fn broke(&self, exit: &Exit, known: Known, moved: u64) -> Ended {
        let (outcome, message) = broken(exit, self.request);
        let status = match outcome {
            Outcome::Stopped => Status::Interrupted,
            Outcome::Failed(Class::NoSpace) => Status::NoSpace,
            _ => Status::Failed,
        };
        let summary = self.summary(status, known, moved);
        let summary = Summary { error: Some(message.clone()), ..summary };
        Ended { outcome, message, summary: Some(summary) }
    }

    fn summary(&self, status: Status, known: Known, bytes: u64) -> Summary {
        let time = self.started.elapsed();
        let (optimizer, streams_mean) = self.decided();
        Summary {
            status,
            files: Files {
                total: known.all.0,
                ok: 0,
                failed: 0,
                skipped: known.before.0,
                refreshed: 0,
                deleted: 0,
            },
            bytes,
            duration_ms: time.as_millis() as u64,
            goodput_bps: BitRate::over(ByteCount(bytes), time).0,
            optimizer,
            concurrency_mean: PerStage { network: streams_mean, ..PerStage::all(0.0) },
            ..Summary::default()
        }
    }

    /// What would be moved between `pairs` where that which is the same by `level` is not.
    async fn listed(&self, pairs: &[(String, String)], level: &str) -> Result<Listed, Ended> {
        let exit = self.compare(pairs, level).await?;
        match exit.code() {
            Ok(0) => self.read().await,
            _ => Err(self.broke(&exit, Known::default(), 0)),
        }
    }

    /// What differs by checksum; `None` where a server tells none.
    async fn differing(&self, known: Known) -> Result<Option<Listed>, Ended> {
        let exit = self.compare(&self.pairs, BY_CHECKSUM).await?;
        let said = error(&exit.messages).to_lowercase();
        match exit.code() {
            Ok(0) => self.read().await.map(Some),
            Ok(_) if !exit.asked && (said.contains("command not") || said.contains("unknown command")) => {
                Ok(None)
            }
            _ => Err(self.broke(&exit, known, 0)),
        }
    }

    async fn compare(&self, pairs: &[(String, String)], level: &str) -> Result<Exit, Ended> {
        let mut plan = self.plan(["-r", "-sync", "-sync-level", level, "-do"]);
        // It reads a dump that is there, and lists nothing.
        let _ = tokio::fs::remove_file(&self.dump).await;
        plan.arguments.extend([self.dump.clone().into_os_string(), "-f".into(), "/dev/stdin".into()]);
        plan.input = lines(pairs);
        self.start(&plan, |_| {}).await
    }

    async fn read(&self) -> Result<Listed, Ended> {
        let dump = self.dump.clone();
        let read = tokio::task::spawn_blocking(move || match std::fs::File::open(dump) {
            Ok(file) => Listed::read(std::io::BufReader::new(file)),
            // Nothing to be moved.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Listed::default()),
            Err(error) => Err(error),
        });
        let read = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let program = self.programs.globus.display();
        read.map_err(|error| {
            Ended::failed(Class::Passing, format!("cannot read what {program} listed: {error}"))
        })
    }

    /// Directories at the source that were not looked into, and empty ones that are not at the destination.
    async fn left_out(&self, listed: &Listed) -> Result<Vec<FailedFile>, Ended> {
        let roots = self.pairs.iter().filter(|(source, _)| source.ends_with('/'));
        let sources = roots.clone().chain(&listed.directories).map(|(source, _)| source.clone());
        let known: HashSet<Vec<u8>> = listed.directories.iter().map(|(source, _)| path_of(source)).collect();
        let mut failures = Vec::new();
        self.look(sources.collect(), |directory, exit| {
            let Some(list) = exit.output.as_deref().filter(|_| exit.code() == Ok(0)) else {
                failures.push(FailedFile {
                    path: directory.clone(),
                    kind: ErrorKind::Io,
                    message: format!("{directory}: cannot be listed: {}", error(&exit.messages)),
                    errno: None,
                });
                return;
            };
            let path = path_of(&directory);
            for name in subdirectories(list) {
                if !known.contains(&[&path, &b"/"[..], name].concat()) {
                    let name = String::from_utf8_lossy(name);
                    let message = format!(
                        "{directory}{name}/: not copied, because the server shows it as the same directory as another \
                         one; copy it by a job of its own"
                    );
                    failures.push(FailedFile {
                        path: format!("{directory}{name}/"),
                        kind: LEFT_OUT,
                        message,
                        errno: None,
                    });
                }
            }
        })
        .await?;
        let places = self.places();
        let there = |nowhere: &str| places.there(nowhere).filter(|place| place != nowhere);
        let empty = listed.empty().filter_map(|(_, nowhere)| there(nowhere)).collect();
        self.look(empty, |directory, exit| {
            if exit.code() != Ok(0) {
                let message = format!("{directory}: the empty directory is not at the destination");
                failures.push(FailedFile {
                    path: directory,
                    kind: ErrorKind::NotFound,
                    message,
                    errno: None,
                });
            }
        })
        .await?;
        Ok(failures)
    }

    /// Lists each directory by itself, and shows what the program said to `see`. An address with a password is left
    /// out: it would stand on a command line.
    async fn look(&self, directories: Vec<String>, mut see: impl FnMut(String, Exit)) -> Result<(), Ended> {
        let mut waiting = directories.into_iter().filter(|address| !has_password(address));
        let mut running: JoinSet<(String, std::io::Result<Exit>)> = JoinSet::new();
        loop {
            while running.len() < AT_ONCE
                && let Some(directory) = waiting.next()
            {
                let mut plan = self.plan(["-list"]);
                plan.arguments.push(directory.clone().into());
                let (spawner, tidegate) = (self.spawner.clone(), self.programs.tidegate.clone());
                let stop = self.stop.clone();
                running.spawn(async move {
                    (directory, spawner.run(&tidegate, &plan, stop, |_| {}, |_| {}).await)
                });
            }
            let Some(ended) = running.join_next().await else { return Ok(()) };
            let (directory, exit) = ended.map_err(|error| self.cannot_run(&error))?;
            let exit = exit.map_err(|error| self.cannot_run(&error))?;
            if exit.asked {
                return Err(self.broke(&exit, Known::default(), 0));
            }
            see(directory, exit);
        }
    }

    /// What moves everything, or what is not there yet by that level of comparing.
    fn moving(&self, known: Known, level: Option<&str>) -> Plan {
        let mut plan = self.plan(["-vb", "-cd", "-r"]);
        self.carrying(&mut plan, self.streams, ByteCount(known.all.1 / known.all.0.max(1)));
        if let Some(level) = level {
            plan.arguments.extend(["-sync", "-sync-level", level].map(OsString::from));
        }
        plan.arguments.extend(["-f", "/dev/stdin"].map(OsString::from));
        plan.input = lines(&self.pairs);
        plan
    }

    /// Adds how files of so many bytes in the mean are carried.
    fn carrying(&self, plan: &mut Plan, streams: u16, bytes: ByteCount) {
        let mut arg = |argument: &str| plan.arguments.push(argument.into());
        ["-p", &streams.to_string(), "-stall-timeout", "60"].into_iter().for_each(&mut arg);
        // A server has blocks of its own.
        if streams > 1 && self.pairs.iter().any(|(source, _)| source.starts_with("file:")) {
            ["-bs", &gridftp::block(streams, bytes).0.to_string()].into_iter().for_each(&mut arg);
        }
        if let Some(buffer) = self.request.buffer_bytes.filter(|buffer| buffer.0 > 0) {
            ["-tcp-bs", &buffer.0.to_string()].into_iter().for_each(&mut arg);
        }
    }

    fn plan<const N: usize>(&self, arguments: [&str; N]) -> Plan {
        let proxy = self.request.x509proxy.clone().map(PathBuf::into_os_string);
        Plan {
            program: self.programs.globus.clone(),
            arguments: arguments.map(OsString::from).into(),
            environment: proxy.into_iter().map(|proxy| ("X509_USER_PROXY".to_owned(), proxy)).collect(),
            input: Vec::new(),
        }
    }

    async fn start(&self, plan: &Plan, hear: impl FnMut(&[u8]) + Send) -> Result<Exit, Ended> {
        let running = self.spawner.run(&self.programs.tidegate, plan, self.stop.clone(), hear, |_| {});
        running.await.map_err(|error| self.cannot_run(&error))
    }

    fn cannot_run(&self, error: &dyn std::fmt::Display) -> Ended {
        let program: &Path = &self.programs.tidegate;
        Ended::failed(Class::Passing, format!("cannot run {}: {error}", program.display()))
    }
}

/// How a program that did not end well ended, and what it said, fit to be shown.
pub(crate) fn broken(exit: &Exit, request: &Request) -> (Outcome, String) {
    let credential = credential::explained(&exit.messages);
    let said = credential.clone().unwrap_or_else(|| error(&exit.messages));
    let outcome = match exit.code() {
        _ if exit.asked => Outcome::Stopped,
        // No try makes one valid.
        _ if credential.is_some() => Outcome::Failed(Class::Denied),
        Ok(2) if said.contains("is not installed here") => Outcome::Failed(Class::Usage),
        _ if said.contains(IS_DIRECTORY) => Outcome::Failed(Class::Usage),
        _ => Outcome::Failed(class(&said)),
    };
    let message = match outcome {
        Outcome::Stopped => "stopped where it can go on".to_owned(),
        _ if said.is_empty() => how(exit),
        _ if said.contains(IS_DIRECTORY) => format!("{said}: write a directory with a slash at its end"),
        _ => said,
    };
    (outcome, cut(&message, request))
}

/// The rule of a job that names none and whose path was not sampled: what it adapts to need not be known before. Servers of
/// `gsiftp://` know parts of files, by which it is cut; behind `ftp://` there may be one that does not.
fn own_rule(request: &Request, pairs: &[(String, String)]) -> Option<StreamRule> {
    let knows_parts = |url: &String| url.starts_with("gsiftp:") || url.starts_with("file:");
    let all = pairs.iter().all(|(source, destination)| knows_parts(source) && knows_parts(destination));
    (request.optimization && all).then(StreamRule::auto)
}

/// How many streams it begins with; with a rule that never changes them, its number.
fn parallel(request: &Request, rule: Option<&StreamRule>, streams: Streams) -> u16 {
    let most = streams.share.max(1);
    if let Some(mut rule) = rule.filter(|rule| !rule.adapts()).and_then(|rule| rule.build().ok()) {
        return rule.start(adaptive::bounds(most), &Host::default()).setpoint.network.clamp(1, most);
    }
    let optimized = request.optimization || rule.is_some();
    let start = streams.start.unwrap_or(if optimized { FEW } else { 1 });
    if optimized { start.clamp(1, most) } else { 1 }
}

/// From where to where, as addresses.
fn pairs(request: &Request) -> Result<Vec<(String, String)>, String> {
    let url = |place: &str| {
        let url = match address::scheme(place) {
            Some(_) => place.to_owned(),
            None if place.ends_with('/') => url::Url::from_directory_path(place)
                .map(String::from)
                .map_err(|()| format!("{place:?} is no path from / on"))?,
            None => url::Url::from_file_path(place)
                .map(String::from)
                .map_err(|()| format!("{place:?} is no path from / on"))?,
        };
        match url.contains(['"', '\n', '\r']) {
            true => Err("globus-url-copy takes no address with a quote or a line end in it".to_owned()),
            false => Ok(url),
        }
    };
    request.sources.iter().map(|source| Ok((url(source)?, url(&request.destination)?))).collect()
}

fn lines(pairs: &[(String, String)]) -> Vec<u8> {
    pairs
        .iter()
        .map(|(source, destination)| format!("\"{source}\" \"{destination}\"\n"))
        .collect::<String>()
        .into_bytes()
}

/// Whether an address holds a password, which no command line may show.
fn has_password(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| url.password().is_some())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use tidegate_contract::text::one_line;

    use super::*;
    use crate::job::StreamSpec;

    #[test]
    fn errors_are_one_line_and_have_a_class() {
        let request = Request::transfer("gsiftp://h/a", "gsiftp://u:secret@g/b");
        for (said, class, wanted) in [
            (
                "\nerror: globus_ftp_client: the server responded with an error\n500 500-Command failed. : open error: No such file or directory\n500-x\n500 End.\n",
                Class::NotFound,
                "No such file",
            ),
            ("error: write: No space left on device\n", Class::NoSpace, "No space"),
            (
                "error: globus_xio: Unable to connect to h:2811\nglobus_xio: System error in connect: Connection refused\n",
                Class::Unreachable,
                "Connection refused",
            ),
            ("error: 530 Login incorrect. gsiftp://u:secret@g/b\n", Class::Denied, "Login"),
            ("", Class::Passing, "exit code 1"),
            (
                "error: it failed\nThe proxy credential: /p\n with subject: /CN=x\n expired 3 minutes ago.\n",
                Class::Denied,
                "the proxy /p expired 3 minutes ago: make a new one",
            ),
        ] {
            let exit = Exit {
                status: std::process::ExitStatus::from_raw(1 << 8),
                output: None,
                messages: said.to_owned(),
                asked: false,
            };
            let (outcome, message) = broken(&exit, &request);
            assert_eq!(outcome, Outcome::Failed(class), "{said}");
            assert!(message.contains(wanted) && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn what_it_says_is_shown_escaped() {
        let request = Request::transfer("https://u:\u{202e}secret@h/x\x1b[2J", "/b");
        let known = &request.sources[0];
        for messages in [format!("error: \x1b[2J\u{2066}: {known}"), format!("error: {}", one_line(known))] {
            let status = std::process::ExitStatus::from_raw(1 << 8);
            let (_, message) = broken(&Exit { status, output: None, messages, asked: false }, &request);
            assert!(!message.contains("secret") && message == one_line(&message), "{message}");
        }
    }

    #[test]
    fn addresses_are_made_of_paths_and_some_are_refused() {
        let request = Request { sources: vec!["gsiftp://g/a b".into()], ..Request::transfer("", "/d/x y") };
        assert_eq!(pairs(&request), Ok(vec![("gsiftp://g/a b".to_owned(), "file:///d/x%20y".to_owned())]));
        assert_eq!(lines(&pairs(&request).expect("pairs")), b"\"gsiftp://g/a b\" \"file:///d/x%20y\"\n");
        for source in ["gsiftp://g/\"", "gsiftp://g/\n", "a/b"] {
            assert!(pairs(&Request::transfer(source, "/d")).is_err(), "{source}");
        }
        assert!(has_password("ftp://u:p@h/x") && !has_password("gsiftp://u@h/x") && !has_password("/x"));
    }

    #[test]
    fn it_takes_its_streams_once() {
        let streams = Streams { start: Some(40), share: 8, most: 16 };
        let mut request = Request::transfer("gsiftp://g/a", "/d");
        assert_eq!(parallel(&request, None, streams), 8);
        assert_eq!(parallel(&request, None, Streams { start: None, ..streams }), 4);
        request.optimization = false;
        assert_eq!(parallel(&request, None, streams), 1);
        for (name, wanted) in [("fixed:3", 3), ("fixed:1,5,1", 5), ("fixed:99", 8), ("aimd", 8)] {
            let spec = StreamSpec { optimizer: Some(name.to_owned()), ..StreamSpec::default() };
            let rule = StreamRule::of(&spec).expect("a rule");
            assert_eq!(parallel(&request, rule.as_ref(), streams), wanted, "{name}");
        }
    }
}
