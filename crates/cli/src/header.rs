//! A line of the head of a request, as it is typed.

use std::fmt;
use std::str::FromStr;

/// A line of the head of a request.
#[derive(Clone, Debug)]
pub struct HeaderLine {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Display for HeaderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl FromStr for HeaderLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("must be 'Name: value'")?;
        let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
        if !plain(name.trim()) || !plain(value.trim()) {
            return Err("must be 'Name: value'".to_owned());
        }
        Ok(Self { name: name.trim().to_lowercase(), value: value.trim().to_owned() })
    }
}
