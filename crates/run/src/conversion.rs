//! SRA archives that have arrived become FASTQ, while others still arrive.

mod written;

mod converter;

mod queue;

pub use converter::{ConvertTo, Converter};
pub use queue::{Archive, Converted, Converting};
