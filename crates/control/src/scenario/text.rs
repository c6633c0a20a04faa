//! Quantities written as strings with their unit.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

use crate::units::{BitRate, ByteCount, UnitError, parse_duration};

fn parsed<'de, D, T>(source: D, parse: impl Fn(&str) -> Result<T, UnitError>) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    parse(&String::deserialize(source)?).map_err(Error::custom)
}

pub(super) fn rate<'de, D: Deserializer<'de>>(source: D) -> Result<BitRate, D::Error> {
    parsed(source, str::parse)
}

pub(super) fn optional_rate<'de, D: Deserializer<'de>>(source: D) -> Result<Option<BitRate>, D::Error> {
    rate(source).map(Some)
}

pub(super) fn size<'de, D: Deserializer<'de>>(source: D) -> Result<ByteCount, D::Error> {
    parsed(source, str::parse)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    parsed(source, parse_duration)
}

pub(super) fn optional_duration<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    duration(source).map(Some)
}
