//! How hard to push beside the traffic of others.

use serde::{Deserialize, Serialize};

/// How hard to push beside the traffic of others, in words of goodput and of harm: of what a plain TCP flow on the same
/// path loses of its goodput.
///
/// ```
/// use tidegate_control::Share;
///
/// assert_eq!("full".parse(), Ok(Share::Full));
/// assert_eq!(Share::default().to_string(), "fair");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// Yields to others: one stream, whatever more would bring, which is paced by the delay of its packets where Tidegate
    /// sends ([`BackgroundRate`](crate::background::BackgroundRate)).
    Background,
    /// Takes no more beside others than the streams get that would fill the path alone.
    #[default]
    Fair,
    /// As many streams as still bring something, whatever it costs others.
    Full,
}

impl Share {
    /// All of them, from the gentlest on.
    pub const ALL: [Self; 3] = [Self::Background, Self::Fair, Self::Full];

    /// The name used in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Fair => "fair",
            Self::Full => "full",
        }
    }
}

crate::named!(Share, "share");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_is_read_as_it_is_written_and_nothing_else_is() {
        for (share, name) in Share::ALL.into_iter().zip(["background", "fair", "full"]) {
            assert_eq!(share.to_string(), name);
            assert_eq!(name.parse(), Ok(share));
            assert_eq!(serde_json::to_string(&share).ok(), Some(format!("\"{name}\"")));
            assert_eq!(serde_json::from_str(&format!("\"{name}\"")).ok(), Some(share));
        }
        assert_eq!(format!("{:>6}", Share::Full), "  full");
        for text in ["", "Fair", "fair ", "half"] {
            let error = text.parse::<Share>().err();
            assert!(
                error.is_some_and(|why| Share::ALL.iter().all(|share| why.contains(share.name()))),
                "{text}"
            );
        }
    }
}
