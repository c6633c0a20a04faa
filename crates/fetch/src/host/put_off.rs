//! Servers that ask to come again later: how long that is borne, and what people hear of it.

use std::time::{Duration, Instant};

use tidegate_contract::outage_line;
use tidegate_control::units::duration_in_words;
use tidegate_transfer::error::Error;
use tidegate_transfer::outage::{self, Outage};

/// From this wait on people hear of the first one already.
const LONG: Duration = Duration::from_secs(10);

/// How long a file that is being made ready is left alone if its server does not say.
const UNSAID: Duration = Duration::from_secs(30);

/// Shortest wait before the next try of one.
const SHORTEST: Duration = Duration::from_millis(500);

/// Says that `error` puts us off, if that is to be heard by now. `asked` is the wait that the server asks for.
pub(crate) fn say(error: &Error, asked: Option<Duration>, next: outage::Next) {
    if let Some(words) = words(error, asked, next) {
        tracing::warn!("{words}");
    }
}

fn words(error: &Error, asked: Option<Duration>, next: outage::Next) -> Option<String> {
    let outage::Next::Again { failures, left, tell: true } = next else { return None };
    let for_up_to = duration_in_words(left);
    let asked = asked.filter(|&asked| asked >= LONG);
    match asked {
        Some(asked) if asked >= left => {
            let asked = duration_in_words(asked);
            Some(format!("{error}; it asks to wait for {asked}, and is tried once more in {for_up_to}"))
        }
        Some(asked) => {
            let asked = duration_in_words(asked);
            Some(format!("{error}; trying again in {asked}, as it asks, and for up to {for_up_to}"))
        }
        // Being put off for a moment is nothing to tell of.
        None if failures < 2 => None,
        None => Some(outage_line::write(&error.to_string(), false, &for_up_to)),
    }
}

/// A file is being made ready, by a server that asks to wait for `asked`: for how long that is borne, and when it is
/// tried again.
pub(crate) fn later(
    waits: &mut Outage,
    now: Instant,
    asked: Option<Duration>,
    retry_for: Duration,
) -> (outage::Next, Instant) {
    waits.is_known();
    let next = waits.failed(now, retry_for);
    let wait = match next {
        outage::Next::Again { left, .. } => asked.unwrap_or(UNSAID).max(SHORTEST).min(left),
        outage::Next::GiveUp(_) => Duration::ZERO,
    };
    (next, now + wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_transfer::error::ErrorKind;

    #[test]
    fn a_long_wait_is_told_of_at_once_and_a_short_one_once_it_repeats() {
        let error = Error::new(ErrorKind::Busy, "busy");
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let said = |asked, failures, tell| {
            words(&error, asked, outage::Next::Again { failures, left: minutes(5), tell }).unwrap_or_default()
        };
        assert!(said(Some(minutes(60)), 1, true).contains("once more in 5 min"));
        assert!(said(Some(minutes(2)), 1, true).contains("again in 2 min"));
        assert_eq!(said(Some(minutes(2)), 1, false), "");
        assert_eq!(said(Some(Duration::from_secs(1)), 1, true), "");
        assert!(said(None, 2, true).contains("for up to 5 min"));
    }

    #[test]
    fn what_is_made_ready_is_asked_for_when_asked_to_and_given_up_in_time() {
        let (mut waits, now) = (Outage::default(), Instant::now());
        let second = Duration::from_secs(1);
        let (_, at) = later(&mut waits, now, Some(7 * second), 60 * second);
        assert_eq!(at, now + 7 * second);
        let (_, at) = later(&mut waits, at, Some(3600 * second), 60 * second);
        assert_eq!(at, now + 60 * second, "no longer than it is borne");
        assert_eq!(later(&mut waits, at, None, 60 * second).0, outage::Next::GiveUp(60 * second));
    }
}
