//! Copies between this process and an endpoint of its own: whole, interrupted and resumed, damaged, and by strangers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use tidegate_control::ByteCount;
use tidegate_run::drive::{Ended, Work};
use tidegate_run::loopback::Loopback;
use tidegate_run::route::RouteArgs;
use tidegate_transfer::error::ErrorKind;
use tidegate_transfer::terms::{Compare, Purpose};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::route::{From, To};
use tidegate_transfer::wire::ticket::Address;

use super::Found;
use crate::caller::Caller;
use crate::output::OutputArgs;
use crate::scratch::make_files;

/// Slow enough that a copy can be interrupted half way on a machine that is busy.
const SLOWLY: [&str; 4] = ["--limit-link", "128Mbit/s", "--epoch", "100ms"];

/// A file to damage in the copy.
const LARGE: &str = "large/0.bin";

/// The options of a copy, as they are typed.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    route: RouteArgs,
}

/// Files, and an endpoint that takes them.
pub struct Copying<'a> {
    home: PathBuf,
    size: ByteCount,
    loopback: Loopback,
    interrupt: &'a Interrupt,
}

impl<'a> Copying<'a> {
    /// Makes `size` bytes of files beneath `scratch`, and starts an endpoint.
    pub fn begin(scratch: &Path, size: ByteCount, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let home = scratch.to_path_buf();
        make_files(&home.join("source"), size, 1, interrupt)?;
        let root = home.join("arrived");
        fs::create_dir(&root).context("cannot make a directory")?;
        let loopback = Loopback::start(&root, &home)?;
        Ok(Self { home, size, loopback, interrupt })
    }

    /// Copies everything, and compares every byte without what the copy itself has computed.
    pub fn copy(&self) -> anyhow::Result<Found> {
        complete(&self.run("whole", &[], Purpose::Copy, |_| false)?)?;
        let files = self.compare("whole")?;
        Ok(Found::Works(format!("{} in {files} files over TLS, every byte compared", self.size)))
    }

    /// Interrupts a copy half way, and has the same command finish it.
    pub fn resume(&self) -> anyhow::Result<Found> {
        let half = ByteCount(self.size.0 / 2);
        let first = self.run("resumed", &SLOWLY, Purpose::Copy, |arrived| arrived >= half)?;
        match &first.error {
            Some(error) if error.kind == ErrorKind::Interrupted => {}
            Some(error) => return Err(error.clone().into()),
            None => bail!("{} at {} arrived before they could be interrupted half way", self.size, SLOWLY[1]),
        }
        let second = self.run("resumed", &[], Purpose::Copy, |_| false)?;
        complete(&second)?;
        self.compare("resumed")?;
        ensure!(second.moved < self.size, "a copy that was interrupted at {half} began anew");
        let (all, left) = (self.size, second.moved);
        Ok(Found::Works(format!("interrupted half way, the same copy had {left} of {all} left to move")))
    }

    /// Changes one byte of what arrived, and looks whether it is found.
    pub fn find_changed_byte(&self) -> anyhow::Result<Found> {
        let damaged = self.home.join("arrived/whole").join(LARGE);
        let file = File::options().read(true).write(true).open(&damaged).context("cannot open a file")?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1000).context("cannot read a file")?;
        file.write_all_at(&[!byte[0]], 1000).context("cannot write to a file")?;
        drop(file);
        let ended = self.run("whole", &[], Purpose::Compare, |_| false)?;
        if let Some(error) = ended.error {
            return Err(error.into());
        }
        let found: Vec<_> = ended.summary.failures.iter().map(|failure| failure.path.as_str()).collect();
        ensure!(
            ended.summary.files.failed == 1 && found[0].ends_with(LARGE),
            "one byte of {LARGE} was changed, and files that differ are: {found:?}"
        );
        Ok(Found::Works("one changed byte was found".to_owned()))
    }

    /// Comes with a certificate's fingerprint and with a secret that are not the endpoint's.
    pub fn refuse_strangers(&self) -> anyhow::Result<Found> {
        let address = self.loopback.address()?;
        let mut another_host = address.clone();
        let mut another_key = address;
        match (&mut another_host.ticket, &mut another_key.ticket) {
            (Some(host), Some(key)) => {
                host.fingerprint[0] ^= 1;
                key.key[0] ^= 1;
            }
            _ => bail!("an endpoint gave no ticket"),
        }
        for (address, what) in
            [(another_host, "an endpoint with another certificate"), (another_key, "a secret that is none")]
        {
            match self.run_at(address, "strange", &["--retry-for", "0s"], Purpose::Copy, |_| false) {
                Ok(Ended { error: None, .. }) => bail!("{what} was trusted"),
                Ok(Ended { error: Some(error), .. }) if error.kind != ErrorKind::Authentication => {
                    return Err(error.into());
                }
                Err(error) if !is_refusal(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(Found::Works("another certificate and a wrong ticket are refused".to_owned()))
    }

    fn run(
        &self,
        to: &str,
        options: &[&str],
        purpose: Purpose,
        stops_at: impl Fn(ByteCount) -> bool,
    ) -> anyhow::Result<Ended> {
        self.run_at(self.loopback.address()?, to, options, purpose, stops_at)
    }

    /// Copies to the directory `to` of the endpoint at `address`, until what has arrived `stops_at`.
    fn run_at(
        &self,
        address: Address,
        to: &str,
        options: &[&str],
        purpose: Purpose,
        stops_at: impl Fn(ByteCount) -> bool,
    ) -> anyhow::Result<Ended> {
        let state = self.home.join("state");
        let state =
            state.to_str().context("the directory's path is no text; choose another with --directory")?;
        let words = ["self-test", "--state", state].into_iter().chain(options.iter().copied());
        let route = Line::try_parse_from(words)?.route;
        let mut terms = route.terms();
        terms.purpose = purpose;
        if purpose == Purpose::Compare {
            terms.compare = Compare::Checksum;
        }
        let stop = Interrupt::default();
        let setup = route.setup(terms, route.pace()?, stop.clone())?;
        let source = [self.home.join("source").as_os_str().as_bytes(), b"/"].concat();
        let to = To::Endpoint(address.with_path(to.as_bytes()));
        let work = Work::transfer(From::Local(vec![source]), to, setup, route.patience.retry_for);
        let output = OutputArgs::<true, false> { json: false, quiet: true, epochs: None };
        let (title, state) = ("self-test".to_owned(), route.trust.state_dir()?);
        let job = output.job(work, &route.control, title, state, &Caller::Terminal);
        let ended = job.run_and_show(|epoch| {
            let arrived = epoch.arrived.as_ref().map_or(ByteCount(0), |arrived| arrived.new_bytes);
            if self.interrupt.is_raised() || stops_at(arrived) {
                stop.raise();
            }
        })?;
        Ok(ended)
    }

    /// Whether what is in `name` has every byte of the source; how many files there are.
    fn compare(&self, name: &str) -> anyhow::Result<usize> {
        let sent = sums(&self.home.join("source"))?;
        let arrived = sums(&self.home.join("arrived").join(name))?;
        if let Some((path, _)) = sent.iter().find(|(path, sum)| arrived.get(*path) != Some(sum)) {
            bail!("{} is not what it was at the source", path.display());
        }
        ensure!(sent.len() == arrived.len(), "more arrived than was sent");
        Ok(sent.len())
    }
}

fn complete(ended: &Ended) -> anyhow::Result<()> {
    if let Some(error) = &ended.error {
        return Err(error.clone().into());
    }
    if let Some(failure) = ended.summary.failures.first() {
        bail!("{}", failure.message);
    }
    Ok(())
}

fn is_refusal(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tidegate_transfer::error::Error>();
    error.is_some_and(|error| error.kind == ErrorKind::Authentication)
}

/// The BLAKE3 of every file beneath `root`.
fn sums(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, blake3::Hash>> {
    let mut sums = BTreeMap::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let unreadable = || format!("cannot list {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let path = entry.path();
            if entry.file_type().with_context(unreadable)?.is_dir() {
                directories.push(path);
                continue;
            }
            let mut hasher = blake3::Hasher::new();
            let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            hasher.update_reader(file).with_context(|| format!("cannot read {}", path.display()))?;
            sums.insert(path.strip_prefix(root)?.to_path_buf(), hasher.finalize());
        }
    }
    Ok(sums)
}
