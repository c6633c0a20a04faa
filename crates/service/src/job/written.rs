//! Summaries of jobs as the API and the queue have them: with the streams, averaged, as a number of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_contract::summary::Summary;

/// A summary with that number.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Summary")]
pub(crate) struct Written {
    #[serde(flatten)]
    summary: Summary,
    /// The network's part of `concurrency_mean`, which is all that older services wrote of it.
    #[serde(default)]
    streams_mean: f64,
}

impl From<&Summary> for Written {
    fn from(summary: &Summary) -> Self {
        Self { summary: summary.clone(), streams_mean: summary.concurrency_mean.network }
    }
}

impl From<Written> for Summary {
    fn from(Written { mut summary, streams_mean }: Written) -> Self {
        summary.concurrency_mean.network = streams_mean;
        summary
    }
}

/// That of a job, if it has one.
pub(crate) fn serialize<S: Serializer>(summary: &Option<Summary>, to: S) -> Result<S::Ok, S::Error> {
    summary.as_ref().map(Written::from).serialize(to)
}

/// The same, read.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Summary>, D::Error> {
    Ok(Option::<Written>::deserialize(from)?.map(Summary::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_service_wrote_is_read_and_what_it_showed_is_shown() {
        let older = r#"{"status":"complete","bytes":7,"streams_mean":2.5,"error":null,"failures":[]}"#;
        let summary = Summary::from(serde_json::from_str::<Written>(older).expect("a summary"));
        assert_eq!((summary.bytes, summary.concurrency_mean.network, &summary.error), (7, 2.5, &None));
        let shown = serde_json::to_value(Written::from(&summary)).expect("JSON");
        assert_eq!((&shown["streams_mean"], &shown["status"]), (&2.5.into(), &"complete".into()));
    }
}
