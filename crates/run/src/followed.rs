//! What a run with `-vv` says of each epoch: what it showed, what the rule asks for then, and why.

use tidegate_control::{Concurrency, Epoch};

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
