//! Whether the endpoints of a pool serve one tree: a mark is left by way of one and looked for by way of each other. Where none
//! may be left, what lies in the tree's directory is compared, which proves nothing but refutes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_transfer::error::{Error, ErrorKind, Result, usage};
use tidegate_transfer::transfer::Interrupt;
use tidegate_transfer::transfer::file_client::FileClient;
use tidegate_transfer::transfer::route::random_run;
use tidegate_transfer::wire::files::ListedFile;
use tidegate_transfer::wire::ticket::Address;
use tidegate_transfer::wire::tls::Identity;
use tidegate_transfer::wire::way::Carriers;

use crate::words::PoolWords;

/// How long a mark may take to be seen through another host, whose view of the file system may lag.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_millis(200);

/// An endpoint that answers.
struct Reached {
    name: String,
    client: FileClient,
    path: Vec<u8>,
}

/// Shows that all endpoints of `pool` serve one tree, and leaves those out that do not answer. `tell` hears who is left out,
/// and what could not be proved.
///
/// # Errors
/// They serve different trees, or none answers.
pub fn prove(
    pool: &mut PoolWords,
    pki: Option<&Arc<Identity>>,
    interrupt: &Interrupt,
    tell: impl Fn(&str),
) -> Result<()> {
    let (mut reached, mut kept, mut failure) = (Vec::new(), Vec::new(), None);
    for endpoint in std::mem::take(&mut pool.endpoints) {
        let address = Address::parse(endpoint.address.as_bytes())?;
        match FileClient::connect(&address, &Carriers::default(), pki.cloned(), 1, Duration::ZERO, interrupt)
        {
            Ok(client) => {
                let path = address.path.strip_suffix(b"/").unwrap_or(&address.path).to_vec();
                reached.push(Reached { name: endpoint.name.clone(), client, path });
                kept.push(endpoint);
            }
            Err(error) => {
                tell(&format!("{} is left out of this run: {error}", endpoint.name));
                failure = Some(error);
            }
        }
    }
    pool.endpoints = kept;
    match (&reached[..], failure) {
        ([], Some(error)) => {
            return Err(error.within(format!("no endpoint of the pool {} answers", pool.name)));
        }
        ([] | [_], _) => return Ok(()),
        _ => {}
    }
    let (mark, mut refusal) = (random_run(), None);
    for (at, by) in reached.iter().enumerate() {
        match by.client.mark(&by.path, mark, interrupt) {
            Ok(()) => {
                let seen = reached.iter().enumerate().filter(|(other, _)| *other != at);
                let seen =
                    seen.map(|(_, other)| other).try_for_each(|other| seen_by(by, other, mark, interrupt));
                let removed = by.client.remove_mark(&by.path, mark, interrupt);
                return seen.and(removed.map_err(|error| error.within(&by.name)));
            }
            // Another may take it: tickets differ.
            Err(error) if error.kind == ErrorKind::Denied => refusal = Some(error),
            Err(error) => return Err(error.within(&by.name)),
        }
    }
    let why = refusal.map(|error| error.message).unwrap_or_default();
    alike(&reached, interrupt)?;
    tell(&format!(
        "that the endpoints of {} serve one tree cannot be proved, as nothing may be written there ({why}); what lies in it is alike",
        pool.name
    ));
    Ok(())
}

/// Fails unless the mark that was left by way of `by` is seen by way of `other`.
fn seen_by(by: &Reached, other: &Reached, mark: [u8; 16], interrupt: &Interrupt) -> Result<()> {
    let began = Instant::now();
    loop {
        if other.client.has_mark(&other.path, mark, interrupt).map_err(|error| error.within(&other.name))? {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(different(by, other, "what is written by way of one is not seen by the other"));
        }
        thread::sleep(AGAIN);
    }
}

/// Fails if what lies in the directory differs from one endpoint to another, more than once: somebody may change it.
fn alike(reached: &[Reached], interrupt: &Interrupt) -> Result<()> {
    let began = Instant::now();
    loop {
        let lists = reached.iter().map(|one| {
            let listing =
                one.client.list(&one.path, false, interrupt).map_err(|error| error.within(&one.name))?;
            Ok(listing.entries.iter().map(told).collect::<Vec<_>>())
        });
        let lists = lists.collect::<Result<Vec<_>>>()?;
        let Some(other) = lists.iter().position(|list| *list != lists[0]) else { return Ok(()) };
        if began.elapsed() > PATIENCE {
            return Err(different(&reached[0], &reached[other], "what lies in it differs"));
        }
        thread::sleep(AGAIN);
    }
}

/// What is the same of an entry whoever tells of it.
fn told(entry: &ListedFile) -> (Vec<u8>, u64, i64) {
    (entry.path.as_bytes().to_vec(), entry.status.size, entry.status.mtime.seconds)
}

fn different(one: &Reached, other: &Reached, why: &str) -> Error {
    usage(format!(
        "{} and {} serve different trees: {why}; nothing was moved, mend the pool with `tidegate remote pool`",
        one.name, other.name
    ))
}
