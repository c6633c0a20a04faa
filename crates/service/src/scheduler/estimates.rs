//! Jobs ask the estimator of this service.

use std::sync::Arc;

use tidegate_control::BitRate;
use tidegate_control::units::UnitError;

use crate::estimate::{self, Answer, Terms};
use crate::job::{JobKind, Request};
use crate::mover::BoxFuture;

use super::size::{Size, Sizes};
use super::{Estimated, JobEstimator};

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
    fn estimate(&self, request: Arc<Request>, most: u16) -> BoxFuture<Result<Estimated, String>> {
        let Self { estimator, sizes } = self.clone();
        Box::pin(async move {
            if request.kind == JobKind::Estimation && request.bytes.is_none() {
                return Err("an estimation needs bytes: say how much is to be moved".to_owned());
            }
            let size = sizes.of(&request).await;
            let asked = asked(&request, size, most)?;
            let answer = estimator.estimate(&asked, &mut |_| {}).await;
            answer
                .map_err(|error| size.explain(&error.to_string()))
                .and_then(|answer| estimated(&request, size, &answer))
        })
    }
}

/// What is asked of the estimator for a job.
fn asked(request: &Request, size: Size, most: u16) -> Result<estimate::EstimateRequest, String> {
    let source = request.sources.first().ok_or("it has no source")?;
    let rate = |name: &str| -> Result<Option<BitRate>, String> {
        let parse = |text: &str| text.parse().map_err(|error: UnitError| error.to_string());
        option(&request.options, name).map(parse).transpose()
    };
    let terms = Terms {
        clear: option(&request.options, "--data-plane") == Some("clear"),
        limit_network: rate("--limit-network")?,
        limit_link: rate("--limit-link")?,
    };
    Ok(estimate::EstimateRequest {
        most_streams: most.max(1),
        use_history: request.use_history,
        sample_bytes: request.sample_bytes,
        buffer_bytes: request.buffer_bytes,
        x509proxy: request.x509proxy.clone(),
        terms,
        ..estimate::EstimateRequest::new(source.clone(), request.destination.clone(), size.bytes())
    })
}

/// The last value of an option, in either way of writing.
fn option<'a>(options: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(name) {
            Some("") => found = words.next().map(String::as_str),
            Some(rest) if rest.starts_with('=') => found = rest.strip_prefix('='),
            _ => {}
        }
    }
    found
}

fn estimated(request: &Request, size: Size, answer: &Answer) -> Result<Estimated, String> {
    match answer.throughput_bps {
        // An estimation is answered with what there is; a transfer is better begun as its rule does.
        None if request.kind == JobKind::Transfer => Err(size.explain(&answer.reason)),
        throughput => Ok(Estimated {
            streams: answer.streams,
            throughput: throughput.unwrap_or(BitRate::ZERO),
            reason: size.explain(&answer.reason),
            answer: serde_json::to_value(answer).map_err(|error| error.to_string())?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::ByteCount;

    use super::*;

    #[test]
    fn a_job_is_estimated_as_it_will_be_moved() {
        let mut request = Request {
            use_history: true,
            sample_bytes: Some(ByteCount::mib(10)),
            ..Request::transfer("/data", "tg://dtn/in")
        };
        request.options = ["--limit-network", "80Mbit/s", "--data-plane=clear", "--limit-network=90Mbit/s"]
            .map(str::to_owned)
            .to_vec();
        let made = asked(&request, Size::Files(ByteCount(5000)), 12).expect("asked");
        assert_eq!((made.bytes, made.most_streams, made.use_history), (ByteCount(5000), 12, true));
        assert_eq!(made.sample_bytes, Some(ByteCount::mib(10)));
        let limit = Some(BitRate::mbps(90));
        assert_eq!(made.terms, Terms { clear: true, limit_network: limit, limit_link: None });
        assert_eq!(asked(&request, Size::Unknown, 12).expect("asked").bytes, ByteCount::gib(1));
        assert_eq!(option(&["--limit-networks=1".to_owned()], "--limit-network"), None);
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
