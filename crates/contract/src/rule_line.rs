//! What a rule in a program of its own is told and what it answers: one line of JSON each, an answer for every line.
//!
//! An epoch is told as [`epoch_line`](crate::epoch_line) writes it, so that what reads a log of epochs reads this, too.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tidegate_control::{Bounds, Concurrency, Epoch, Host, Observation, PathMemory, PerStage, Proposal};

use crate::text::{foreign, one_line, shorten};

/// The version of what is told; another one may leave out or change what this one has.
pub const VERSION: u32 = 1;

/// The longest answer that is read, in bytes.
pub const MAX_ANSWER: usize = 64 << 10;

/// What the name of such a rule begins with: a program, and what Python runs. It is taken from a command line only;
/// who takes names from elsewhere refuses these.
pub const PREFIXES: [&str; 2] = ["exec:", "python:"];

/// Whether the rule called `name` is a program of the user's own.
pub fn is_program(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Told<'a> {
    Start {
        version: u32,
        bounds: PerStage<Bounds>,
        epoch_ms: u64,
        seed: u64,
        host: ToldHost<'a>,
    },
    Epoch {
        #[serde(flatten)]
        epoch: Box<Epoch>,
        remaining_files: Option<u64>,
        bounds: PerStage<Bounds>,
    },
}

/// [`Host`], with units in its names.
#[derive(Serialize)]
struct ToldHost<'a> {
    processors: Option<u16>,
    round_trip_us: Option<u64>,
    streams: Option<u16>,
    remembered: Option<&'a PathMemory>,
}

fn line(told: &Told<'_>) -> String {
    serde_json::to_string(told).expect("plain data")
}

/// The first line: what may be asked for, and what is known before anything has moved.
pub fn start(bounds: PerStage<Bounds>, host: &Host, epoch: Duration, seed: u64) -> String {
    let host = ToldHost {
        processors: host.processors,
        round_trip_us: host.round_trip.map(|time| time.as_micros() as u64),
        streams: host.streams,
        remembered: host.remembered.as_ref(),
    };
    line(&Told::Start { version: VERSION, bounds, epoch_ms: epoch.as_millis() as u64, seed, host })
}

/// The line of an epoch; `standing` holds on where nothing is answered.
pub fn epoch(seen: &Observation, standing: Concurrency, bounds: PerStage<Bounds>) -> String {
    let remaining_files = seen.remaining.map(|remaining| remaining.files);
    let epoch = Box::new(Epoch::new(seen, &Proposal::from(bounds.clamp(standing))));
    line(&Told::Epoch { epoch, remaining_files, bounds })
}

/// What a rule answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Workers a stage for the next epoch, each at least 1.
    pub setpoint: Concurrency,
    /// The score it gave the epoch, in a unit of its own.
    pub utility: Option<f64>,
    /// Whether the next epoch is a step on the way up, for which a short measurement is good enough.
    pub short_epochs: bool,
}

/// Reads an answer: `{"setpoint": {"read": 4, "network": 8, "write": 2}}`, or a list of the three, or one number for all.
///
/// # Errors
/// In one line: what it is instead.
///
/// ```
/// use tidegate_contract::rule_line::read;
/// use tidegate_control::PerStage;
///
/// assert_eq!(read(b"{\"setpoint\": [4, 8, 2]}").map(|answer| answer.setpoint), Ok(PerStage::new(4, 8, 2)));
/// assert_eq!(read(b"{\"setpoint\": 3}").map(|answer| answer.setpoint), Ok(PerStage::all(3)));
/// assert!(read(b"[4, 8, 2]").is_err());
/// ```
pub fn read(line: &[u8]) -> Result<Answer, String> {
    let shown = || shorten(one_line(&foreign(String::from_utf8_lossy(line).trim_end())));
    let wrong = |why: &str| format!("answered {}, {why}", shown());
    let value: Value = serde_json::from_slice(line).map_err(|_| wrong("which is no JSON"))?;
    let Value::Object(said) = value else {
        return Err(wrong("where an object is expected, as in {\"setpoint\": 3}"));
    };
    if let Some(key) = said.keys().find(|key| !KEYS.contains(&&key[..])) {
        return Err(wrong(&format!(
            "where {} is not known: there are setpoint, utility and short_epochs",
            shorten(one_line(key))
        )));
    }
    let setpoint = said.get("setpoint").ok_or_else(|| wrong("where setpoint is missing"))?;
    let setpoint = self::setpoint(setpoint).ok_or_else(|| {
        wrong("where setpoint must be read, network and write, a list of the three or one number: whole, from 1 to 65535")
    })?;
    let utility = match said.get("utility") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_f64().ok_or_else(|| wrong("where utility must be a number"))?),
    };
    let short_epochs = match said.get("short_epochs") {
        None => false,
        Some(value) => value.as_bool().ok_or_else(|| wrong("where short_epochs must be true or false"))?,
    };
    Ok(Answer { setpoint, utility, short_epochs })
}

/// What an answer may have.
const KEYS: [&str; 3] = ["setpoint", "utility", "short_epochs"];

fn setpoint(value: &Value) -> Option<Concurrency> {
    let workers = |value: &Value| u16::try_from(value.as_u64()?).ok().filter(|&n| n > 0);
    match value {
        Value::Array(list) => match &list[..] {
            [read, network, write] => Some(PerStage::new(workers(read)?, workers(network)?, workers(write)?)),
            _ => None,
        },
        Value::Object(_) => {
            let stages: PerStage<Value> = serde_json::from_value(value.clone()).ok()?;
            Some(PerStage::new(workers(&stages.read)?, workers(&stages.network)?, workers(&stages.write)?))
        }
        one => workers(one).map(PerStage::all),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::{BitRate, ByteCount, Remaining};

    use super::*;
    use crate::epoch_line;

    #[test]
    fn what_is_told_has_its_units_and_is_an_epoch_line() {
        let bounds = PerStage::new(Bounds::fixed(1), Bounds::new(2, 9), Bounds::new(1, 4));
        let host =
            Host { processors: Some(4), round_trip: Some(Duration::from_micros(70)), ..Host::default() };
        let told: Value =
            serde_json::from_str(&start(bounds, &host, Duration::from_millis(500), 7)).expect("JSON");
        assert_eq!(
            (&told["type"], &told["version"], &told["epoch_ms"]),
            (&"start".into(), &1.into(), &500.into())
        );
        assert_eq!((&told["bounds"]["network"]["max"], &told["seed"]), (&9.into(), &7.into()));
        assert_eq!((&told["host"]["processors"], &told["host"]["round_trip_us"]), (&4.into(), &70.into()));
        assert!(told["host"]["streams"].is_null() && told["host"]["remembered"].is_null());

        let seen = Observation {
            at: Duration::from_secs(3),
            concurrency: PerStage::new(1, 5, 2),
            throughput: PerStage::all(BitRate::mbps(100)),
            remaining: Some(Remaining { bytes: ByteCount(9), files: 3 }),
            ..Observation::default()
        };
        let text = epoch(&seen, PerStage::all(40), bounds);
        assert!(!text.contains('\n'));
        let told: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&told["type"], &told["remaining_files"]), (&"epoch".into(), &3.into()));
        assert_eq!(told["bounds"]["network"], serde_json::json!({"min": 2, "max": 9}));
        let read = epoch_line::read(text.as_bytes()).expect("an epoch");
        assert_eq!(
            (read.t_ms, read.concurrency, read.remaining_bytes),
            (3000, seen.concurrency, Some(ByteCount(9)))
        );
        assert_eq!(read.setpoint, PerStage::new(1, 9, 4), "what stands is within the bounds");
    }

    #[test]
    fn an_answer_has_three_forms_and_anything_else_is_refused_in_one_line() {
        let told = read(
            br#"{"setpoint": {"write": 2, "read": 4, "network": 8}, "utility": -1.5, "short_epochs": true}"#,
        );
        let wanted = Answer { setpoint: PerStage::new(4, 8, 2), utility: Some(-1.5), short_epochs: true };
        assert_eq!(told, Ok(wanted));
        for (line, wanted) in [
            (&b""[..], "no JSON"),
            (b"more streams!\n", "answered more streams!, which is no JSON"),
            (b"\xff\x1b[2J", "\\x1b[2J"),
            (b"{\"setpoint\": NaN}", "no JSON"),
            (b"{}", "where setpoint is missing"),
            (b"{\"setpoint\": 4, \"sepoint\": 3}", "where sepoint is not known"),
            (b"{\"setpoint\": 0}", "from 1 to 65535"),
            (b"{\"setpoint\": -4}", "from 1 to 65535"),
            (b"{\"setpoint\": 2.5}", "from 1 to 65535"),
            (b"{\"setpoint\": 70000}", "from 1 to 65535"),
            (b"{\"setpoint\": [1, 2]}", "from 1 to 65535"),
            (b"{\"setpoint\": {\"read\": 1, \"network\": 2}}", "from 1 to 65535"),
            (b"{\"setpoint\": {\"read\": 1, \"network\": 2, \"write\": 3, \"more\": 4}}", "from 1 to 65535"),
            (b"{\"setpoint\": 4, \"utility\": \"high\"}", "utility must be a number"),
            (b"{\"setpoint\": 4, \"short_epochs\": 1}", "short_epochs must be true or false"),
            (b"7", "an object is expected"),
            (b"[4, 8, 2]", "an object is expected"),
            (b"\"four\"", "an object is expected"),
        ] {
            let why = read(line).expect_err(wanted);
            assert!(why.contains(wanted) && why.lines().count() == 1 && !why.contains('\x1b'), "{why:?}");
            let types = ["Said", "struct", "f64", "bool", "map", "sequence"];
            assert!(types.iter().all(|word| !why.contains(word)), "{why:?}");
        }
        let why = read("x".repeat(MAX_ANSWER).as_bytes()).expect_err("no JSON");
        assert!(why.len() < 1200, "{}", why.len());
    }
}
