//! Pools as a run has them: what a name on the command line means, whether all endpoints serve one tree, and which of them one
//! mover leaves out for a while.

mod left_out;
mod proof;

use tidegate_run::place::Place;
use tidegate_run::remotes::pool::Pool;
use tidegate_run::remotes::{self, Remote};
use tidegate_transfer::error::{ErrorKind, Result, usage};

use crate::words::{EndpointWords, PoolWords, SpreadRequest};

pub(crate) use left_out::LeftOut;
pub use proof::prove;

/// The pool whose name `word` begins with, and the rest of `word` from `/` on.
pub fn of_word(word: &str) -> Result<Option<(PoolWords, String)>> {
    let first = word.split('/').next().unwrap_or(word);
    let Some((name, _)) = first.split_once(':') else { return Ok(None) };
    if !remotes::is_name(name) || std::fs::symlink_metadata(first).is_ok() {
        return Ok(None);
    }
    // Whoever reads the word next says what is wrong with another name.
    let Ok(Remote::Pool(pool)) = remotes::find(name) else { return Ok(None) };
    let path = word[name.len() + 1..].trim_start_matches('/').to_owned();
    Ok(Some((resolved(name, &pool)?, format!("/{path}"))))
}

fn resolved(name: &str, pool: &Pool) -> Result<PoolWords> {
    let endpoint = |member: &remotes::pool::Member| {
        let address = Place::endpoint(member.place.as_ref(), "a pool")
            .map_err(|error| error.within(format!("the pool {name}")))?;
        Ok(EndpointWords { name: member.public(), address: address.to_string(), weight: member.weight })
    };
    let endpoints = pool.members.iter().map(endpoint).collect::<Result<_>>()?;
    Ok(PoolWords { name: name.to_owned(), endpoints })
}

/// Takes the pool of one address of a run, which has one at most.
pub fn take(known: &mut Option<PoolWords>, pool: PoolWords) -> Result<()> {
    match known {
        Some(known) if *known != pool => {
            let why = format!("one pool moves in one run, and not both {} and {}", known.name, pool.name);
            Err(usage(why))
        }
        _ => {
            *known = Some(pool);
            Ok(())
        }
    }
}

/// Has `work` done by way of the first endpoint of the run's pool that does not fail it; once where there is no pool.
pub(crate) fn by_way_of_any<T>(request: &SpreadRequest, mut work: impl FnMut(u16) -> Result<T>) -> Result<T> {
    let many = request.pool.as_ref().map_or(1, |pool| pool.endpoints.len());
    let last = u16::try_from(many.saturating_sub(1)).unwrap_or(u16::MAX);
    for endpoint in 0..last {
        match work(endpoint) {
            Err(error) if error.kind != ErrorKind::Interrupted => {
                tracing::warn!("{error}; another endpoint of the pool is asked");
            }
            done => return done,
        }
    }
    work(last)
}
