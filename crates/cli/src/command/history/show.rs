//! Records as lines for people.

use tidegate_contract::text::count;
use tidegate_control::Stage;
use tidegate_service::history::{Basis, Beside, Circumstances, Origin, PairSummary, Record};

/// The word for a record.
pub fn kind(record: &Record) -> &'static str {
    match record {
        Record::Sample(_) => "sample",
        Record::Estimate(_) => "estimate",
        Record::Transfer(_) => "transfer",
        Record::Decision(_) => "decision",
    }
}

/// A record in one line: when, where, what.
pub fn line(record: &Record) -> String {
    let what = match record {
        Record::Sample(sample) => format!(
            "{}: {}, {} in {:.1} s by {}{}",
            streams(sample.streams),
            sample.throughput,
            sample.bytes,
            sample.duration.as_secs_f64(),
            word(&sample.method),
            beside(&sample.circumstances)
        ),
        Record::Estimate(estimate) => {
            let basis = match &estimate.basis {
                Basis::Model { model, .. } => format!("by {model}"),
                Basis::Fallback { reason } => format!("without a model: {reason}"),
            };
            format!(
                "{} expected to reach {}, from {} {basis}{}",
                streams(estimate.streams),
                estimate.throughput,
                count(estimate.samples.len() as u64, "sample"),
                beside(&estimate.circumstances)
            )
        }
        Record::Transfer(transfer) => {
            let mut text = format!(
                "{}: {} in {:.1} s, {}",
                word(&transfer.outcome),
                transfer.bytes,
                transfer.duration.as_secs_f64(),
                transfer.goodput
            );
            let workers = Stage::ALL
                .iter()
                .filter_map(|stage| Some(format!("{stage} {:.1}", transfer.concurrency[*stage]?)));
            let workers: Vec<String> = workers.collect();
            if !workers.is_empty() {
                text.push_str(&format!(", {}", workers.join(" ")));
            }
            for more in [&transfer.optimizer, &transfer.reason].into_iter().flatten() {
                text.push_str(&format!(", {more}"));
            }
            if transfer.origin != Origin::Own {
                text.push_str(&format!(" ({})", word(&transfer.origin)));
            }
            if let Some(job) = &transfer.job {
                text.push_str(&format!(", job {job}"));
            }
            text + &beside(&transfer.circumstances)
        }
        Record::Decision(decision) => {
            let job = decision.job.as_ref().map_or_else(String::new, |job| format!(", job {job}"));
            format!("{}: {}{job}", decision.action, decision.reason)
        }
    };
    format!("{}  {}  {what}", record.at(), record.pair())
}

/// Who else of ours ran meanwhile.
fn beside(circumstances: &Circumstances) -> String {
    match circumstances.beside.filter(Beside::is_shared) {
        Some(Beside { jobs, throughput }) => format!(", beside {} at {throughput}", count(jobs, "job")),
        None => String::new(),
    }
}

fn streams(streams: u32) -> String {
    count(streams, "stream")
}

/// The word of an enumeration, as in the JSON.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        _ => String::new(),
    }
}

/// A table of pairs.
pub fn pairs(pairs: &[PairSummary]) -> Vec<String> {
    let width = pairs.iter().map(|known| known.pair.to_string().chars().count()).max().unwrap_or(0).max(4);
    let head = ["samples", "estimates", "transfers", "decisions"];
    let row = |pair: &str, counts: [String; 4], last: &str| {
        let counts: String = counts.iter().map(|count| format!("{count:>11}")).collect();
        format!("{pair:width$}{counts}  {last}")
    };
    let mut lines = Vec::new();
    if !pairs.is_empty() {
        lines.push(row("pair", head.map(str::to_owned), "last"));
    }
    lines.extend(pairs.iter().map(|known| {
        let counts = [known.samples, known.estimates, known.transfers, known.decisions];
        row(&known.pair.to_string(), counts.map(|count| count.to_string()), &known.last_at.to_string())
    }));
    lines
}
