//! What an estimate says: so many streams, that fast, so long; why; and what it cost to know.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_contract::text::count;
use tidegate_control::throughput_model::{Choice, Model, ModelSelection, Sample};
use tidegate_control::{BitRate, ByteCount};
use tidegate_spec::pair::Pair;

use crate::history::Beside;
use crate::sampler::{Measured, SamplerKind};

/// Streams where it is not worth finding out: while the path is not full each brings as much as the first, and where one
/// would fill it, four lose little.
pub(crate) const FEW: u16 = 4;

/// Points of each curve, for a picture.
const POINTS: usize = 48;

/// What was measured, or remembered, at one number of streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampled {
    /// So many streams.
    pub streams: u16,
    /// What they carried together.
    #[serde(rename = "throughput_bps")]
    pub throughput: BitRate,
    /// What was moved for it; 0 where that is not remembered.
    pub bytes: ByteCount,
    /// The time that went by for it; 0 where that is not remembered.
    pub spent_ms: u64,
    /// What a reader of the figure should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<&Measured> for Sampled {
    fn from(measured: &Measured) -> Self {
        let Measured { streams, throughput, bytes, spent, note, .. } = measured.clone();
        Self { streams, throughput, bytes, spent_ms: milliseconds(spent), note }
    }
}

/// Where the answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EstimateOrigin {
    /// It was measured now.
    Sampled,
    /// It was known.
    History {
        /// For so long.
        age_ms: u64,
    },
    /// It is not known, and not worth knowing.
    NotSampled,
}

/// A fitted curve, as it is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Curve")]
pub struct PlottedCurve {
    /// Which model.
    pub model: Model,
    /// Whether it is the one believed.
    pub chosen: bool,
    /// Where it goes through.
    pub points: Vec<Sample>,
}

/// What an estimate says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Estimate")]
pub struct Answer {
    /// Between which sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// How much is to be moved.
    pub bytes: ByteCount,
    /// How many streams.
    pub streams: u16,
    /// What they should carry together, if that is known.
    pub throughput_bps: Option<BitRate>,
    /// How long that much takes them.
    pub time_ms: Option<u64>,
    /// What one stream carries.
    pub single_throughput_bps: Option<BitRate>,
    /// How long that much takes it.
    pub single_time_ms: Option<u64>,
    /// Where the answer comes from.
    pub origin: EstimateOrigin,
    /// What measured, if anything did.
    pub sampler: Option<SamplerKind>,
    /// The model believed, if one is.
    pub model: Option<Model>,
    /// Why so many streams, in a line.
    pub reason: String,
    /// What was moved to find out.
    pub cost_bytes: ByteCount,
    /// The time it took to find out.
    pub cost_ms: u64,
    /// Whether finding out and so many streams take less time than one stream does.
    pub pays: Option<bool>,
    /// What it rests on, in the order of sampling.
    pub samples: Vec<Sampled>,
    /// The curves through that.
    pub curves: Vec<PlottedCurve>,
    /// All about the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// Our own jobs that ran over the path while it was measured: what is told is what they left.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// What went wrong on the way, a line each.
    pub notes: Vec<String>,
}

impl Answer {
    /// One stream, and nothing more is known.
    pub fn unknown(pair: Pair, bytes: ByteCount, reason: impl Into<String>) -> Self {
        Self {
            pair,
            bytes,
            streams: 1,
            throughput_bps: None,
            time_ms: (bytes.0 == 0).then_some(0),
            single_throughput_bps: None,
            single_time_ms: (bytes.0 == 0).then_some(0),
            origin: EstimateOrigin::NotSampled,
            sampler: None,
            model: None,
            reason: reason.into(),
            cost_bytes: ByteCount(0),
            cost_ms: 0,
            pays: None,
            samples: Vec::new(),
            curves: Vec::new(),
            choice: None,
            beside: None,
            notes: Vec::new(),
        }
    }

    /// Puts in what `choice` says of up to `most` streams.
    ///
    /// ```
    /// use tidegate_control::throughput_model::{Sample, choose};
    /// use tidegate_control::{BitRate, ByteCount};
    /// use tidegate_service::estimate::Answer;
    /// use tidegate_spec::pair::Pair;
    ///
    /// let sample = |streams, mbps| Sample { streams, throughput: BitRate::mbps(mbps) };
    /// let choice = choose(&[sample(1, 100), sample(2, 190), sample(4, 340), sample(8, 520)], 32);
    /// let pair = Pair::of("/data", "tg://dtn2/in")?;
    /// let answer = Answer::unknown(pair, ByteCount::mib(100_000), "not sampled yet").chosen(choice, 32);
    /// assert!(answer.streams > 1 && answer.pays == Some(true));
    /// # Ok::<(), tidegate_spec::pair::SiteError>(())
    /// ```
    #[must_use]
    pub fn chosen(mut self, choice: Choice, most: u16) -> Self {
        self.streams = choice.streams;
        self.throughput_bps = Some(choice.throughput);
        // What was measured is better than what is computed.
        let first = choice.samples.iter().find(|sample| sample.streams == 1);
        self.single_throughput_bps =
            Some(first.map_or_else(|| choice.predict(1), |sample| sample.throughput));
        self.model = choice.fit.as_ref().map(|fit| fit.curve.model());
        self.reason = choice.reason.to_string();
        let widest =
            choice.samples.iter().map(|sample| sample.streams).max().unwrap_or(1).max(choice.streams);
        // The part of the axis that anything is known of, and a little more.
        let end = widest.saturating_add(widest / 4).min(most.max(widest));
        let drawn = choice.fits().enumerate().map(|(i, fit)| PlottedCurve {
            model: fit.curve.model(),
            chosen: i == 0 && choice.fit.is_some(),
            points: fit.curve.points(end, POINTS),
        });
        self.curves = drawn.collect();
        self.choice = Some(choice);
        self.timed()
    }

    /// With a few streams of up to `most`, as only one was sampled and finding out more costs more than it can bring.
    #[must_use]
    pub(super) fn of_a_few(self, most: u16, reason: String) -> Self {
        let streams = FEW.min(most.max(1));
        let is_known = streams == 1;
        let throughput_bps = self.throughput_bps.filter(|_| is_known);
        Self { streams, throughput_bps, reason, model: None, ..self }.timed()
    }

    /// With one more note.
    #[must_use]
    pub(crate) fn with_note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    /// Works the times out anew.
    #[must_use]
    pub fn timed(mut self) -> Self {
        let time = |rate: Option<BitRate>| time_ms(self.bytes, rate?);
        (self.time_ms, self.single_time_ms) = (time(self.throughput_bps), time(self.single_throughput_bps));
        let pays = |single: u64, time: u64| time.saturating_add(self.cost_ms) < single;
        self.pays = self.single_time_ms.zip(self.time_ms).map(|(single, time)| pays(single, time));
        self
    }
}

/// What is to be known of an answer that was measured beside jobs of ours.
pub(crate) fn of_a_share(beside: Beside) -> Option<String> {
    let Beside { jobs, throughput } = beside;
    let who = count(jobs, "job");
    beside
        .is_shared()
        .then(|| format!("measured beside {who} of ours at {throughput}: it is what they left, no capacity"))
}

/// Why none of the models that were asked for by name tells anything, a line each; ours has one that does, or says so.
pub(crate) fn refused(model: ModelSelection, choice: &Choice) -> Vec<String> {
    if model.is_default() || choice.fit.is_some() {
        return Vec::new();
    }
    choice
        .rejected
        .iter()
        .map(|rejected| format!("{} does not fit: {}", rejected.model, rejected.why))
        .collect()
}

/// How long `bytes` take at `rate`; `None` if they never get there.
pub fn time_ms(bytes: ByteCount, rate: BitRate) -> Option<u64> {
    match (bytes.0, rate.0) {
        (0, _) => Some(0),
        (_, 0) => None,
        // The largest size there is, at 1 bit/s, takes longer than u64 has milliseconds: that saturates.
        _ => Some((bytes.bits() * 1000.0 / rate.0 as f64).ceil() as u64),
    }
}

/// `time` in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_control::throughput_model::choose;

    use super::*;

    fn pair() -> Pair {
        Pair::of("/data", "tg://dtn").expect("a pair")
    }

    fn link(n: u16) -> Sample {
        Sample::new(n, BitRate::mbps((u64::from(n) * 100).min(800)))
    }

    #[test]
    fn sizes_of_nothing_and_of_ten_petabytes_have_times() {
        assert_eq!(time_ms(ByteCount(0), BitRate::ZERO), Some(0));
        assert_eq!(time_ms(ByteCount(1), BitRate::ZERO), None);
        assert_eq!(time_ms(ByteCount(10_000_000_000_000_000), BitRate::mbps(1000)), Some(80_000_000_000));
        assert_eq!(time_ms(ByteCount(u64::MAX), BitRate(1)), Some(u64::MAX));
        let nothing = Answer::unknown(pair(), ByteCount(0), "there is nothing to move");
        assert_eq!((nothing.streams, nothing.time_ms, nothing.cost_ms), (1, Some(0), 0));
    }

    #[test]
    fn the_cost_is_told_apart_and_counted() {
        let samples: Vec<Sample> = [1, 2, 4, 8, 16].map(link).to_vec();
        let mut answer =
            Answer::unknown(pair(), ByteCount(1_000_000_000), "").chosen(choose(&samples, 32), 32);
        assert!((7..=9).contains(&answer.streams), "{answer:?}");
        assert_eq!(answer.single_time_ms, Some(80_000));
        let time = answer.time_ms.expect("a time");
        assert!((9_000..12_000).contains(&time) && answer.pays == Some(true), "{answer:?}");
        answer.cost_ms = 75_000;
        let answer = answer.timed();
        assert_eq!((answer.pays, answer.time_ms, answer.cost_ms), (Some(false), Some(time), 75_000));
        assert!(answer.curves[0].chosen && answer.curves.iter().skip(1).all(|curve| !curve.chosen));
        let ends: Vec<u16> =
            answer.curves.iter().filter_map(|curve| Some(curve.points.last()?.streams)).collect();
        assert!(ends.iter().all(|&end| end == 20), "{ends:?}");
        let text = serde_json::to_string(&answer).expect("plain data");
        assert!(text.contains("\"throughput_bps\"") && text.contains("\"source\":\"local\""), "{text}");
        assert_eq!(serde_json::from_str::<Answer>(&text).expect("the same"), answer);
    }
}
