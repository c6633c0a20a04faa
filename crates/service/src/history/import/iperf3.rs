//! What `iperf3 -J` printed: one document, or several after each other in a file.
//!
//! Its objects hold some keys twice (seen with 3.12), so documents are read as plain values, in which the last
//! counts.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tidegate_contract::summary::Status;
use tidegate_control::{BitRate, ByteCount, PerStage};

use super::super::record::{Circumstances, Method, Origin, Record, Sample, Timestamp, Transfer};
use super::super::warm_start::LONG_ENOUGH;
use super::lines::Line;
use super::{Host, Sites};

/// Longest document: hours of intervals of many streams.
const LONGEST: usize = 32 << 20;

/// Most streams of one run that are believed; iperf3 allows 128.
const MAX_STREAMS: u64 = 65_536;

/// A document and where it begins.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Its first line.
    pub line: u64,
    text: String,
    /// Why it is none.
    broken: Option<&'static str>,
}

/// Puts lines together to documents, and finds the next one after a broken one.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    open: Document,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    ready: VecDeque<Document>,
}

impl Documents {
    /// Goes on with `line`, which may end a document, and begin another though the last was never ended.
    pub fn add(&mut self, line: &Line) {
        // iperf3 indents everything within a document.
        if self.depth > 0 && line.text.starts_with('{') {
            self.open.broken.get_or_insert("ends in the middle");
            self.end();
        }
        if self.depth == 0 {
            self.open.line = line.number;
        }
        for c in line.text.chars() {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' if self.in_text => self.is_escaped = true,
                '"' if self.depth > 0 => self.in_text = !self.in_text,
                '{' if !self.in_text => self.depth += 1,
                '}' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        // No text of JSON goes on over the end of a line.
        (self.in_text, self.is_escaped) = (false, false);
        if line.is_cut || self.open.text.len() + line.text.len() > LONGEST {
            self.open.broken = Some("is too long");
            self.open.text.clear();
        } else {
            self.open.text.push_str(&line.text);
            self.open.text.push('\n');
        }
        if self.depth == 0 {
            self.end();
        }
    }

    /// The next document that has ended.
    pub fn ready(&mut self) -> Option<Document> {
        self.ready.pop_front()
    }

    /// What is left at the end of the file.
    pub fn rest(&mut self) -> Option<Document> {
        if self.depth > 0 {
            self.open.broken.get_or_insert("ends in the middle");
            self.end();
        }
        self.ready()
    }

    fn end(&mut self) {
        self.depth = 0;
        self.ready.push_back(std::mem::take(&mut self.open));
    }
}

/// The sample and the transfer that a document tells of; none for UDP, which says nothing of TCP's streams.
pub fn records(document: &Document, sites: &Sites, now: Timestamp) -> Result<Vec<Record>, String> {
    if let Some(broken) = document.broken {
        return Err(format!("the document that begins here {broken}"));
    }
    let value: Value = serde_json::from_str(&document.text).map_err(|error| super::without_place(&error))?;
    let whole = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let error = value.get("error").and_then(Value::as_str);
    if value.get("start").is_none() && error.is_none() {
        return Err("is no document of iperf3".to_owned());
    }
    if text("/start/test_start/protocol") == Some("UDP") {
        return Ok(Vec::new());
    }
    if whole("/start/test_start/bidir").is_some_and(|both| both > 0) {
        return Err("ran in both directions at once, so that neither is a sample".to_owned());
    }
    let Some(moved) = moved(&value) else {
        let why = error.unwrap_or("nothing was moved");
        return Err(format!("iperf3 says: {}", why.escape_debug()));
    };
    let streams = whole("/start/test_start/num_streams").filter(|n| (1..=MAX_STREAMS).contains(n));
    let streams = streams.ok_or("has no number of streams")? as u32;
    let began =
        whole("/start/timestamp/timesecs").and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1000));
    let length = i64::try_from(moved.duration.as_millis()).unwrap_or(0);
    let at = began.map_or(now, |began| Timestamp(began.saturating_add(length)));
    let is_reverse = whole("/start/test_start/reverse").is_some_and(|reverse| reverse > 0);
    let server = text("/start/accepted_connection/host");
    let peer = server.or_else(|| text("/start/connecting_to/host"));
    let peer =
        Host::Named(peer.or_else(|| text("/start/connected/0/remote_host")).ok_or("names no other host")?);
    let pair = if is_reverse == server.is_some() {
        sites.pair("iperf3", &Host::Local, &peer)
    } else {
        sites.pair("iperf3", &peer, &Host::Local)
    }?;
    let transfer = Transfer {
        pair: pair.clone(),
        origin: Origin::Iperf3,
        job: None,
        bytes: moved.bytes,
        files: 0,
        concurrency: PerStage::new(None, Some(streams.into()), None),
        optimizer: None,
        goodput: moved.throughput,
        duration: moved.duration,
        loss: loss(&value),
        rtt: rtt(&value),
        retransmits: whole("/end/sum_sent/retransmits"),
        outcome: if error.is_some() { Status::Failed } else { Status::Complete },
        reason: error.map(str::to_owned),
        circumstances: Circumstances::default(),
        at,
    };
    let mut records = vec![transfer.into()];
    // What was interrupted, or over at once, says little of what the path can do.
    if error.is_none() && moved.duration >= LONG_ENOUGH {
        let Moved { bytes, duration, throughput } = moved;
        records.insert(
            0,
            Sample {
                pair,
                method: Method::Iperf3,
                streams,
                throughput,
                bytes,
                duration,
                circumstances: Circumstances::default(),
                at,
            }
            .into(),
        );
    }
    Ok(records)
}

struct Moved {
    bytes: ByteCount,
    duration: Duration,
    throughput: BitRate,
}

/// What the receiver got; what the sender sent, if nobody asked the receiver; the intervals' sum, if it was never
/// summed up.
fn moved(value: &Value) -> Option<Moved> {
    for sum in ["/end/sum_received", "/end/sum_sent"] {
        if let Some(moved) = value.pointer(sum).and_then(|sum| total([sum].into_iter())) {
            return Some(moved);
        }
    }
    let intervals = value.get("intervals")?.as_array()?;
    let sums = intervals.iter().filter_map(|interval| interval.get("sum"));
    total(sums.filter(|sum| sum.get("omitted").and_then(Value::as_bool) != Some(true)))
}

fn total<'a>(sums: impl Iterator<Item = &'a Value>) -> Option<Moved> {
    let (mut bytes, mut seconds) = (0u64, 0.0);
    for sum in sums {
        bytes = bytes.checked_add(sum.get("bytes")?.as_u64()?)?;
        seconds += sum.get("seconds")?.as_f64()?;
    }
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    let (bytes, is_any) = (ByteCount(bytes), bytes > 0 && !duration.is_zero());
    is_any.then(|| Moved { bytes, duration, throughput: BitRate::over(bytes, duration) })
}

/// Segments retransmitted per segment sent, by the size of segments that was agreed on.
fn loss(value: &Value) -> Option<f64> {
    let real = |pointer: &str| value.pointer(pointer).and_then(Value::as_f64).filter(|number| *number > 0.0);
    let size = real("/start/tcp_mss").or_else(|| real("/start/tcp_mss_default"))?;
    let again = value.pointer("/end/sum_sent/retransmits")?.as_f64()?;
    Some((again * size / real("/end/sum_sent/bytes")?).clamp(0.0, 1.0))
}

/// The mean over the streams.
fn rtt(value: &Value) -> Option<Duration> {
    let streams = value.pointer("/end/streams")?.as_array()?;
    let rtts: Vec<u64> = streams
        .iter()
        .filter_map(|stream| stream.pointer("/sender/mean_rtt")?.as_u64())
        .filter(|rtt| *rtt > 0)
        .collect();
    let mean = rtts.iter().map(|&rtt| rtt as f64).sum::<f64>() / rtts.len() as f64;
    Duration::try_from_secs_f64(mean / 1e6).ok()
}
