//! What is asked of an estimate: how a path is sampled, what the transfer will keep to, and what history may answer.

use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::Threshold;
use tidegate_control::units::parse_duration;
use tidegate_control::{BitRate, ByteCount};
use tidegate_transfer::terms::{DataPlane, Verify};

use crate::address::{End, Route};
use crate::form::{threshold, time};
use crate::plane::PlaneSpec;
use crate::range::Range;

/// How long a sample by time is.
pub const SAMPLE_TIME: Range<Duration> =
    Range::new(Duration::from_millis(400), Duration::from_secs(60), "a sample takes from 400ms to 60s");
/// How much a sample by bytes is.
pub const SAMPLE_SIZE: Range<ByteCount> =
    Range::new(ByteCount::kib(64), ByteCount::gib(64), "a sample has from 64KiB to 64GiB");
const STREAMS: Range<u16> = Range::new(1, MAX_STREAMS, "the most streams are from 1 to 512");
const SHARE: Range<f64> =
    Range::new(0.0, 1.0, "the threshold is from 0 to 1 of what the first stream moves, or a rate");

/// Most streams that may be asked for.
const MAX_STREAMS: u16 = 512;

/// How old an answer of history may be unless told otherwise: paths have their hours, and a day has them all.
pub const DAY: Duration = Duration::from_secs(86_400);

/// The programs that measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SamplerKind {
    /// `tidegate probe`: from memory to memory, as the transfer itself would go.
    Native,
    /// `iperf3` against a server at the other site.
    Iperf3,
    /// `globus-url-copy` from `/dev/zero` to `/dev/null`, third-party if both ends are servers.
    GridFtp,
    /// Files of others' servers, of which a few ranges are read and thrown away.
    Ranges,
}

impl SamplerKind {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Native, Self::Iperf3, Self::GridFtp, Self::Ranges];

    /// How it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Iperf3 => "iperf3",
            Self::GridFtp => "gridftp",
            Self::Ranges => "ranges",
        }
    }

    /// What measures the way between two addresses; `None` if nothing of ours speaks to both. Of an FTP server that files
    /// are got from those are read: it may be anybody's, and is there for its files.
    pub fn of(source: &str, destination: &str) -> Option<Self> {
        let (from, to) = (End::of(source).ok()?, End::of(destination).ok()?);
        let has = |end| from == end || to == end;
        match Route::of(from, to)? {
            Route::Get if from.is_server() && from != End::Sftp => Some(Self::Ranges),
            Route::GridFtp => Some(Self::GridFtp),
            // What the server gives is not what an endpoint makes of zeros.
            Route::Copy if from.is_server() => None,
            Route::Copy if has(End::Endpoint) && !has(End::Ssh) => Some(Self::Native),
            Route::Copy | Route::Get | Route::Put => None,
        }
    }
}

tidegate_control::named!(SamplerKind, "sampler");

/// How a path is sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Samples")]
pub struct SamplingSpec {
    /// What measures: native (between endpoints of ours), iperf3, gridftp or ranges (of the files that a server has)
    /// [default: by the addresses]
    #[arg(long, value_name = "NAME")]
    pub sampler: Option<SamplerKind>,
    /// An iperf3 server that runs at the other site [default: an endpoint with --iperf3 is asked to run one,
    /// and of two endpoints the source is asked to measure to the other]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub iperf3: Option<String>,
    /// How long each sample is, once its streams are up to speed [default: 400ms to 1s, by the size]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| SAMPLE_TIME.time(text), conflicts_with = "sample_size")]
    #[serde(with = "time::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<time::WrittenTime>"))]
    pub sample_time: Option<Duration>,
    /// How much each sample is, instead
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| SAMPLE_SIZE.size(text))]
    pub sample_size: Option<ByteCount>,
    /// What one more stream must add: a share of what the first one carries (as 0.1 or 10%), or a rate [default: 10%]
    #[arg(long, value_name = "SHARE|RATE", value_parser = str::parse::<Threshold>)]
    #[serde(deserialize_with = "threshold::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<threshold::WrittenThreshold>"))]
    pub threshold: Option<Threshold>,
    /// Which models of throughput tell what more streams would bring: averaged (ours, all of them), published (EOS, the
    /// nearer of its two), full_second_order, dynamic_order, dinda or hacker (that one, as published) [default: averaged]
    #[arg(long, value_name = "NAME")]
    pub model: Option<ModelSelection>,
    /// Sample even where that costs more than it can bring
    #[arg(long)]
    pub always_sample: bool,
    /// The buffer of each connection, for iperf3 and gridftp
    #[arg(long, value_name = "SIZE")]
    pub tcp_buffer: Option<ByteCount>,
    /// What history may answer.
    #[command(flatten)]
    #[serde(flatten)]
    pub history: HistorySpec,
}

/// What history may answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "WrittenHistory")]
pub struct HistorySpec {
    /// Whether it is asked before anything is measured.
    pub use_history: bool,
    /// How old its answer may be.
    #[serde(with = "time")]
    #[cfg_attr(feature = "schema", schemars(with = "time::WrittenTime"))]
    pub history_age: Duration,
}

/// The same as it is written.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct WrittenHistory {
    /// Take the answer from history: whether, or if it is not older than an age
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    use_history: UseHistory,
    /// How old an answer of history may be [default: 1d]
    #[serde(default, with = "time::option")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<time::WrittenTime>", extend("default" = "1d")))]
    history_age: Option<Duration>,
}

/// Whether history is asked first.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged, expecting = "true, false or an age, such as \"30d\"")]
enum UseHistory {
    /// Whether it is.
    Asked(bool),
    /// It is, and its answer may be so old.
    Within(
        #[serde(with = "time")]
        #[cfg_attr(feature = "schema", schemars(with = "time::WrittenTime"))]
        Duration,
    ),
}

impl Default for UseHistory {
    fn default() -> Self {
        Self::Asked(false)
    }
}

impl From<WrittenHistory> for HistorySpec {
    fn from(WrittenHistory { use_history, history_age }: WrittenHistory) -> Self {
        let (use_history, age) = match use_history {
            UseHistory::Asked(is) => (is, None),
            UseHistory::Within(age) => (true, Some(age)),
        };
        Self { use_history, history_age: age.or(history_age).unwrap_or(DAY) }
    }
}

impl Default for HistorySpec {
    fn default() -> Self {
        Self { use_history: false, history_age: DAY }
    }
}

/// The option, as it is typed: both in one.
#[derive(Args)]
struct HistoryWords {
    /// Take the answer from history, if it is not older than AGE [default: 1d]
    #[arg(
        long, value_name = "AGE", num_args = 0..=1, require_equals = true, default_missing_value = "1d",
        value_parser = parse_duration, help_heading = "History"
    )]
    use_history: Option<Duration>,
}

impl Args for HistorySpec {
    fn augment_args(command: Command) -> Command {
        HistoryWords::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        HistoryWords::augment_args(command)
    }
}

impl FromArgMatches for HistorySpec {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let HistoryWords { use_history } = HistoryWords::from_arg_matches(matches)?;
        Ok(Self { use_history: use_history.is_some(), history_age: use_history.unwrap_or(DAY) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What the transfer will keep to, and so its samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Transfer")]
pub struct SampledTerms {
    /// How the bulk will travel
    #[arg(long, value_name = "PLANE", value_enum, default_value_t)]
    pub data_plane: DataPlane,
    /// How content will be verified
    #[arg(long, value_name = "CHECK", value_enum, default_value_t)]
    pub verify: Verify,
    /// Rate of each network stream
    #[arg(long, value_name = "RATE")]
    pub limit_network: Option<BitRate>,
    /// Rate of all streams together
    #[arg(long, value_name = "RATE")]
    pub limit_link: Option<BitRate>,
}

/// How an estimate is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EstimateSpec {
    /// How the path is sampled.
    #[command(flatten)]
    #[serde(flatten)]
    pub sampling: SamplingSpec,
    /// Most streams
    #[arg(long, value_name = "N", default_value_t = Self::default().max_streams, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_STREAMS)), help_heading = "Samples")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = MAX_STREAMS)))]
    pub max_streams: u16,
    /// What the transfer will keep to.
    #[command(flatten)]
    #[serde(flatten)]
    pub terms: SampledTerms,
}

impl Default for EstimateSpec {
    fn default() -> Self {
        Self { sampling: SamplingSpec::default(), max_streams: 32, terms: SampledTerms::default() }
    }
}

impl SamplingSpec {
    /// Whether each value lies where the command line has it, and all of it makes sense together.
    pub fn check(&self) -> Result<(), String> {
        if self.sample_time.is_some() && self.sample_size.is_some() {
            return Err("a sample has a time or a size, not both".to_owned());
        }
        self.sample_time.map_or(Ok(()), |time| SAMPLE_TIME.within(time).map(drop))?;
        self.sample_size.map_or(Ok(()), |size| SAMPLE_SIZE.within(size).map(drop))?;
        match self.threshold {
            Some(Threshold::Relative(share)) => SHARE.within(share).map(drop),
            Some(Threshold::Absolute(_)) | None => Ok(()),
        }
    }
}

impl EstimateSpec {
    /// Whether each value lies where the command line has it, and all of it makes sense together.
    pub fn check(&self) -> Result<(), String> {
        self.sampling.check()?;
        STREAMS.within(self.max_streams).map(drop)
    }
}

impl SampledTerms {
    /// How the data of a sample is moved.
    pub fn plane(&self) -> PlaneSpec {
        let Self { data_plane, verify, limit_network, limit_link } = *self;
        PlaneSpec { data_plane, verify, limit_network, limit_link, ..PlaneSpec::default() }
    }

    /// The limits there are, by name.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, BitRate)> {
        let limits = [("network", self.limit_network), ("link", self.limit_link)];
        limits.into_iter().filter_map(|(name, rate)| Some((name, rate?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn read(text: &str) -> Result<EstimateSpec, String> {
        let spec: EstimateSpec = serde_json::from_str::<Options>(text).expect("an object").read()?;
        spec.check().map(|()| spec)
    }

    #[test]
    fn what_is_typed_and_what_is_written_are_the_same() {
        let typed = |words: &[&str]| {
            Options::typed::<EstimateSpec>(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(typed(&[]), Ok(Options::default()));
        let words = [
            "--sampler=iperf3",
            "--sample-time=500ms",
            "--threshold=20Mbit/s",
            "--use-history=30d",
            "--max-streams=8",
            "--data-plane=clear",
            "--limit-link=1Mbit/s",
        ];
        let typed = typed(&words).expect("typed").read::<EstimateSpec>();
        let text = r#"{"sampler": "iperf3", "sample_time": 0.5, "threshold": "20Mbit/s", "use_history": "30d",
            "max_streams": 8, "data_plane": "clear", "limit_link": 1000000}"#;
        assert_eq!(typed, read(text));
        let history = |text: &str| read(text).map(|spec| spec.sampling.history);
        let days = |n: u32, use_history| Ok(HistorySpec { use_history, history_age: DAY * n });
        for (text, wanted) in [
            ("{}", days(1, false)),
            (r#"{"use_history": true}"#, days(1, true)),
            (r#"{"use_history": "2d"}"#, days(2, true)),
            (r#"{"use_history": true, "history_age": "3d"}"#, days(3, true)),
            (r#"{"history_age": 172800}"#, days(2, false)),
        ] {
            assert_eq!(history(text), wanted, "{text}");
        }
        let again = Options::all(&read(text).expect("a spec")).read::<EstimateSpec>();
        assert_eq!(again, read(text));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_one_line() {
        for (text, wanted) in [
            (r#"{"sampler": "ping"}"#, "sampler: "),
            (r#"{"model": "newton"}"#, "model: "),
            (r#"{"unknown": 1}"#, "\"unknown\" is no option of this"),
            (r#"{"sample_time": "1ms"}"#, "from 400ms to 60s"),
            (r#"{"sample_size": 1}"#, "from 64KiB to 64GiB"),
            (r#"{"sample_time": "1s", "sample_size": "10MiB"}"#, "not both"),
            (r#"{"sample_size": -1}"#, "sample_size: "),
            (r#"{"sample_time": "10MiB"}"#, "sample_time: "),
            (r#"{"threshold": 1.1}"#, "the threshold is from 0 to 1"),
            (r#"{"threshold": ""}"#, "threshold: "),
            (r#"{"max_streams": 0}"#, "from 1 to 512"),
            (r#"{"max_streams": 513}"#, "from 1 to 512"),
            (r#"{"use_history": "soon"}"#, "use_history: "),
            (r#"{"limit_link": "fast"}"#, "limit_link: "),
            (r#"{"verify": "md5"}"#, "verify: "),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(wanted) && !why.contains('\n'), "{text}: {why}");
        }
    }

    #[test]
    fn a_threshold_is_a_share_or_a_rate() {
        assert_eq!("0.2".parse(), Ok(Threshold::Relative(0.2)));
        assert_eq!("5%".parse(), Ok(Threshold::Relative(0.05)));
        assert_eq!("20Mbit/s".parse(), Ok(Threshold::Absolute(BitRate::mbps(20))));
        for bad in ["", "2", "-0.1", "NaN", "101%", "%", "20MB/s", "much"] {
            assert!(bad.parse::<Threshold>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_addresses_say_what_can_measure_between_them() {
        for (source, destination, kind) in [
            ("/data/big", "tg://ticket@host:1/x", Some(SamplerKind::Native)),
            ("tg://a/x", "TG://b/y", Some(SamplerKind::Native)),
            ("gsiftp://a/x", "ftp://b/y", Some(SamplerKind::GridFtp)),
            ("file:///data", "gsiftp://b/y", Some(SamplerKind::GridFtp)),
            ("/data/big", "/data/copy", None),
            ("tg://a/x", "gsiftp://b/y", None),
            ("https://a/x", "/data", Some(SamplerKind::Ranges)),
            ("S3://a/x", "file:///data", Some(SamplerKind::Ranges)),
            ("ftp://a/x", "/data", Some(SamplerKind::Ranges)),
            ("https://a/x", "tg://b/y", None),
            ("/data", "https://a/x", None),
            ("/data", "ftp://a/x", Some(SamplerKind::GridFtp)),
        ] {
            assert_eq!(SamplerKind::of(source, destination), kind, "{source} {destination}");
        }
        assert_eq!("iperf3".parse(), Ok(SamplerKind::Iperf3));
        assert!("iperf".parse::<SamplerKind>().is_err());
    }
}
