//! `samplesheet.csv` as nf-core's pipelines want it: one row a run, sample and files first, then everything
//! else that is known of the run.
//!
//! The sample is the experiment, as in nf-core/fetchngs: pipelines join the rows of one sample.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use tidegate_contract::text::count;
use tidegate_transfer::error::Result;

use super::runs::{RunFields, Runs};
use crate::choice::choice;
use crate::foreign;

choice! {
    /// The pipeline that a sheet is for.
    #[derive(Default)]
    Shape, "samplesheet", {
        /// nf-core/rnaseq.
        Rnaseq = "rnaseq",
        /// nf-core/atacseq.
        Atacseq = "atacseq",
        /// nf-core/viralrecon.
        Viralrecon = "viralrecon",
        /// nf-core/taxprofiler.
        Taxprofiler = "taxprofiler",
        /// Any other.
        #[default]
        Generic = "generic",
    }
}

impl Shape {
    /// The column that only this pipeline has, and what stands in it.
    const fn own(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Rnaseq => Some(("strandedness", "auto")),
            Self::Atacseq => Some(("replicate", "1")),
            Self::Taxprofiler => Some(("fasta", "")),
            Self::Viralrecon | Self::Generic => None,
        }
    }
}

/// A run with its files.
#[derive(Debug, Default)]
struct Run {
    files: Vec<String>,
    /// How many there should be.
    wanted: usize,
    meta: RunFields,
}

/// The rows of a sheet.
#[derive(Debug)]
pub(crate) struct Sheet {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    incomplete: u64,
}

impl Sheet {
    /// The complete runs of the table, their files beneath `directory`.
    pub fn of(runs: &mut Runs, shape: Shape, directory: &Path, lacking: &BTreeSet<Arc<str>>) -> Result<Self> {
        let mut all: BTreeMap<String, Run> = BTreeMap::new();
        runs.each(|mut row| {
            let (Some(run), Some(path)) = (row.get("run_accession").cloned(), row.remove("path")) else {
                return;
            };
            if !is_fastq(&path) {
                return;
            }
            let entry = all.entry(run).or_default();
            entry.files.push(path);
            let listed = row.get("format").and_then(|format| row.get(&format!("{format}_ftp")));
            entry.wanted =
                listed.map_or(0, |listed| listed.split(';').filter(|file| !file.is_empty()).count());
            row.retain(|column, _| !is_of_files(column));
            entry.meta = row;
        })?;
        let own = shape.own();
        let fixed = ["sample", "fastq_1", "fastq_2"].into_iter().chain(own.map(|(column, _)| column));
        let mut header: Vec<String> = fixed.map(str::to_owned).collect();
        let is_known = |column: &String| all.values().any(|run| run.meta.contains_key(column));
        let columns: Vec<String> = runs
            .columns()
            .iter()
            .filter(|column| !header.contains(column) && is_known(column))
            .cloned()
            .collect();
        header.extend(columns.iter().cloned());
        let (mut rows, mut incomplete) = (Vec::new(), 0);
        for (run, Run { files, wanted, meta }) in &all {
            if lacking.contains(&run[..]) || files.len() < *wanted {
                incomplete += 1;
                continue;
            }
            let [one, two] = pair(run, files);
            let absolute = |file: Option<&str>| {
                file.map(|file| directory.join(file).display().to_string()).unwrap_or_default()
            };
            let sample = ["experiment_accession", "sample_accession", "sample"]
                .iter()
                .find_map(|name| meta.get(*name));
            let mut row = vec![sample.unwrap_or(run).clone(), absolute(one), absolute(two)];
            row.extend(own.map(|(_, value)| value.to_owned()));
            row.extend(columns.iter().map(|column| meta.get(column).cloned().unwrap_or_default()));
            rows.push(row);
        }
        // Rows of one sample stand together.
        rows.sort_by(|a, b| a[0].cmp(&b[0]));
        Ok(Self { header, rows, incomplete })
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn notes(&self) -> impl Iterator<Item = String> {
        let name = super::SHEET;
        let lack = if self.incomplete == 1 { "lacks" } else { "lack" };
        let runs = count(self.incomplete, "run");
        (self.incomplete > 0).then(|| format!("{name} leaves out {runs} that {lack} a file")).into_iter()
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        Ok(())
    }
}

/// Whether the sheet at `path` may be replaced: it is ours, or there is none.
pub(crate) fn is_ours(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let mut line = String::new();
    let read = BufReader::new(file.take(4096)).read_line(&mut line);
    read.is_ok() && line.starts_with("\"sample\",\"fastq_1\",\"fastq_2\"")
}

fn quoted(cell: &str) -> String {
    format!("\"{}\"", foreign::cell(cell).replace('"', "\"\""))
}

/// Columns about files, which say nothing of the sample.
fn is_of_files(column: &str) -> bool {
    let endings = ["_ftp", "_bytes", "_md5", "_aspera", "_galaxy"];
    let ours = ["url", "bytes", "md5", "md5_ok", "seconds", "format", "source"];
    ours.contains(&column)
        || endings.iter().any(|ending| column.ends_with(ending))
        || column == "submitted_format"
}

fn is_fastq(path: &str) -> bool {
    let name = path.strip_suffix(".gz").or_else(|| path.strip_suffix(".bz2")).unwrap_or(path);
    name.ends_with(".fastq") || name.ends_with(".fq")
}

/// The two files of a pair, or the only one. Of three files, the one without a number holds what lost its
/// mate.
fn pair<'a>(run: &str, files: &'a [String]) -> [Option<&'a str>; 2] {
    let stem = |path: &'a str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split(".f").next().unwrap_or(name)
    };
    let ending = |end: &[&str]| {
        files.iter().map(String::as_str).find(|path| end.iter().any(|end| stem(path).ends_with(end)))
    };
    let (one, two) = (ending(&["_1", "_R1"]), ending(&["_2", "_R2"]));
    match (one, two, files) {
        (Some(_), Some(_), _) => [one, two],
        (_, _, [only]) => [Some(only), None],
        _ => {
            let whole = files.iter().map(String::as_str).find(|path| stem(path).ends_with(run));
            [whole.or(one).or_else(|| files.first().map(String::as_str)), None]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found() {
        for (files, wanted) in [
            (&["S.fastq.gz"][..], [Some("S.fastq.gz"), None]),
            (&["S_1.fastq.gz"], [Some("S_1.fastq.gz"), None]),
            (&["d/S_1.fastq.gz", "d/S_2.fastq.gz"], [Some("d/S_1.fastq.gz"), Some("d/S_2.fastq.gz")]),
            (&["S.fastq.gz", "S_1.fastq.gz", "S_2.fastq.gz"], [Some("S_1.fastq.gz"), Some("S_2.fastq.gz")]),
            (&["X_S_1.fq", "X_S_2.fq"], [Some("X_S_1.fq"), Some("X_S_2.fq")]),
            (&["S_subreads.fastq.gz"], [Some("S_subreads.fastq.gz"), None]),
            (&["a_R1.fastq", "a_R2.fastq", "a_I1.fastq"], [Some("a_R1.fastq"), Some("a_R2.fastq")]),
            (&["S.fastq.gz", "S_1.fastq.gz"], [Some("S.fastq.gz"), None]),
        ] {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            assert_eq!(pair("S", &files), wanted);
        }
    }

    #[test]
    fn cells_are_quoted() {
        assert_eq!((quoted("a\"b,\n"), quoted("")), ("\"a\"\"b, \"".to_owned(), "\"\"".to_owned()));
        assert!("rnaseq".parse::<Shape>().is_ok() && "dna".parse::<Shape>().is_err());
    }
}
