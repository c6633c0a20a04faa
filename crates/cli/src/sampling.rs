//! How a path is sampled, as `estimate` and `submit` are told.

use std::time::Duration;

use clap::Args;
use tidegate_control::ByteCount;
use tidegate_control::throughput_model::ModelSelection;
use tidegate_control::throughput_model::sampling::Threshold;
use tidegate_control::units::{UnitError, parse_duration};
use tidegate_service::sampler::{Amount, SamplerKind};

/// How a path is sampled.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Samples")]
pub struct SamplingArgs {
    /// What measures: native (between endpoints of ours), iperf3, gridftp or ranges (of the files that a server has)
    /// [default: by the addresses]
    #[arg(long, value_name = "NAME")]
    pub sampler: Option<SamplerKind>,
    /// An iperf3 server that runs at the other site [default: an endpoint with --iperf3 is asked to run one,
    /// and of two endpoints the source is asked to measure to the other]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub iperf3: Option<String>,
    /// How long each sample is, once its streams are up to speed [default: 400ms to 1s, by the size]
    #[arg(long, value_name = "TIME", value_parser = sample_time, conflicts_with = "sample_size")]
    pub sample_time: Option<Duration>,
    /// How much each sample is, instead
    #[arg(long, value_name = "SIZE", value_parser = sample_size)]
    pub sample_size: Option<ByteCount>,
    /// What one more stream must add: a share of what the first one carries (as 0.1 or 10%), or a rate [default: 10%]
    #[arg(long, value_name = "SHARE|RATE", value_parser = str::parse::<Threshold>)]
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
    /// Take the answer from history, if it is not older than AGE [default: 1d]
    #[arg(
        long, value_name = "AGE", num_args = 0..=1, require_equals = true, default_missing_value = "1d",
        value_parser = parse_duration, help_heading = "History"
    )]
    pub use_history: Option<Duration>,
}

impl SamplingArgs {
    /// How long each sample is, in ms.
    pub fn sample_ms(&self) -> Option<u64> {
        self.sample_time.map(|time| time.as_millis() as u64)
    }
}

fn sample_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    Amount::Time(time).checked().map(|_| time).map_err(|error| error.to_string())
}

fn sample_size(text: &str) -> Result<ByteCount, String> {
    let size: ByteCount = text.parse().map_err(|error: UnitError| error.to_string())?;
    Amount::Bytes(size).checked().map(|_| size).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tidegate_control::BitRate;

    use super::*;

    #[test]
    fn a_threshold_is_a_share_or_a_rate() {
        assert_eq!("0.2".parse(), Ok(Threshold::Relative(0.2)));
        assert_eq!("5%".parse(), Ok(Threshold::Relative(0.05)));
        assert_eq!("20Mbit/s".parse(), Ok(Threshold::Absolute(BitRate::mbps(20))));
        for bad in ["", "2", "-0.1", "NaN", "101%", "%", "20MB/s", "much"] {
            assert!(bad.parse::<Threshold>().is_err(), "{bad}");
        }
    }
}
