//! How values are written in job files and in the API: numbers, or texts with their units.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use tidegate_control::units::parse_duration;

/// The longest address, option, name or path; a ticket with a long path takes less.
const MAX_TEXT: usize = 8 << 10;

/// Whether a text is one that may be shown and handed on: neither empty nor too long, and without control characters.
pub(super) fn well_formed(what: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("{what} is empty"));
    }
    if text.len() > MAX_TEXT {
        return Err(format!("{what} has {} bytes; at most {MAX_TEXT} are taken", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} has a control character in it"));
    }
    Ok(())
}

/// How a value looks in JSON that is read as `R` and written as `W`.
pub(crate) struct ReadAs<R, W>(PhantomData<(R, W)>);

impl<R: JsonSchema, W: JsonSchema> JsonSchema for ReadAs<R, W> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        W::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match generator.contract().is_serialize() {
            true => generator.subschema_for::<W>(),
            false => R::json_schema(generator),
        }
    }
}

/// One address, or a list of them.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an address, or a list of addresses")]
pub(crate) enum Sources {
    One(String),
    Many(Vec<String>),
}

/// One address, or a list of them.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Sources::deserialize(from).map(|sources| match sources {
        Sources::One(source) => vec![source],
        Sources::Many(sources) => sources,
    })
}

/// A time in seconds as a number, or a text with its unit.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    time(from).map(|time| {
        time.map(|time| match time {
            Time::Number(seconds) => seconds,
            Time::Unit(time) => time.as_secs(),
        })
    })
}

/// The same in milliseconds.
pub(crate) fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    time(from).map(|time| {
        time.map(|time| match time {
            Time::Number(milliseconds) => milliseconds,
            Time::Unit(time) => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        })
    })
}

/// A time as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a time as a number, or a text such as \"30d\" or \"500ms\"")]
pub(crate) enum WrittenTime {
    Number(u64),
    Text(String),
}

enum Time {
    Number(u64),
    Unit(Duration),
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    Ok(match Option::<WrittenTime>::deserialize(from)? {
        None => None,
        Some(WrittenTime::Number(number)) => Some(Time::Number(number)),
        Some(WrittenTime::Text(text)) => {
            Some(Time::Unit(parse_duration(&text).map_err(serde::de::Error::custom)?))
        }
    })
}
