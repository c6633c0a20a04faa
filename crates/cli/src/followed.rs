//! A rule whose decisions are followed: what each epoch showed, what the rule asks for then, and why (`-vv`).

use std::sync::Mutex;
use std::time::Duration;

use tidegate_control::optimizer::Optimizer;
use tidegate_control::{Bounds, Concurrency, Epoch, Observation, PerStage};

/// Passes everything on, and remembers why the rule decided as it did last.
pub struct Followed<'a> {
    /// The rule.
    pub rule: &'a mut dyn Optimizer,
    /// Its last reason.
    pub reason: &'a Mutex<Option<&'static str>>,
}

impl Optimizer for Followed<'_> {
    fn start(&mut self, bounds: PerStage<Bounds>) -> Concurrency {
        self.rule.start(bounds)
    }

    fn expect(&mut self, round_trip: Duration) {
        self.rule.expect(round_trip);
    }

    fn propose(&mut self, seen: &Observation, bounds: PerStage<Bounds>) -> Concurrency {
        let next = self.rule.propose(seen, bounds);
        *self.reason.lock().expect("not poisoned") = self.rule.reason();
        next
    }

    fn utility(&self) -> Option<f64> {
        self.rule.utility()
    }

    fn notice(&mut self) -> Option<String> {
        self.rule.notice()
    }

    fn reason(&self) -> Option<&'static str> {
        self.rule.reason()
    }

    fn epoch_length(&self) -> Duration {
        self.rule.epoch_length()
    }

    fn short_epochs(&self) -> bool {
        self.rule.short_epochs()
    }
}

/// One line on an epoch and what `rule` decided after it.
pub fn line(epoch: &Epoch, rule: &str, reason: Option<&str>) -> String {
    let numbers = |n: Concurrency| format!("{}/{}/{}", n.read, n.network, n.write);
    let moved = epoch.throughput_bps;
    let mut line = format!(
        "{:.1} s: {} workers (read/network/write) moved {} / {} / {}",
        epoch.t_ms as f64 / 1000.0,
        numbers(epoch.concurrency),
        moved.read,
        moved.network,
        moved.write
    );
    if let Some(loss) = epoch.loss {
        line.push_str(&format!(", {:.2} % lost", loss * 100.0));
    }
    if let Some(rtt) = epoch.rtt_us {
        line.push_str(&format!(", round trip {:.1} ms", rtt as f64 / 1000.0));
    }
    match epoch.setpoint == epoch.concurrency {
        true => line.push_str(&format!("; {rule} leaves them")),
        false => line.push_str(&format!("; {rule} asks for {}", numbers(epoch.setpoint))),
    }
    if let Some(utility) = epoch.utility {
        line.push_str(&format!(" (score {utility:.4})"));
    }
    if let Some(reason) = reason {
        line.push_str(&format!(": {reason}"));
    }
    line
}
