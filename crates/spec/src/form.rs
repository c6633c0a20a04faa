//! How values are written in a spec: as texts that the command line reads, too, or as plain numbers of their unit.

/// Times: seconds as a number, or a text with its unit.
pub mod time {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};
    use tidegate_control::units::parse_duration;

    /// A time as it is written.
    #[derive(Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
    #[serde(untagged, expecting = "a time in seconds, or a text such as \"30s\" or \"500ms\"")]
    pub enum WrittenTime {
        /// Seconds.
        Seconds(f64),
        /// The same with its unit, as `30s` or `500ms`.
        Text(String),
    }

    /// Writes seconds with their unit.
    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}s", time.as_secs_f64()))
    }

    /// Reads either.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        match WrittenTime::deserialize(from)? {
            WrittenTime::Text(text) => parse_duration(&text).map_err(serde::de::Error::custom),
            WrittenTime::Seconds(seconds) => {
                let time = Duration::try_from_secs_f64(seconds);
                time.map_err(|_| serde::de::Error::custom(format!("{seconds} is no time in seconds")))
            }
        }
    }

    /// The same where it may be left out.
    pub mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer};

        #[derive(Deserialize)]
        struct Time(#[serde(with = "super")] Duration);

        /// Writes it, or null.
        pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
            match time {
                Some(time) => super::serialize(time, to),
                None => to.serialize_none(),
            }
        }

        /// Reads it, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<Time>::deserialize(from)?.map(|Time(time)| time))
        }
    }
}

/// Values that may be left out, each by the text that shows it and that it is read from.
pub mod text_option {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it, or null.
    pub fn serialize<S: Serializer, T: Display>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    /// Reads it, or null.
    pub fn deserialize<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// Numbers of bytes that may be left out: a number, or a text with rsync's suffixes.
pub(crate) mod size_option {
    use serde::{Deserialize, Deserializer};
    use tidegate_transfer::selection::bounds::rsync_size;

    /// A size as it is written.
    #[derive(Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
    #[serde(untagged, expecting = "a number of bytes, or a text such as \"1.5M\"")]
    pub(crate) enum WrittenSize {
        /// Bytes.
        Bytes(u64),
        /// The same with rsync's suffixes, as `1.5M`.
        Text(String),
    }

    /// Reads either, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Ok(match Option::<WrittenSize>::deserialize(from)? {
            Some(WrittenSize::Text(text)) => Some(rsync_size(&text).map_err(serde::de::Error::custom)?),
            Some(WrittenSize::Bytes(bytes)) => Some(bytes),
            None => None,
        })
    }
}

/// What one more stream must add, which may be left out: a share, a rate, or either as it is written.
pub mod threshold {
    use serde::{Deserialize, Deserializer};
    use tidegate_control::throughput_model::sampling::Threshold;

    /// A threshold as it is written.
    #[derive(Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
    #[serde(untagged, expecting = "a share such as 0.1 or \"10%\", or a rate such as \"20Mbit/s\"")]
    pub enum WrittenThreshold {
        /// A share of what the first stream carries.
        Share(f64),
        /// A share, as `10%`, or a rate, as `20Mbit/s`.
        Text(String),
        /// Either, by its name.
        Threshold(Threshold),
    }

    /// Reads it, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Threshold>, D::Error> {
        Ok(match Option::<WrittenThreshold>::deserialize(from)? {
            None => None,
            Some(WrittenThreshold::Share(share)) => Some(Threshold::Relative(share)),
            Some(WrittenThreshold::Text(text)) => Some(text.parse().map_err(serde::de::Error::custom)?),
            Some(WrittenThreshold::Threshold(threshold)) => Some(threshold),
        })
    }
}

/// Lists of values, each by the text that shows it and that it is read from.
pub mod texts {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes each.
    pub fn serialize<S: Serializer, T: Display>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(ToString::to_string))
    }

    /// Reads each.
    pub fn deserialize<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
    }
}

/// Lists of values as [`texts`], where one text may hold several with commas between.
pub mod listed {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes each.
    pub fn serialize<S: Serializer, T: Display>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
        super::texts::serialize(values, to)
    }

    /// Reads each.
    pub fn deserialize<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: FromStr<Err: Display>,
    {
        let texts = Vec::<String>::deserialize(from)?;
        let values = texts.iter().flat_map(|text| text.split(','));
        values.map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
    }
}

/// Words of the operating system: a text, or its bytes where they are none.
pub(crate) mod word {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A word.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
    #[serde(untagged, expecting = "a text, or the bytes of one that is no UTF-8")]
    pub(crate) enum WrittenWord {
        /// A text.
        Text(String),
        /// The bytes of one that is no UTF-8.
        Bytes(Vec<u8>),
    }

    /// Writes it.
    pub fn serialize<S: Serializer>(word: &OsString, to: S) -> Result<S::Ok, S::Error> {
        match word.to_str() {
            Some(text) => to.serialize_str(text),
            None => word.as_bytes().serialize(to),
        }
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OsString, D::Error> {
        Ok(match WrittenWord::deserialize(from)? {
            WrittenWord::Text(text) => text.into(),
            WrittenWord::Bytes(bytes) => OsString::from_vec(bytes),
        })
    }
}

/// Paths that may be left out, as words are.
pub mod path_option {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Word(#[serde(with = "super::word")] OsString);

    /// Writes it, or null.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        match path {
            Some(path) => super::word::serialize(&path.clone().into_os_string(), to),
            None => to.serialize_none(),
        }
    }

    /// Reads it, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Word>::deserialize(from)?.map(|Word(path)| path.into()))
    }
}

/// Lists of such words.
pub mod words {
    use std::ffi::OsString;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Word(#[serde(with = "super::word")] OsString);

    /// Writes each.
    pub fn serialize<S: Serializer>(words: &[OsString], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(words.iter().cloned().map(Word))
    }

    /// Reads each.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<Word>::deserialize(from)?.into_iter().map(|Word(word)| word).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Values {
        #[serde(with = "super::time")]
        time: Duration,
        #[serde(with = "super::time::option")]
        perhaps: Option<Duration>,
        #[serde(with = "super::word")]
        word: OsString,
        #[serde(with = "super::path_option")]
        path: Option<PathBuf>,
        #[serde(with = "super::listed")]
        numbers: Vec<u8>,
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        for word in [OsString::from("ä"), OsString::from_vec(vec![0xff, b'/'])] {
            let (path, numbers) = (Some(PathBuf::from(&word)), vec![1, 2]);
            let values = Values { time: Duration::from_millis(1500), perhaps: None, word, path, numbers };
            let text = serde_json::to_string(&values).expect("plain data");
            assert!(text.contains("\"1.5s\""), "{text}");
            assert_eq!(serde_json::from_str::<Values>(&text).expect("read"), values);
        }
        let read = |time: &str| {
            let text = format!(
                "{{\"time\":{time},\"perhaps\":\"2min\",\"word\":\"\",\"path\":null,\"numbers\":[\"1,2\"]}}"
            );
            serde_json::from_str::<Values>(&text).map(|values| (values.time, values.perhaps))
        };
        let minutes = Some(Duration::from_secs(120));
        assert_eq!(read("3").expect("seconds"), (Duration::from_secs(3), minutes));
        assert_eq!(read("\"250ms\"").expect("a text"), (Duration::from_millis(250), minutes));
        for wrong in ["-1", "\"3\"", "\"soon\"", "[]", "1e300"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
