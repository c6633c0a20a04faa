//! Records of one kind as CSV, for spreadsheets: the columns of its table, missing values empty.

use sqlx::Error;

use super::kind::{Cell, Fields, Holds, Kind, unknown};
use super::record::{Decision, Estimate, Record, Sample, Transfer};

/// Columns that every kind has.
const COMMON: [&str; 3] = ["source", "destination", "at_ms"];

/// The names of the columns of a kind, as a line without its end.
pub fn header<K: Kind>() -> String {
    let columns: Vec<&str> = COMMON.into_iter().chain(K::COLUMNS.iter().map(|(name, _)| *name)).collect();
    columns.join(",")
}

/// A record as a line without its end.
pub fn line<K: Kind>(record: &K) -> String {
    let any: Record = record.clone().into();
    let mut fields =
        vec![any.pair().source.to_string(), any.pair().destination.to_string(), any.at().0.to_string()];
    fields.extend(record.cells().into_iter().map(|cell| match cell {
        Cell::Whole(number) => number.to_string(),
        Cell::MaybeWhole(number) => number.map_or_else(String::new, |number| number.to_string()),
        Cell::MaybeReal(number) => number.map_or_else(String::new, |number| number.to_string()),
        Cell::Text(text) => text,
        Cell::MaybeText(text) => text.unwrap_or_default(),
    }));
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    writer.write_record(&fields).expect("memory takes it");
    let bytes = writer.into_inner().expect("memory takes it");
    // Within them there is none: texts have lost their line ends when they were recorded.
    String::from_utf8(bytes).expect("made of text").trim_end_matches('\n').to_owned()
}

/// Whether a line names the columns of some kind.
pub(crate) fn is_header(line: &str) -> bool {
    Header::read(line).is_ok()
}

/// The columns of a file and the kind they belong to.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    columns: Vec<String>,
    read: fn(&Row<'_>) -> Result<Record, Error>,
}

/// A line with its header.
pub(crate) struct Row<'a> {
    columns: &'a [String],
    fields: Vec<String>,
}

impl Header {
    /// Reads the first line; columns may be in any order, and more than are known.
    pub fn read(line: &str) -> Result<Self, String> {
        let columns = fields(line)?;
        fn is<K: Kind>(columns: &[String]) -> bool {
            let own = K::COLUMNS.iter().filter(|(_, holds)| *holds != Holds::Added).map(|(name, _)| *name);
            let mut needed = COMMON.iter().copied().chain(own);
            needed.all(|name| columns.iter().any(|column| column == name))
        }
        let read: fn(&Row<'_>) -> Result<Record, Error> = if is::<Transfer>(&columns) {
            |row| Transfer::from_row(row).map(Record::from)
        } else if is::<Estimate>(&columns) {
            |row| Estimate::from_row(row).map(Record::from)
        } else if is::<Sample>(&columns) {
            |row| Sample::from_row(row).map(Record::from)
        } else if is::<Decision>(&columns) {
            |row| Decision::from_row(row).map(Record::from)
        } else {
            return Err("does not name the columns of any kind of record".to_owned());
        };
        Ok(Self { columns, read })
    }

    /// Reads a line beneath.
    pub fn record(&self, line: &str) -> Result<Record, String> {
        let fields = fields(line)?;
        if fields.len() != self.columns.len() {
            return Err(format!("has {} fields under {} names", fields.len(), self.columns.len()));
        }
        (self.read)(&Row { columns: &self.columns, fields }).map_err(|error| match error {
            Error::ColumnDecode { index, source } => format!("{index}: {source}"),
            other => other.to_string(),
        })
    }
}

fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
    match reader.records().next() {
        Some(Ok(record)) => Ok(record.iter().map(str::to_owned).collect()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("is empty".to_owned()),
    }
}

impl Row<'_> {
    /// The field of a column, if it is not empty.
    fn field(&self, column: &str) -> Option<&str> {
        let place = self.columns.iter().position(|name| name == column)?;
        self.fields.get(place).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn number<T: std::str::FromStr>(&self, column: &str) -> Result<Option<T>, Error> {
        let read = |text: &str| {
            text.parse().map_err(|_| unknown(column, format!("no number: {}", text.escape_debug())))
        };
        self.field(column).map(read).transpose()
    }
}

impl Fields for Row<'_> {
    fn text(&self, column: &str) -> Result<Option<String>, Error> {
        Ok(self.field(column).map(str::to_owned))
    }

    fn whole(&self, column: &str) -> Result<Option<i64>, Error> {
        self.number(column)
    }

    fn real(&self, column: &str) -> Result<Option<f64>, Error> {
        self.number(column)
    }
}
