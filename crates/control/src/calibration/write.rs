//! A calibration as a scenario file.

use std::fmt::Write as _;

use crate::calibration::{Calibration, StageFit};
use crate::stage::Stage;
use crate::units::{BitRate, ByteCount};

/// The least staging a scenario may have.
const LEAST_STAGING: ByteCount = ByteCount::kib(128);

/// More noise than this is no measurement.
const MAX_NOISE: f64 = 0.5;

impl Calibration {
    /// The fitted path as the text of a scenario file (docs/scenarios.md).
    ///
    /// Loss is left out: what it costs a stream is in the measured rate of a worker already. Where the
    /// log shows no limit of the network, the link carries what the most streams moved.
    pub fn to_toml(&self, name: &str) -> String {
        let mut text = format!(
            "name = \"{}\"\ndescription = \"Fitted to an exploration of {} epochs\"\n",
            plain(name),
            self.epochs
        );
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        for stage in Stage::ALL {
            let Some(fit) = &self.stages[stage] else { continue };
            line(format_args!("\n[{stage}]\nworker_rate = \"{}\"", rate(fit.worker_rate_bps)));
            if let Some(total) = fit.total_rate_bps.filter(|_| stage != Stage::Network) {
                line(format_args!("total_rate = \"{}\"", rate(total)));
            }
            line(format_args!("max_workers = {}", fit.workers.max));
        }
        line(format_args!("\n[link]\nrate = \"{}\"", rate(self.link_rate())));
        if let Some(rtt) = self.rtt_us {
            line(format_args!("rtt = \"{rtt}us\""));
        }
        if self.staging_bytes.sender.is_some() || self.staging_bytes.receiver.is_some() {
            line(format_args!("\n[staging]"));
        }
        for (end, size) in [("sender", self.staging_bytes.sender), ("receiver", self.staging_bytes.receiver)]
        {
            if let Some(size) = size {
                line(format_args!("{end} = \"{}B\"", size.max(LEAST_STAGING).0));
            }
        }
        line(format_args!("\n[noise]\nthroughput = {:.4}", self.noise.clamp(0.0, MAX_NOISE)));
        let best = self.optimum;
        line(format_args!(
            "\n[expected]\noptimum = {{ read = {}, network = {}, write = {} }}\ngoodput = \"{}\"",
            best.read,
            best.network,
            best.write,
            rate(self.bandwidth_bps)
        ));
        text
    }

    fn link_rate(&self) -> BitRate {
        let of =
            |fit: &StageFit| fit.total_rate_bps.map_or(fit.carried(fit.workers.max), |total| total.0 as f64);
        BitRate::from_bps(self.stages.network.as_ref().map_or(1.0, of).max(1.0))
    }
}

/// A rate to the bit, in Mbit/s.
fn rate(rate: BitRate) -> String {
    format!("{}Mbit/s", rate.0.max(1) as f64 / 1e6)
}

/// Lower-case letters, digits and hyphens; `path` if nothing is left.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let plain: String = name.chars().map(keep).collect();
    match plain.trim_matches('-') {
        "" => "path".to_owned(),
        plain => plain.to_owned(),
    }
}
