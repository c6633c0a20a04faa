//! What a scenario must satisfy.

use std::time::Duration;

use crate::scenario::Scenario;
use crate::stage::Stage;
use crate::units::{BitRate, ByteCount};

const BELOW: &str = "must be less than link.rate, bursts included";

/// Why a scenario was refused; always one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("line {line}, `{text}`: {message}")]
    Toml {
        /// Counted from 1.
        line: usize,
        /// The line itself.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{key}: {reason}")]
    Value {
        /// The key, with its tables.
        key: String,
        /// What it must be.
        reason: &'static str,
    },
}

impl ScenarioError {
    pub(super) fn toml(source: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start).min(source.len());
        let before = source.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count();
        Self::Toml {
            line: before + 1,
            text: source.lines().nth(before).unwrap_or_default().trim().to_owned(),
            message: error.message().lines().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Collects the first complaint.
struct Check(Result<(), ScenarioError>);

impl Check {
    fn that(&mut self, holds: bool, key: impl FnOnce() -> String, reason: &'static str) {
        if self.0.is_ok() && !holds {
            self.0 = Err(ScenarioError::Value { key: key(), reason });
        }
    }

    fn positive(&mut self, rate: Option<BitRate>, key: impl FnOnce() -> String) {
        self.that(rate.is_none_or(|rate| rate > BitRate::ZERO), key, "must be more than 0");
    }

    fn share(&mut self, value: f64, key: impl FnOnce() -> String) {
        self.that((0.0..1.0).contains(&value), key, "must be at least 0 and less than 1");
    }
}

impl Scenario {
    /// Whether the values make sense; the error names the key.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let mut check = Check(Ok(()));
        let plain = !self.name.is_empty()
            && self.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        check.that(plain, || "name".into(), "must be lower-case letters, digits and hyphens");
        for stage in Stage::ALL {
            let Some(path) = self.stages()[stage] else { continue };
            let key = |name: &'static str| move || format!("{stage}.{name}");
            check.positive(Some(path.worker_rate), key("worker_rate"));
            check.positive(path.total_rate, key("total_rate"));
            check.that(path.min_workers > 0, key("min_workers"), "must be at least 1");
            let ordered = path.min_workers <= path.max_workers;
            check.that(ordered, key("max_workers"), "must not be less than min_workers");
            let slope = path.knee.map_or(0.0, |knee| knee.slope);
            let finite = slope.is_finite() && slope >= 0.0;
            check.that(finite, key("knee.slope"), "must be at least 0");
        }
        check.positive(Some(self.link.rate), || "link.rate".into());
        check.share(self.link.loss, || "link.loss".into());
        check.share(self.link.surplus_loss, || "link.surplus_loss".into());
        let ramp = self.link.ramp_rtts;
        check.that(ramp.is_finite() && ramp >= 0.0, || "link.ramp_rtts".into(), "must be at least 0");
        check.share(self.noise.throughput, || "noise.throughput".into());
        check.that(self.peak(self.background.rate) < self.link.rate, || "background.rate".into(), BELOW);
        if let Some(bursts) = self.background.bursts {
            let last = |time: Duration| time >= Duration::from_millis(1);
            check.that(last(bursts.on), || "background.bursts.on".into(), "must be at least 1ms");
            check.that(last(bursts.off), || "background.bursts.off".into(), "must be at least 1ms");
        }
        if let Some(dataset) = self.dataset {
            check.that(dataset.size > ByteCount(0), || "dataset.size".into(), "must be more than 0");
            check.that(dataset.files > 0, || "dataset.files".into(), "must be at least 1");
        }
        self.check_timeline(&mut check);
        self.check_expected(&mut check);
        check.0
    }

    /// What other traffic takes at most when it takes `rate` between bursts.
    fn peak(&self, rate: BitRate) -> BitRate {
        BitRate(rate.0.saturating_add(self.background.bursts.map_or(0, |bursts| bursts.rate.0)))
    }

    fn check_timeline(&self, check: &mut Check) {
        let mut link = self.link.rate;
        let mut background = self.background.rate;
        for (i, change) in self.timeline.iter().enumerate() {
            let key = |name: &str| format!("timeline[{i}].{name}");
            let before = i.checked_sub(1).map(|i| self.timeline[i].at);
            let ordered = before.is_none_or(|before| before < change.at);
            check.that(ordered, || key("at"), "must be later than the change before it");
            for (stage, new) in
                [(Stage::Read, change.read), (Stage::Network, change.network), (Stage::Write, change.write)]
            {
                let exists = self.stages()[stage].is_some() || new == Default::default();
                check.that(exists, || key(stage.name()), "changes a stage the scenario does not have");
                check.positive(new.worker_rate, || format!("{}.worker_rate", key(stage.name())));
                check.positive(new.total_rate, || format!("{}.total_rate", key(stage.name())));
            }
            check.positive(change.link.rate, || key("link.rate"));
            check.share(change.link.loss.unwrap_or(0.0), || key("link.loss"));
            link = change.link.rate.unwrap_or(link);
            background = change.background.rate.unwrap_or(background);
            check.that(
                self.peak(background) < link,
                || key("background.rate"),
                "must be less than the link's rate then, bursts included",
            );
        }
    }

    fn check_expected(&self, check: &mut Check) {
        let expected = self.expected;
        if let Some(optimum) = expected.optimum {
            let within = self.bounds().clamp(optimum) == optimum;
            check.that(within, || "expected.optimum".into(), "must lie within the stages' workers");
        }
        check.positive(expected.goodput, || "expected.goodput".into());
        let share = expected.throughput_share_min.is_none_or(|share| (0.0..=1.0).contains(&share));
        check.that(share, || "expected.throughput_share_min".into(), "must be from 0 to 1");
        let epochs = expected.epochs_to_95_max.is_none_or(|epochs| epochs > 0);
        check.that(epochs, || "expected.epochs_to_95_max".into(), "must be at least 1");
    }
}
