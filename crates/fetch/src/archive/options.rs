//! What is wanted of a run: which format, from whom, under which names.

use crate::choice::choice;

choice! {
    /// What a run's files are.
    #[derive(Default)]
    Format, "format", {
        /// FASTQ as ENA makes it.
        #[default]
        Fastq = "fastq",
        /// SRA with the qualities of the reads.
        Sra = "sra",
        /// SRA Lite: the reads without their own qualities.
        SraLite = "sralite",
        /// What was submitted, such as BAM.
        Submitted = "submitted",
    }
}

choice! {
    /// Who gives the files.
    #[derive(Default)]
    Source, "source", {
        /// ENA, then the open-data mirror on AWS, then what NCBI's locator names; equal ones together.
        #[default]
        Auto = "auto",
        /// ENA alone.
        Ena = "ena",
        /// What NCBI's locator names.
        Ncbi = "ncbi",
        /// The open-data mirror on AWS.
        Aws = "aws",
    }
}

choice! {
    /// How ENA's files are fetched.
    #[derive(Default)]
    Protocol, "protocol", {
        /// HTTPS.
        #[default]
        Https = "https",
        /// FTP.
        Ftp = "ftp",
    }
}

choice! {
    /// Where files go beneath the output directory.
    #[derive(Default)]
    Layout, "layout", {
        /// Right there.
        #[default]
        Flat = "flat",
        /// A directory for each run.
        Run = "run",
        /// A directory for each experiment.
        Experiment = "experiment",
    }
}

choice! {
    /// What files are called.
    #[derive(Default)]
    Naming, "naming", {
        /// As the archive calls them.
        #[default]
        Archive = "archive",
        /// The experiment before the run, as nf-core/fetchngs does: `SRX1_SRR1_1.fastq.gz`.
        Fetchngs = "fetchngs",
    }
}

/// What is wanted of every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolveOptions {
    /// Which files.
    pub format: Format,
    /// Whether another format may be taken where this one is missing; each time that is told.
    pub allow_fallback: bool,
    /// From whom.
    pub source: Source,
    /// How, from ENA.
    pub protocol: Protocol,
    /// Where to.
    pub layout: Layout,
    /// Under which names.
    pub naming: Naming,
    /// Metadata columns of ENA to ask for besides those that are needed; the usual ones if empty, and `all`
    /// for all there are.
    pub fields: Vec<String>,
}

impl ResolveOptions {
    /// What may stand in for what is wished for, best first.
    pub(crate) fn fallbacks(&self) -> impl Iterator<Item = Format> {
        let formats: &[Format] = match self.format {
            Format::Fastq => &[Format::Sra, Format::Submitted, Format::SraLite],
            Format::Sra => &[Format::SraLite],
            Format::SraLite => &[Format::Sra],
            Format::Submitted => &[Format::Fastq, Format::Sra],
        };
        formats.iter().copied()
    }
}

impl Source {
    /// Whether ENA is asked.
    pub(crate) fn has_ena(self) -> bool {
        matches!(self, Self::Auto | Self::Ena)
    }

    /// Whether NCBI is asked.
    pub(crate) fn has_ncbi(self) -> bool {
        self != Self::Ena
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_by_their_names() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
            let options = ResolveOptions { format: *format, ..ResolveOptions::default() };
            assert!(options.fallbacks().all(|other| other != *format));
        }
        assert_eq!("auto".parse(), Ok(Source::Auto));
        let error = "fasta".parse::<Format>().expect_err("not known");
        assert_eq!(error.message, "\"fasta\" is no format; there are fastq, sra, sralite, submitted");
    }
}
