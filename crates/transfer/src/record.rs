//! Fields with tags and lengths, for what is said seldom: a field can be added later, and whoever does not know it skips it
//! or refuses, as whoever added it chose.
//!
//! ```text
//! record = field*            in ascending order of their tags, each tag once
//! field  = tag (varint)      odd: whoever does not know it must refuse; even: it may be skipped
//!          length (varint)
//!          value             postcard, or another record
//! ```
//!
//! A field that has its default value is not written.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What has fields with tags. `tagged!` implements it.
pub trait Tagged: Sized + Default {
    /// What it is called in errors.
    const NAME: &'static str;

    /// Writes the fields that have another value than by default.
    fn write(&self, fields: &mut Writer);

    /// Takes a field's value; `false` if the tag is not known.
    fn read_field(&mut self, tag: u32, value: &[u8]) -> Result<bool>;
}

/// The fields of a `T` as they travel.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record<T> {
    bytes: Vec<u8>,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T: Tagged> Record<T> {
    /// Those of `value`.
    pub fn of(value: &T) -> Self {
        let mut fields = Writer::default();
        value.write(&mut fields);
        Self { bytes: fields.bytes, of: PhantomData }
    }

    /// What they say.
    ///
    /// # Errors
    /// A field cannot be read, comes twice or out of order, or is not known here and must not be skipped.
    pub fn read(&self) -> Result<T> {
        read(&self.bytes)
    }
}

impl<T> Record<T> {
    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether all fields have their defaults.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), of: PhantomData }
    }
}

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self { bytes: Vec::new(), of: PhantomData }
    }
}

impl<T> PartialEq for Record<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Record<T> {}

impl<T: Tagged + std::fmt::Debug> std::fmt::Debug for Record<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.read() {
            Ok(value) => value.fmt(f),
            Err(error) => write!(f, "{} ({error})", T::NAME),
        }
    }
}

/// Fields that are being written.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A field of plain data.
    pub fn plain(&mut self, tag: u32, value: &impl Serialize) {
        let value = postcard::to_stdvec(value).expect("fields are plain data");
        self.field(tag, &value);
    }

    /// A field that is a record.
    pub fn record(&mut self, tag: u32, value: &impl Tagged) {
        let mut fields = Self::default();
        value.write(&mut fields);
        self.field(tag, &fields.bytes);
    }

    fn field(&mut self, tag: u32, value: &[u8]) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = postcard::to_extend(&(tag, value), bytes).expect("bytes are plain data");
    }
}

/// Reads the fields of a `T`.
pub fn read<T: Tagged>(mut bytes: &[u8]) -> Result<T> {
    let mut value = T::default();
    let mut last = None;
    while !bytes.is_empty() {
        let Ok(((tag, field), rest)) = postcard::take_from_bytes::<(u32, &[u8])>(bytes) else {
            return Err(Error::protocol(format!("{} that cannot be read", T::NAME)));
        };
        if last >= Some(tag) {
            return Err(Error::protocol(format!("{} with field {tag} twice or out of order", T::NAME)));
        }
        if !value.read_field(tag, field)? && tag % 2 == 1 {
            let why = format!(
                "{} with a field {tag}, which whoever read it does not know: update that end",
                T::NAME
            );
            return Err(Error::protocol(why));
        }
        (last, bytes) = (Some(tag), rest);
    }
    Ok(value)
}

/// Reads a field of plain data, all of it.
pub fn read_plain<'a, V: Deserialize<'a>>(name: &str, tag: u32, value: &'a [u8]) -> Result<V> {
    match postcard::take_from_bytes(value) {
        Ok((value, [])) => Ok(value),
        _ => Err(Error::protocol(format!("{name} with a field {tag} that cannot be read"))),
    }
}

/// Gives a type's fields their tags; those that are not plain data are followed by what they are: a `record`, an `optional`
/// one, or a `list` with the most elements that it may have.
macro_rules! tagged {
    ($type:ty, $name:literal { $($tag:literal => $field:ident $(: $kind:ident $([$most:expr])?)?,)* }) => {
        impl $crate::record::Tagged for $type {
            const NAME: &'static str = $name;

            fn write(&self, fields: &mut $crate::record::Writer) {
                let default = Self::default();
                // Every field has a tag.
                let Self { $($field),* } = self;
                $(if *$field != default.$field {
                    $crate::record::write_field!(fields, $tag, $field $(, $kind)?);
                })*
                let _ = (fields, default);
            }

            fn read_field(&mut self, tag: u32, value: &[u8]) -> $crate::error::Result<bool> {
                match tag {
                    $($tag => {
                        self.$field = $crate::record::read_field!($name, $tag, value $(, $kind $([$most])?)?);
                    })*
                    _ => {
                        let _ = value;
                        return Ok(false);
                    }
                }
                #[allow(unreachable_code, reason = "where there are no fields")]
                Ok(true)
            }
        }
    };
}

/// How a field of `tagged!` is written.
macro_rules! write_field {
    ($fields:ident, $tag:literal, $value:ident) => {
        $fields.plain($tag, $value)
    };
    ($fields:ident, $tag:literal, $value:ident, record) => {
        $fields.record($tag, $value)
    };
    ($fields:ident, $tag:literal, $value:ident, optional) => {
        $value.iter().for_each(|value| $fields.record($tag, value))
    };
    ($fields:ident, $tag:literal, $value:ident, list) => {
        $fields.plain($tag, $value)
    };
}

/// How it is read.
macro_rules! read_field {
    ($name:literal, $tag:literal, $value:ident) => {
        $crate::record::read_plain($name, $tag, $value)?
    };
    ($name:literal, $tag:literal, $value:ident, record) => {
        $crate::record::read($value)?
    };
    ($name:literal, $tag:literal, $value:ident, optional) => {
        Some($crate::record::read($value)?)
    };
    ($name:literal, $tag:literal, $value:ident, list[$most:expr]) => {{
        let list: $crate::bounded::List<{ $most }, _> = $crate::record::read_plain($name, $tag, $value)?;
        list.0
    }};
}

pub(crate) use {read_field, tagged, write_field};

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Inner {
        name: String,
    }

    impl Default for Inner {
        fn default() -> Self {
            Self { name: "usual".to_owned() }
        }
    }

    #[derive(Debug, Default, PartialEq)]
    struct Outer {
        number: u64,
        inner: Inner,
        perhaps: Option<Inner>,
        list: Vec<u8>,
    }

    tagged!(Inner, "an inner" { 1 => name, });
    tagged!(Outer, "an outer" { 2 => number, 3 => inner: record, 5 => perhaps: optional, 8 => list: list[3], });

    fn outer() -> Outer {
        let inner = |name: &str| Inner { name: name.to_owned() };
        Outer { number: 300, inner: inner("a"), perhaps: Some(inner("usual")), list: vec![1, 2] }
    }

    #[test]
    fn fields_survive_the_wire_and_defaults_take_no_byte() {
        for value in [outer(), Outer::default(), Outer { number: 1, ..Outer::default() }] {
            assert_eq!(Record::of(&value).read(), Ok(value));
        }
        assert!(Record::of(&Outer::default()).is_empty());
        assert_eq!(Record::of(&Outer { number: 300, ..Outer::default() }).bytes, [2, 2, 0xac, 2]);
    }

    #[test]
    fn what_is_not_known_is_skipped_or_refused_as_its_tag_says() {
        let with = |tag: u32| {
            let mut fields = Writer::default();
            fields.plain(2, &7_u64);
            fields.plain(tag, &"new");
            read::<Outer>(&fields.bytes)
        };
        assert_eq!(with(10), Ok(Outer { number: 7, ..Outer::default() }));
        let error = with(11).expect_err("critical");
        assert_eq!(
            error.message,
            "an outer with a field 11, which whoever read it does not know: update that end"
        );
        // Within another record, too.
        let mut fields = Writer::default();
        fields.plain(9, &1);
        let inner = fields.bytes;
        let mut fields = Writer::default();
        fields.field(3, &inner);
        assert!(
            read::<Outer>(&fields.bytes)
                .expect_err("critical")
                .message
                .starts_with("an inner with a field 9")
        );
    }

    #[test]
    fn fields_that_come_twice_out_of_order_damaged_or_too_long_are_refused() {
        let two = |first: u32, second: u32| {
            let mut fields = Writer::default();
            fields.plain(first, &1_u64);
            fields.plain(second, &1_u64);
            read::<Outer>(&fields.bytes).expect_err("refused").message
        };
        assert!(two(2, 2).contains("field 2 twice") && two(4, 2).contains("field 2 twice or out of order"));
        let mut long = Writer::default();
        long.plain(8, &[1_u8; 4][..].to_vec());
        let mut more = Writer::default();
        more.field(2, &[1, 1]);
        for bytes in [&long.bytes[..], &more.bytes, &[2], &[2, 9, 1], &[0xff; 9]] {
            let error = read::<Outer>(bytes).expect_err("refused");
            assert!(error.message.contains("cannot be read"), "{error}");
        }
    }
}
