//! Enumerations whose values people choose by name.

/// An enumeration whose values have names on the command line.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident, $what:literal, { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$doc])* #[cfg_attr(feature = "schema", schemars(rename = $text))] $value,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// Its name on the command line and in columns.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }

        tidegate_control::named!($name);

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl std::str::FromStr for $name {
            type Err = tidegate_transfer::error::Error;

            fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
                use tidegate_transfer::error::{Error, ErrorKind};
                let known = [$($text,)+].join(", ");
                let found = Self::ALL.iter().find(|value| value.name() == text);
                found.copied().ok_or_else(|| {
                    Error::new(ErrorKind::Usage, format!("{text:?} is no {}; there are {known}", $what))
                })
            }
        }
    };
}

pub(crate) use choice;
