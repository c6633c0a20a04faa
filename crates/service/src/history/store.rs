//! Writing records in batches, and reading them in pages.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query as Statement;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};
use tidegate_control::BitRate;

use tidegate_database::{Backend, Result};
use tidegate_spec::pair::{Pair, Site};

use super::History;
use super::identity::identity;
use super::kind::{Cell, Holds, Kind, at, of_whole, pair};
use super::record::{Decision, Estimate, Point, Record, Sample, Timestamp, Transfer};

/// Records in one statement; SQLite takes 32,766 values in one, and a transfer has 22.
const ROWS: usize = 100;

/// Records in one transaction, so that no other writer waits for long.
const BATCH: usize = 1000;

/// How often a batch that another's change stood in the way of is tried again.
const CONFLICTS: u32 = 1;

/// Most records of a page.
pub(crate) const MAX_RECORDS: u32 = 1000;

/// Columns that every kind has.
const COMMON: [&str; 4] = ["identity", "source", "destination", "at_ms"];

type Done<T> = std::result::Result<T, sqlx::Error>;

/// Where a page begins: after the record of this moment and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: Timestamp,
    id: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.0, self.id)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let read = || {
            let (at, id) = text.split_once('.')?;
            Some(Self { at: Timestamp(at.parse().ok()?), id: id.parse().ok()? })
        };
        read().ok_or_else(|| "no cursor: take the one that the page before gave".to_owned())
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which records, and how many.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// From this site only.
    pub source: Option<Site>,
    /// To this site only.
    pub destination: Option<Site>,
    /// Of this job only.
    pub job: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Measured while no other job of ours ran over the path, as far as that is known; of no use for decisions.
    pub alone: bool,
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// At most so many, and no more than 1,000; 0 stands for that.
    pub limit: u32,
}

impl Query {
    /// All of a pair.
    pub fn of(pair: &Pair) -> Self {
        Self {
            source: Some(pair.source.clone()),
            destination: Some(pair.destination.clone()),
            ..Self::default()
        }
    }

    fn rows(&self) -> u32 {
        if self.limit == 0 { MAX_RECORDS } else { self.limit.min(MAX_RECORDS) }
    }
}

/// Some records, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Page<K> {
    /// The records.
    pub records: Vec<K>,
    /// Where the next page begins, if there may be one.
    #[schemars(with = "Option<String>")]
    pub next: Option<Cursor>,
}

/// What is known of a pair of sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Pair")]
pub struct PairSummary {
    /// The sites.
    #[serde(flatten)]
    pub pair: Pair,
    /// Samples kept.
    pub samples: u64,
    /// Estimates kept.
    pub estimates: u64,
    /// Transfers kept.
    pub transfers: u64,
    /// Decisions kept.
    pub decisions: u64,
    /// The newest of them.
    #[serde(rename = "last_at_ms")]
    pub last_at: Timestamp,
}

impl History {
    /// Keeps `records`; says how many were not there already.
    pub async fn record(&self, records: &[Record]) -> Result<u64> {
        let mut new = 0;
        for batch in records.chunks(BATCH) {
            let mut left = CONFLICTS;
            new += loop {
                match self.database.patiently("remember records", self.record_batch(batch)).await {
                    // Rare, since records go in by their identity: another server forgets what this one brings.
                    Err(error) if error.is_conflict() && left > 0 => left -= 1,
                    done => break done?,
                }
            };
        }
        Ok(new)
    }

    async fn record_batch(&self, records: &[Record]) -> Done<u64> {
        let (mut samples, mut estimates) = (Rows::<Sample>::new(), Rows::<Estimate>::new());
        let (mut transfers, mut decisions) = (Rows::<Transfer>::new(), Rows::<Decision>::new());
        for record in records {
            let record = record.clone().scrubbed();
            let identity = identity(&record);
            match record {
                Record::Sample(record) => samples.add(identity, &record.pair, record.at, record.cells()),
                Record::Estimate(record) => estimates.add(identity, &record.pair, record.at, record.cells()),
                Record::Transfer(record) => transfers.add(identity, &record.pair, record.at, record.cells()),
                Record::Decision(record) => decisions.add(identity, &record.pair, record.at, record.cells()),
            }
        }
        if self.database.backend() == Backend::Postgres {
            // Two servers that bring the same records wait for each other's: in one order, and never in a circle.
            [&mut samples.cells, &mut estimates.cells, &mut transfers.cells, &mut decisions.cells]
                .into_iter()
                .for_each(|rows| rows.sort_by_key(|(identity, _)| *identity));
        }
        let mut change = self.database.begin().await?;
        let new = samples.insert(&mut change).await?
            + estimates.insert(&mut change).await?
            + transfers.insert(&mut change).await?
            + decisions.insert(&mut change).await?;
        change.commit().await?;
        Ok(new)
    }

    /// Records of one kind, the newest first.
    pub async fn page<K: Kind>(&self, query: &Query) -> Result<Page<K>> {
        let what = format!("read {}", K::TABLE);
        self.database.patiently(&what, self.page_of(query)).await
    }

    async fn page_of<K: Kind>(&self, query: &Query) -> Done<Page<K>> {
        if query.job.is_some() && !K::HAS_JOB {
            return Ok(Page { records: Vec::new(), next: None });
        }
        let rows = query.rows();
        let Clauses { text, values } = Clauses::of(query);
        let columns: String = K::COLUMNS.iter().map(|(name, _)| format!(", {name}")).collect();
        let text = format!(
            "SELECT id, source, destination, at_ms{columns} FROM {}{text} ORDER BY at_ms DESC, id DESC LIMIT {rows}",
            K::TABLE
        );
        let found = bound(&text, values).fetch_all(self.database.reads()).await?;
        let records = found.iter().map(K::from_row).collect::<Done<Vec<K>>>()?;
        let full = records.len() == rows as usize;
        let next = match found.last().filter(|_| full) {
            Some(last) => Some(Cursor { at: at(last)?, id: last.try_get("id")? }),
            None => None,
        };
        Ok(Page { records, next })
    }

    /// The newest estimates of a pair, at most 1,000, none older than `since`; with `alone` none that was measured
    /// beside other jobs of ours.
    pub async fn estimates(&self, pair: &Pair, since: Timestamp, alone: bool) -> Result<Vec<Estimate>> {
        let query = Query { since: Some(since), alone, ..Query::of(pair) };
        Ok(self.page(&query).await?.records)
    }

    /// The newest samples of a pair, in the same way.
    pub async fn samples(&self, pair: &Pair, since: Timestamp, alone: bool) -> Result<Vec<Sample>> {
        let query = Query { since: Some(since), alone, ..Query::of(pair) };
        Ok(self.page(&query).await?.records)
    }

    /// What a pair's samples since then, taken alone, say of each number of streams: the median, which one bad sample does not
    /// move. By number of streams, ready for a model.
    pub async fn points(&self, pair: &Pair, since: Timestamp) -> Result<Vec<Point>> {
        Ok(points_of(&self.samples(pair, since, true).await?))
    }

    /// The pairs that anything is known of, the last used first, at most 1,000.
    pub async fn pairs(&self) -> Result<Vec<PairSummary>> {
        let mut parts = Vec::new();
        for (i, table) in super::kind::TABLES.iter().enumerate() {
            let counts: Vec<&str> = (0..4).map(|j| if i == j { "COUNT(*)" } else { "0" }).collect();
            let names = super::kind::TABLES.iter().zip(counts);
            let counts: String = names.map(|(name, count)| format!("{count} AS {name}, ")).collect();
            parts.push(format!(
                "SELECT source, destination, {counts}MAX(at_ms) AS at_ms FROM {table} GROUP BY source, destination"
            ));
        }
        let sums: String = super::kind::TABLES
            .iter()
            .map(|name| format!("CAST(SUM({name}) AS BIGINT) AS {name}, "))
            .collect();
        let text = format!(
            "SELECT source, destination, {sums}MAX(at_ms) AS at_ms FROM ({}) AS known \
             GROUP BY source, destination ORDER BY MAX(at_ms) DESC, source, destination LIMIT {MAX_RECORDS}",
            parts.join(" UNION ALL ")
        );
        let work = async {
            let rows = bound(&text, Vec::new()).fetch_all(self.database.reads()).await?;
            rows.iter().map(summary).collect::<Done<Vec<_>>>()
        };
        self.database.patiently("read the pairs", work).await
    }
}

fn summary(row: &AnyRow) -> Done<PairSummary> {
    Ok(PairSummary {
        pair: pair(row)?,
        samples: of_whole(row, "samples")?,
        estimates: of_whole(row, "estimates")?,
        transfers: of_whole(row, "transfers")?,
        decisions: of_whole(row, "decisions")?,
        last_at: at(row)?,
    })
}

/// The median throughput of each number of streams.
fn points_of(samples: &[Sample]) -> Vec<Point> {
    let mut by_streams: BTreeMap<u32, Vec<BitRate>> = BTreeMap::new();
    for sample in samples {
        by_streams.entry(sample.streams).or_default().push(sample.throughput);
    }
    let point = |(streams, rates): (u32, Vec<BitRate>)| Point { streams, throughput: median(rates) };
    by_streams.into_iter().map(point).collect()
}

/// The middle one, or the mean of both; zero of none.
pub(crate) fn median(mut rates: Vec<BitRate>) -> BitRate {
    rates.sort_unstable();
    match (rates.get(rates.len().saturating_sub(1) / 2), rates.get(rates.len() / 2)) {
        (Some(low), Some(high)) => BitRate(low.0.midpoint(high.0)),
        _ => BitRate::ZERO,
    }
}

/// The `WHERE` of a query and the values of its placeholders.
#[derive(Default)]
pub(crate) struct Clauses {
    /// With a space before it, or empty.
    pub text: String,
    /// In the order of the placeholders.
    pub values: Vec<Cell>,
}

impl Clauses {
    fn of(query: &Query) -> Self {
        let mut all = Self::default();
        all.sites(query.source.as_ref(), query.destination.as_ref());
        if let Some(job) = &query.job {
            all.add("job = ", Cell::Text(job.clone()));
        }
        if let Some(since) = query.since {
            all.add("at_ms >= ", Cell::Whole(since.0));
        }
        if query.alone {
            all.add("COALESCE(beside_jobs, 0) = ", Cell::Whole(0));
        }
        if let Some(cursor) = query.after {
            all.add("(at_ms, id) < (", Cell::Whole(cursor.at.0));
            all.values.push(Cell::Whole(cursor.id));
            all.text.push_str(&format!(", ${})", all.values.len()));
        }
        all
    }

    /// The pair, or one end of it.
    pub fn sites(&mut self, source: Option<&Site>, destination: Option<&Site>) {
        for (column, site) in [("source = ", source), ("destination = ", destination)] {
            if let Some(site) = site {
                self.add(column, Cell::Text(site.to_string()));
            }
        }
    }

    /// One more condition, that ends with `value`.
    pub fn add(&mut self, condition: &str, value: Cell) {
        let joint = if self.text.is_empty() { " WHERE" } else { " AND" };
        self.values.push(value);
        self.text.push_str(&format!("{joint} {condition}${}", self.values.len()));
    }
}

/// Rows of one table on their way into it.
struct Rows<K> {
    /// By identity, which is also the first of them.
    cells: Vec<(i64, Vec<Cell>)>,
    kind: PhantomData<K>,
}

impl<K: Kind> Rows<K> {
    fn new() -> Self {
        Self { cells: Vec::new(), kind: PhantomData }
    }

    fn add(&mut self, identity: i64, pair: &Pair, at: Timestamp, more: Vec<Cell>) {
        let mut cells = Vec::with_capacity(COMMON.len() + more.len());
        cells.push(Cell::Whole(identity));
        cells.push(Cell::Text(pair.source.to_string()));
        cells.push(Cell::Text(pair.destination.to_string()));
        cells.push(Cell::Whole(at.0));
        cells.extend(more);
        self.cells.push((identity, cells));
    }

    /// Says how many were new.
    async fn insert(self, connection: &mut AnyConnection) -> Done<u64> {
        let mut new = 0;
        let mut cells = self.cells.into_iter().peekable();
        while cells.peek().is_some() {
            let rows: Vec<Vec<Cell>> = cells.by_ref().take(ROWS).map(|(_, cells)| cells).collect();
            let text = insert_statement::<K>(rows.len());
            // Kept prepared only where the same text comes again.
            let again = rows.len() == ROWS || rows.len() == 1;
            let statement = bound(&text, rows.into_iter().flatten().collect()).persistent(again);
            new += statement.execute(&mut *connection).await?.rows_affected();
        }
        Ok(new)
    }
}

fn insert_statement<K: Kind>(rows: usize) -> String {
    let columns: Vec<(&str, Holds)> =
        COMMON.iter().map(|name| (*name, Holds::Plain)).chain(K::COLUMNS.iter().copied()).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let row = |first: usize| {
        let place = |(i, (_, holds)): (usize, &(&str, Holds))| match holds {
            Holds::Plain | Holds::Added => format!("${}", first + i),
            Holds::MaybeReal => format!("NULLIF(${}, -1.0)", first + i),
        };
        let places: Vec<String> = columns.iter().enumerate().map(place).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(|n| row(1 + n * columns.len())).collect();
    format!(
        "INSERT INTO {} ({}) VALUES {} ON CONFLICT (identity) DO NOTHING",
        K::TABLE,
        names.join(", "),
        rows.join(", ")
    )
}

/// A statement and the values of its placeholders. The text is made of constants only.
pub(crate) fn bound(text: &str, values: Vec<Cell>) -> Statement<'static, Any, AnyArguments> {
    let statement = sqlx::query(AssertSqlSafe(text.to_owned()));
    values.into_iter().fold(statement, |statement, value| match value {
        Cell::Whole(number) => statement.bind(number),
        Cell::MaybeWhole(number) => statement.bind(number),
        Cell::MaybeReal(number) => statement.bind(number.unwrap_or(-1.0)),
        Cell::Text(text) => statement.bind(text),
        Cell::MaybeText(text) => statement.bind(text),
    })
}

/// Longest wait for a deletion of one bounded batch.
pub(crate) const DELETION: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_sample_does_not_move_the_median() {
        let of = |rates: &[u64]| median(rates.iter().map(|&mbps| BitRate::mbps(mbps)).collect());
        assert_eq!(of(&[]), BitRate::ZERO);
        assert_eq!(of(&[7]), BitRate::mbps(7));
        assert_eq!(of(&[9, 1, 8]), BitRate::mbps(8));
        assert_eq!(of(&[4, 8]), BitRate::mbps(6));
    }

    #[test]
    fn a_cursor_reads_what_it_writes() {
        let cursor = Cursor { at: Timestamp(1_234), id: 5 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "1", "1.", ".1", "a.b", "1.2.3", "99999999999999999999.1"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_that_may_be_missing_are_never_bound_as_such() {
        let text = insert_statement::<Transfer>(2);
        assert_eq!(text.matches("NULLIF").count(), 8, "{text}");
        assert!(text.ends_with("$44) ON CONFLICT (identity) DO NOTHING"), "{text}");
    }
}
