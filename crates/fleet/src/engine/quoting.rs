//! Words in scripts and manifests: whatever they hold, they stay one word.

use std::str::FromStr;

use tidegate_transfer::error::{Result, usage};

/// Whether an engine takes it as it is, in a line of options: such lines have no quotes that could be relied on.
pub fn plain_word(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:@/+=[]*&|-".contains(c);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

/// An option of an engine's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOption {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// A plain word, or nothing.
    pub value: Option<String>,
}

impl FromStr for EngineOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.starts_with('-') || !name.chars().all(in_name) {
            return Err(
                "a name is of letters, digits, '_' and '-', and stands without dashes before it".to_owned()
            );
        }
        if value.is_some_and(|value| !plain_word(value)) {
            return Err("a value is of letters, digits and _.,:@/+=[]*&|-".to_owned());
        }
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }
}

/// A word of a POSIX shell.
pub fn shell_word(word: &str) -> Result<String> {
    let quoted = shlex::try_quote(word).map_err(|_| usage(format!("{word:?} holds a zero byte")))?;
    Ok(quoted.into_owned())
}

/// A line of words of a POSIX shell.
pub fn shell_words(words: &[&str]) -> Result<String> {
    let words: Result<Vec<String>> = words.iter().map(|word| shell_word(word)).collect();
    Ok(words?.join(" "))
}

/// A string in double quotes that YAML and Python read alike. They agree on no pair of surrogates, so that only what cannot
/// stand for itself is escaped.
pub fn double_quoted(text: &str) -> String {
    use std::fmt::Write;
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_word_is_refused() {
        for word in ["dtn", "gpu:2", "a,b", "4:00:00", "node[1-4]", "reg.org/image@sha256:0a"] {
            assert!(plain_word(word), "{word}");
        }
        for word in ["", "-x", "a b", "a\nb", "a'b", "a\"b", "$(x)", "a%j", "a;b", "a#b", "a\\b", "é"] {
            assert!(!plain_word(word), "{word}");
        }
        assert!("time=4:00:00".parse::<EngineOption>().is_ok_and(|option| option.name == "time"));
        for text in ["--time=1", "=1", "a b=1", "a=b c", "a=", "a\n=1"] {
            assert!(text.parse::<EngineOption>().is_err(), "{text}");
        }
    }
}
