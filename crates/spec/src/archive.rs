//! What is wanted of accessions.

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_fetch::archive::{Format, Layout, Naming, Protocol, ResolveOptions, Source};
use tidegate_fetch::sidecar::Shape;

use crate::form::listed;

/// What is wanted of accessions, and how what is known of them is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Args)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[command(next_help_heading = "Sequence archives")]
pub struct ArchiveSpec {
    /// What files: fastq, sra, sralite or submitted; nothing else is taken in its place unasked
    #[arg(long, value_name = "FORMAT", default_value_t)]
    pub format: Format,
    /// Take another format where the wished one is missing, and say so
    #[arg(long)]
    pub allow_fallback: bool,
    /// Who gives them: auto (ENA, then the open data on AWS, then NCBI), ena, ncbi or aws
    #[arg(long, value_name = "SOURCE", default_value_t)]
    pub source: Source,
    /// How ENA's files are fetched: https or ftp
    #[arg(long, value_name = "PROTOCOL", default_value_t)]
    pub protocol: Protocol,
    /// Where they go: flat, or a directory for each run or experiment
    #[arg(long, value_name = "LAYOUT", default_value_t)]
    pub layout: Layout,
    /// What they are called: as the archive does (archive), or with the experiment in front (fetchngs)
    #[arg(long, value_name = "NAMING", default_value_t)]
    pub name: Naming,
    /// Columns of ENA's to ask for, separated by commas, or 'all'
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    #[serde(with = "listed")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub fields: Vec<String>,
    /// The pipeline that samplesheet.csv is for: rnaseq, atacseq, viralrecon, taxprofiler or generic
    #[arg(long, help_heading = "Beside the files", value_name = "PIPELINE", default_value_t)]
    pub samplesheet: Shape,
}

impl ArchiveSpec {
    /// What is wanted of every run.
    pub fn wish(&self) -> ResolveOptions {
        ResolveOptions {
            format: self.format,
            allow_fallback: self.allow_fallback,
            source: self.source,
            protocol: self.protocol,
            layout: self.layout,
            naming: self.name,
            fields: self.fields.clone(),
        }
    }
}
