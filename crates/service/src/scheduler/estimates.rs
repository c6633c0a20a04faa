//! Jobs ask the estimator of this service.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tidegate_control::units::duration_in_words;
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::address::Route;
use tidegate_spec::pair::Pair;
use tidegate_transfer::terms::{DataPlane, Verify};

use crate::estimate::{self, Answer, EstimateError, EstimateOrigin};
use crate::history::Conditions;
use crate::job::{JobKind, Request};
use crate::mover::BoxFuture;
use crate::traffic::OwnTraffic;

use super::size::{Size, Sizes, UNKNOWN};
use super::{Estimated, JobEstimator};

/// Why nothing was measured for a job.
const BY_RULE: &str = "its rule adapts while data moves, so the path is not sampled before";

/// Answers the scheduler by estimates.
#[derive(Clone, Debug)]
pub struct Chooser {
    estimator: estimate::Estimator,
    sizes: Sizes,
}

impl Chooser {
    /// By `estimator`, for as much as `sizes` finds.
    pub const fn new(estimator: estimate::Estimator, sizes: Sizes) -> Self {
        Self { estimator, sizes }
    }
}

impl JobEstimator for Chooser {
    fn traffic(&self) -> OwnTraffic {
        self.estimator.traffic().clone()
    }

    fn path_mtu(&self, pair: Pair) -> BoxFuture<Option<ByteCount>> {
        let estimator = self.estimator.clone();
        Box::pin(async move { estimator.path_mtu(&pair).await })
    }

    fn estimate(&self, request: Arc<Request>, most: u16) -> BoxFuture<Result<Estimated, String>> {
        let Self { estimator, sizes } = self.clone();
        Box::pin(async move {
            if request.kind == JobKind::Transfer && request.adapts() && !request.wants_samples() {
                return begun_by_rule(&estimator, &request, most).await;
            }
            let size = sizes.of(&request).await;
            if request.kind == JobKind::Estimation && size == Size::Unknown {
                return Err("the source does not tell how much it is: say it by bytes".to_owned());
            }
            let asked = request.estimate(size.bytes(), most)?;
            let answer = estimator.estimate(&asked, &mut |_| {}).await;
            answer
                .map_err(|error| match (error, size) {
                    // What is taken for a size changes nothing about that.
                    (EstimateError::Usage(why), Size::Unknown) => why,
                    (error, size) => size.explain(&error.to_string()),
                })
                .and_then(|answer| estimated(&request, size, &answer))
        })
    }
}

/// What history knows for a job whose rule adapts, if it may answer. Samples would cost it more than they bring: what they
/// show the rule sees for itself, and moves the data meanwhile.
async fn begun_by_rule(
    estimator: &estimate::Estimator,
    request: &Request,
    most: u16,
) -> Result<Estimated, String> {
    if !request.use_history {
        return Err(BY_RULE.to_owned());
    }
    let known = estimator.known(&request.estimate(UNKNOWN, most)?).await;
    let known = known.map_err(|error| format!("{BY_RULE}; {error}"))?;
    estimated(request, Size::Told(UNKNOWN), &known)
}

/// What the rate of a job depends on besides its sites, on a path of that MTU.
pub(super) fn conditions_of(request: &Request, most: u16, mtu_bytes: Option<ByteCount>) -> Conditions {
    let is_gridftp = request.route() == Ok(Route::GridFtp);
    let terms = request.estimate(ByteCount(1), 1).map(|asked| asked.spec.terms).unwrap_or_default();
    let limit = |(name, value): (&str, &Value)| {
        Some((name.strip_prefix("limit_")?.to_owned(), BitRate::deserialize(value).ok()?))
    };
    Conditions {
        clear: terms.data_plane == DataPlane::Clear,
        verify: Some(terms.verify).filter(|how| *how != Verify::default()).map(|how| how.name().to_owned()),
        buffer_bytes: request.buffer_bytes.filter(|_| is_gridftp),
        mtu_bytes,
        limits_bps: request.options.iter().filter_map(limit).collect(),
        most_streams: Some(most),
    }
}

fn estimated(request: &Request, size: Size, answer: &Answer) -> Result<Estimated, String> {
    let reason = match answer.origin {
        EstimateOrigin::History { age_ms } => {
            let age = duration_in_words(Duration::from_millis(age_ms));
            format!("{}, from history of {age} ago", answer.reason)
        }
        _ => answer.reason.clone(),
    };
    match answer.throughput_bps {
        // An estimation is answered with what there is; a transfer is better begun as its rule does.
        None if request.kind == JobKind::Transfer => Err(size.explain(&reason)),
        throughput => Ok(Estimated {
            streams: answer.streams,
            throughput: throughput.unwrap_or(BitRate::ZERO),
            reason: size.explain(&reason),
            answer: serde_json::to_value(answer).map_err(|error| error.to_string())?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_with_what_it_depends_on() {
        let mut request = Request::transfer("/data", "tg://dtn/in");
        for (name, value) in [("limit_read", "80Mbit/s"), ("data_plane", "clear"), ("verify", "blake3")] {
            request.options.set(name, value);
        }
        let read = ("read".to_owned(), BitRate::mbps(80));
        let wanted = Conditions {
            clear: true,
            mtu_bytes: Some(ByteCount(9000)),
            limits_bps: [read].into(),
            most_streams: Some(8),
            ..Conditions::default()
        };
        assert_eq!(conditions_of(&request, 8, Some(ByteCount(9000))), wanted);
    }

    #[test]
    fn a_transfer_of_which_nothing_is_known_begins_as_its_rule_does() {
        let mut request = Request::transfer("/a", "tg://dtn/in");
        let pair = request.pair().expect("a pair");
        let answer = Answer::unknown(pair, ByteCount(1), "too small");
        let told = Size::Told(ByteCount(1));
        assert_eq!(estimated(&request, told, &answer), Err("too small".to_owned()));
        let guessed = "too small; the size is not known and taken to be 1 GiB";
        assert_eq!(estimated(&request, Size::Unknown, &answer), Err(guessed.to_owned()));
        request.kind = JobKind::Estimation;
        assert_eq!(estimated(&request, told, &answer).map(|estimated| estimated.streams), Ok(1));
    }
}
