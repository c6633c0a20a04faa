//! A digest by which a record that is there already is known again, so that importing twice changes nothing.

use super::record::Record;

/// 64 bits of the record's digest: among ten million records two share one with a probability of 3 in a million.
pub(crate) fn identity(record: &Record) -> i64 {
    let text = serde_json::to_vec(record).expect("records are plain data");
    let digest = blake3::hash(&text);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    i64::from_be_bytes(first)
}
