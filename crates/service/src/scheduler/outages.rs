//! What is said of a job of which an end is away, or that does not get on for another reason.

use std::time::Duration;

use tidegate_contract::error_kind::ErrorKind;
use tidegate_contract::summary::Summary;
use tidegate_control::units::duration_in_words;
use tidegate_spec::pair::{Pair, Site};

use crate::job::{Job, Request, State};
use crate::mover::Away;
use crate::queue::GIVEN_UP;

use super::live::{Stall, StallKind};
use super::now_ms;

/// What `stall` is, in one line.
pub(crate) fn in_words(stall: &Stall, pair: Option<&Pair>) -> String {
    let lasted = words(stall.lasted);
    match &stall.what {
        StallKind::Away(away) if away.is_away => unreached(stall.lasted, &away.why, pair),
        StallKind::Away(away) => format!("waits for {lasted}: {}", away.why),
        StallKind::Measures => format!("looks at its path for {lasted}"),
        StallKind::Silence => format!("nothing has arrived for {lasted}"),
    }
}

/// Has a job say how it stands: `stall` if it runs, else its outage if it waits for the end of one.
pub(crate) fn show(job: &mut Job, stall: Option<&Stall>, pair: impl FnOnce(&Request) -> Option<Pair>) {
    match (job.state, stall, job.outage_since_ms) {
        (State::Running, Some(stall), _) => {
            job.reason = in_words(stall, pair(&job.request).as_ref());
            let away = matches!(&stall.what, StallKind::Away(_));
            let lasted = i64::try_from(stall.lasted.as_millis()).unwrap_or(0);
            job.outage_since_ms = away.then(|| now_ms().saturating_sub(lasted));
        }
        (State::Running, None, _) => job.outage_since_ms = None,
        (State::Retrying | State::Queued, _, Some(since)) => {
            if let Some(Away { why, is_away: true }) = away(job.summary.as_ref()) {
                job.reason = unreached(lasted(since), &why, pair(&job.request).as_ref());
            }
        }
        (State::Done, _, _) => job.outage_since_ms = None,
        _ => {}
    }
}

/// How long an outage has lasted that began so many ms after the epoch.
pub(crate) fn lasted(since_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms().saturating_sub(since_ms)).unwrap_or(0))
}

/// What the last try of a job in an outage ended with.
pub(crate) fn away(summary: Option<&Summary>) -> Option<Away> {
    let summary = summary?;
    let failure = summary.failures.first();
    let kind = summary.error_kind.or(failure.map(|failure| failure.kind))?;
    let why = summary.error.as_ref().or(failure.map(|failure| &failure.message))?;
    let why = why.split(GIVEN_UP).next().unwrap_or(why).to_owned();
    Some(Away { why, is_away: kind == ErrorKind::Connection })
}

fn unreached(lasted: Duration, why: &str, pair: Option<&Pair>) -> String {
    format!("cannot reach {} for {}: {why}", host(why, pair), words(lasted))
}

/// The end that `why` speaks of, or the one that is not here.
fn host(why: &str, pair: Option<&Pair>) -> String {
    let place = |site: &Site| site.as_str().split_once("://").map(|(_, place)| place.to_owned());
    let ends: Vec<String> =
        pair.into_iter().flat_map(|pair| [&pair.source, &pair.destination]).filter_map(place).collect();
    let named = ends.iter().find(|place| why.contains(&place[..]));
    match (named, &ends[..]) {
        (Some(place), _) => place.clone(),
        (None, [one]) => one.clone(),
        _ => "an end".to_owned(),
    }
}

/// A time, to the second as long as it is short.
fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        _ => duration_in_words(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_is_away_is_named() {
        let why = "cannot connect to b:7117: Connection refused".to_owned();
        let stall = Stall {
            lasted: Duration::from_secs(34),
            what: StallKind::Away(Away { why: why.clone(), is_away: true }),
        };
        for (source, destination, named) in [
            ("/a", "tg://t@b:7117/x", "b:7117"),
            ("tg://t@c:1/", "tg://t@b:7117/x", "b:7117"),
            ("tg://t@c:1/", "tg://t@d:2/", "an end"),
        ] {
            let pair = Pair::of(source, destination).expect("a pair");
            assert_eq!(in_words(&stall, Some(&pair)), format!("cannot reach {named} for 34 s: {why}"));
        }
        let stall = Stall { lasted: Duration::from_secs(150), what: StallKind::Silence };
        assert_eq!(in_words(&stall, None), "nothing has arrived for 2 minutes");
    }
}
