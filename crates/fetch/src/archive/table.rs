//! Tables as the interfaces give them: rows whose cells are found by the name of their column, in any order.

use std::collections::BTreeMap;

use tidegate_transfer::error::{Error, Result};

/// A row; an absent cell is an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row(pub BTreeMap<String, String>);

impl Row {
    /// The cell of a column.
    pub fn get(&self, column: &str) -> &str {
        self.0.get(column).map_or("", String::as_str)
    }

    /// The parts of a cell that is a list; none of an empty one.
    pub fn list(&self, column: &str) -> Vec<&str> {
        match self.get(column) {
            "" => Vec::new(),
            cell => cell.split(';').collect(),
        }
    }
}

/// Rows of tab-separated text with a header, or of a JSON array of objects; one at a time, so that a long
/// answer is held once only. No header, or `[]`, is a table without rows.
pub(crate) fn rows(text: &str) -> Result<Box<dyn Iterator<Item = Result<Row>> + '_>> {
    let text = text.trim_start_matches('\u{feff}').trim_start_matches(['\r', '\n', ' ']);
    if text.starts_with('[') {
        return Ok(Box::new(json(text)?.into_iter().map(Ok)));
    }
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).split('\t').map(str::trim).collect();
    if !header.iter().all(|name| is_column(name)) && header != [""] {
        let first: String = header.join(" ").chars().take(60).collect();
        return Err(Error::protocol(format!("a table was expected, but the answer begins with {first:?}")));
    }
    let rows = lines.filter(|(_, line)| !line.trim().is_empty()).map(move |(i, line)| {
        let cells: Vec<&str> = line.split('\t').collect();
        // A row that is too short may have been cut off.
        if cells.len() != header.len() {
            let why = format!("line {} has {} cells, the header {}", i + 1, cells.len(), header.len());
            return Err(Error::protocol(why));
        }
        let named = header.iter().zip(cells).map(|(name, cell)| ((*name).to_owned(), cell.trim().to_owned()));
        Ok(Row(named.collect()))
    });
    Ok(Box::new(rows))
}

/// Names of columns are plain words; an error in plain text has spaces.
fn is_column(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn json(text: &str) -> Result<Vec<Row>> {
    let objects: Vec<BTreeMap<String, serde_json::Value>> = serde_json::from_str(text)
        .map_err(|error| Error::protocol(format!("the answer is no JSON table: {error}")))?;
    let cell = |value| match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    };
    let row =
        |object: BTreeMap<String, _>| Row(object.into_iter().map(|(name, v)| (name, cell(v))).collect());
    Ok(objects.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Row> {
        rows(text).expect("a table").collect::<Result<_>>().expect("rows")
    }

    #[test]
    fn cells_are_found_by_name_in_any_order() {
        for text in [
            "run_accession\tfastq_ftp\nR1\ta;b\n",
            "\u{feff}fastq_ftp\trun_accession\r\na;b\tR1\r\n\r\n",
            r#"[{"fastq_ftp":"a;b","run_accession":"R1","more":null}]"#,
        ] {
            let rows = all(text);
            assert_eq!(rows.len(), 1);
            assert_eq!(rows[0].get("run_accession"), "R1");
            assert_eq!(rows[0].list("fastq_ftp"), ["a", "b"]);
            assert_eq!(rows[0].list("more"), [""; 0]);
        }
    }

    #[test]
    fn nothing_has_no_rows() {
        for text in ["", "\n", "[]", "run_accession\tfastq_ftp\n", "run_accession"] {
            assert!(all(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in ["<html>", "Service temporarily unavailable", "[{]", "[1]"] {
            assert!(rows(text).is_err(), "{text:?}");
        }
        let ragged = rows("a\tb\n1\t2\t3\n1\t2\n1").expect("a header");
        let ragged: Vec<_> = ragged.map(|row| row.map_err(|error| error.message)).collect();
        assert_eq!(ragged[0], Err("line 2 has 3 cells, the header 2".to_owned()));
        assert!(ragged[1].is_ok());
        assert_eq!(ragged[2], Err("line 4 has 1 cells, the header 2".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*|[\\[\\]{}\",:a-z\\t\\n;]*") {
            if let Ok(rows) = rows(&text) {
                for row in rows.flatten() {
                    proptest::prop_assert!(row.0.keys().all(|name| row.list(name).len() <= text.len() + 1));
                }
            }
        }
    }
}
