//! Lists that a peer sends are bounded by their elements, not by the message's bytes alone: an element of one byte
//! on the wire may take a hundred in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A list of at most `N` elements.
pub(crate) struct List<const N: usize, T>(pub Vec<T>);

impl<'de, const N: usize, T: Deserialize<'de>> Deserialize<'de> for List<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        at_most::<N, T, D>(deserializer).map(Self)
    }
}

/// Reads a list of at most `N` elements; for `#[serde(deserialize_with)]`.
pub(crate) fn at_most<'de, const N: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Elements<const N: usize, T>(PhantomData<T>);

    impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for Elements<N, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {N} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
            let too_long = || A::Error::custom(format_args!("more than {N} elements"));
            if sequence.size_hint().is_some_and(|length| length > N) {
                return Err(too_long());
            }
            // Grows with what is there, never with what is claimed.
            let mut list = Vec::new();
            while let Some(element) = sequence.next_element()? {
                if list.len() == N {
                    return Err(too_long());
                }
                list.push(element);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(Elements::<N, T>(PhantomData))
}
