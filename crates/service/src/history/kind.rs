//! How each kind of record lies in its table.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::any::AnyRow;
use sqlx::{Error, Row as _};
use std::time::Duration;
use tidegate_control::{BitRate, ByteCount, PerStage};

use tidegate_spec::pair::{Pair, Site};

use super::record::{Basis, Beside, Circumstances, Decision, Estimate, Record, Sample, Timestamp, Transfer};

/// What a column takes.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A whole number.
    Whole(i64),
    /// A whole number, if there is one.
    MaybeWhole(Option<i64>),
    /// A number of 0 or more, if there is one.
    MaybeReal(Option<f64>),
    /// A text.
    Text(String),
    /// A text, if there is one.
    MaybeText(Option<String>),
}

/// What the columns of a kind take, for the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Anything but the following.
    Plain,
    /// A number that may be missing, sent as -1 (see [`tidegate_database`]).
    MaybeReal,
    /// Anything, and exports of older versions do not have it.
    Added,
}

/// A kind of record and its table.
pub trait Kind: Clone + Into<Record> + Send + Sync + Unpin + 'static {
    /// The table, and the word for many of them.
    const TABLE: &'static str;
    /// Its columns besides those all have.
    const COLUMNS: &'static [(&'static str, Holds)];
    /// Whether it may belong to a job.
    const HAS_JOB: bool;

    /// What those columns take, in their order.
    fn cells(&self) -> Vec<Cell>;

    /// The record that a row of fields tells of.
    fn from_row(row: &impl Fields) -> Result<Self, Error>;
}

/// The tables of all kinds.
pub(crate) const TABLES: [&str; 4] = [Sample::TABLE, Estimate::TABLE, Transfer::TABLE, Decision::TABLE];

/// Values by the names of their columns: a row of the database, or a line of CSV.
pub trait Fields {
    /// A text; one that must be there and is not is an error.
    fn text(&self, column: &str) -> Result<Option<String>, Error>;
    /// A whole number.
    fn whole(&self, column: &str) -> Result<Option<i64>, Error>;
    /// A number.
    fn real(&self, column: &str) -> Result<Option<f64>, Error>;
}

impl Fields for AnyRow {
    fn text(&self, column: &str) -> Result<Option<String>, Error> {
        self.try_get(column)
    }

    fn whole(&self, column: &str) -> Result<Option<i64>, Error> {
        self.try_get(column)
    }

    fn real(&self, column: &str) -> Result<Option<f64>, Error> {
        self.try_get(column)
    }
}

use Holds::{Added, MaybeReal, Plain};

impl Kind for Sample {
    const TABLE: &'static str = "samples";
    const COLUMNS: &'static [(&'static str, Holds)] = &[
        ("method", Plain),
        ("streams", Plain),
        ("throughput_bps", Plain),
        ("bytes", Plain),
        ("duration_ms", Plain),
        ("conditions", Added),
        ("beside_jobs", Added),
        ("beside_bps", Added),
    ];
    const HAS_JOB: bool = false;

    fn cells(&self) -> Vec<Cell> {
        let cells = vec![
            word(&self.method),
            Cell::Whole(self.streams.into()),
            whole(self.throughput.0),
            whole(self.bytes.0),
            milliseconds(self.duration),
        ];
        under(cells, &self.circumstances)
    }

    fn from_row(row: &impl Fields) -> Result<Self, Error> {
        Ok(Self {
            pair: pair(row)?,
            method: of_word(row, "method")?,
            streams: of_whole(row, "streams")?,
            throughput: BitRate(of_whole(row, "throughput_bps")?),
            bytes: ByteCount(of_whole(row, "bytes")?),
            duration: Duration::from_millis(of_whole(row, "duration_ms")?),
            circumstances: circumstances(row)?,
            at: at(row)?,
        })
    }
}

impl Kind for Estimate {
    const TABLE: &'static str = "estimates";
    const COLUMNS: &'static [(&'static str, Holds)] = &[
        ("method", Plain),
        ("streams", Plain),
        ("throughput_bps", Plain),
        ("model", Plain),
        ("coefficients", Plain),
        ("fallback", Plain),
        ("samples", Plain),
        ("cost_bytes", Plain),
        ("cost_ms", Plain),
        ("conditions", Added),
        ("beside_jobs", Added),
        ("beside_bps", Added),
    ];
    const HAS_JOB: bool = false;

    fn cells(&self) -> Vec<Cell> {
        let (model, coefficients, fallback) = match &self.basis {
            Basis::Model { model, coefficients } => (Some(model.clone()), Some(json(coefficients)), None),
            Basis::Fallback { reason } => (None, None, Some(reason.clone())),
        };
        let cells = vec![
            word(&self.method),
            Cell::Whole(self.streams.into()),
            whole(self.throughput.0),
            Cell::MaybeText(model),
            Cell::MaybeText(coefficients),
            Cell::MaybeText(fallback),
            Cell::Text(json(&self.samples)),
            whole(self.cost_bytes.0),
            milliseconds(self.cost),
        ];
        under(cells, &self.circumstances)
    }

    fn from_row(row: &impl Fields) -> Result<Self, Error> {
        let basis = match row.text("model")? {
            Some(model) => Basis::Model { model, coefficients: of_json(row, "coefficients")? },
            None => Basis::Fallback { reason: row.text("fallback")?.unwrap_or_default() },
        };
        Ok(Self {
            pair: pair(row)?,
            method: of_word(row, "method")?,
            streams: of_whole(row, "streams")?,
            throughput: BitRate(of_whole(row, "throughput_bps")?),
            basis,
            samples: of_json(row, "samples")?,
            cost_bytes: ByteCount(of_whole(row, "cost_bytes")?),
            cost: Duration::from_millis(of_whole(row, "cost_ms")?),
            circumstances: circumstances(row)?,
            at: at(row)?,
        })
    }
}

impl Kind for Transfer {
    const TABLE: &'static str = "transfers";
    const COLUMNS: &'static [(&'static str, Holds)] = &[
        ("origin", Plain),
        ("job", Plain),
        ("bytes", Plain),
        ("files", Plain),
        ("concurrency_read", MaybeReal),
        ("concurrency_network", MaybeReal),
        ("concurrency_write", MaybeReal),
        ("optimizer", Plain),
        ("goodput_bps", Plain),
        ("duration_ms", Plain),
        ("loss", MaybeReal),
        ("rtt_us", Plain),
        ("retransmits", Plain),
        ("outcome", Plain),
        ("reason", Plain),
        ("conditions", Added),
        ("beside_jobs", Added),
        ("beside_bps", Added),
    ];
    const HAS_JOB: bool = true;

    fn cells(&self) -> Vec<Cell> {
        let PerStage { read, network, write } = self.concurrency;
        let maybe =
            |number: Option<u64>| Cell::MaybeWhole(number.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        let cells = vec![
            word(&self.origin),
            Cell::MaybeText(self.job.clone()),
            whole(self.bytes.0),
            whole(self.files),
            Cell::MaybeReal(read),
            Cell::MaybeReal(network),
            Cell::MaybeReal(write),
            Cell::MaybeText(self.optimizer.clone()),
            whole(self.goodput.0),
            milliseconds(self.duration),
            Cell::MaybeReal(self.loss),
            maybe(self.rtt.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX))),
            maybe(self.retransmits),
            word(&self.outcome),
            Cell::MaybeText(self.reason.clone()),
        ];
        under(cells, &self.circumstances)
    }

    fn from_row(row: &impl Fields) -> Result<Self, Error> {
        Ok(Self {
            pair: pair(row)?,
            origin: of_word(row, "origin")?,
            job: row.text("job")?,
            bytes: ByteCount(of_whole(row, "bytes")?),
            files: of_whole(row, "files")?,
            concurrency: PerStage {
                read: row.real("concurrency_read")?,
                network: row.real("concurrency_network")?,
                write: row.real("concurrency_write")?,
            },
            optimizer: row.text("optimizer")?,
            goodput: BitRate(of_whole(row, "goodput_bps")?),
            duration: Duration::from_millis(of_whole(row, "duration_ms")?),
            loss: row.real("loss")?,
            rtt: of_maybe_whole(row, "rtt_us")?.map(Duration::from_micros),
            retransmits: of_maybe_whole(row, "retransmits")?,
            outcome: of_word(row, "outcome")?,
            reason: row.text("reason")?,
            circumstances: circumstances(row)?,
            at: at(row)?,
        })
    }
}

impl Kind for Decision {
    const TABLE: &'static str = "decisions";
    const COLUMNS: &'static [(&'static str, Holds)] =
        &[("job", Plain), ("state", Plain), ("action", Plain), ("reason", Plain)];
    const HAS_JOB: bool = true;

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::MaybeText(self.job.clone()),
            Cell::Text(json(&self.state)),
            Cell::Text(self.action.clone()),
            Cell::Text(self.reason.clone()),
        ]
    }

    fn from_row(row: &impl Fields) -> Result<Self, Error> {
        Ok(Self {
            pair: pair(row)?,
            job: row.text("job")?,
            state: of_json(row, "state")?,
            action: needed(row, "action")?,
            reason: needed(row, "reason")?,
            at: at(row)?,
        })
    }
}

/// The cells of a kind that tells how its rate came to be.
fn under(mut cells: Vec<Cell>, circumstances: &Circumstances) -> Vec<Cell> {
    let Circumstances { conditions, beside } = circumstances;
    cells.push(Cell::MaybeText(conditions.as_ref().map(json)));
    cells.push(Cell::MaybeWhole(beside.map(|beside| beside.jobs.into())));
    cells.push(Cell::MaybeWhole(beside.map(|beside| i64::try_from(beside.throughput.0).unwrap_or(i64::MAX))));
    cells
}

/// How the rate of a row came to be, as far as it tells.
fn circumstances(row: &impl Fields) -> Result<Circumstances, Error> {
    let conditions = match row.text("conditions")? {
        Some(_) => Some(of_json(row, "conditions")?),
        None => None,
    };
    let beside = match of_maybe_whole(row, "beside_jobs")? {
        Some(jobs) => Some(Beside {
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
            throughput: BitRate(of_maybe_whole(row, "beside_bps")?.unwrap_or(0)),
        }),
        None => None,
    };
    Ok(Circumstances { conditions, beside })
}

/// The pair of any row that has one.
pub fn pair(row: &impl Fields) -> Result<Pair, Error> {
    let site = |column: &str| needed(row, column)?.parse::<Site>().map_err(|error| unknown(column, error));
    Ok(Pair { source: site("source")?, destination: site("destination")? })
}

/// The time of any row that has one.
pub(crate) fn at(row: &impl Fields) -> Result<Timestamp, Error> {
    of_whole(row, "at_ms").map(Timestamp)
}

/// A whole number in the range of its type.
pub(crate) fn of_whole<T: TryFrom<i64>>(row: &impl Fields, column: &str) -> Result<T, Error> {
    let number = row.whole(column)?.ok_or_else(|| unknown(column, "nothing"))?;
    T::try_from(number).map_err(|_| unknown(column, format!("the number {number}")))
}

fn of_maybe_whole(row: &impl Fields, column: &str) -> Result<Option<u64>, Error> {
    Ok(row.whole(column)?.and_then(|number| u64::try_from(number).ok()))
}

fn needed(row: &impl Fields, column: &str) -> Result<String, Error> {
    Ok(row.text(column)?.unwrap_or_default())
}

fn of_word<T: DeserializeOwned>(row: &impl Fields, column: &str) -> Result<T, Error> {
    serde_json::from_value(needed(row, column)?.into()).map_err(|error| unknown(column, error))
}

fn of_json<T: DeserializeOwned>(row: &impl Fields, column: &str) -> Result<T, Error> {
    serde_json::from_str(&needed(row, column)?).map_err(|error| unknown(column, error))
}

/// The error of a column that holds something else.
pub(crate) fn unknown(column: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ColumnDecode { index: column.to_owned(), source: why.into() }
}

fn whole(number: u64) -> Cell {
    Cell::Whole(i64::try_from(number).unwrap_or(i64::MAX))
}

fn milliseconds(duration: Duration) -> Cell {
    Cell::Whole(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// The word of an enumeration.
fn word(value: &impl Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Cell::Text(word),
        other => unreachable!("an enumeration is a word: {other:?}"),
    }
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
