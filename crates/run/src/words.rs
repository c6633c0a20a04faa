//! The words of a command in one text: split as a shell splits them, and nothing else done to them.

/// The words of `text`: apart by blanks; `'…'` is taken as it is, in `"…"` and outside of both a backslash takes the
/// next character as it is. No variable, pattern or other command is looked for.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote): (Vec<String>, Option<String>, Option<char>) =
        (Vec::new(), None, None);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                // Nothing between them is a word, too.
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => {
                let next = rest.next().ok_or("it ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("it has no second {open}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell_that_expands_nothing() {
        for (text, wanted) in [
            ("", &[][..]),
            ("  ./rule.py  ", &["./rule.py"]),
            ("rule --gain 2\t-x", &["rule", "--gain", "2", "-x"]),
            ("'my rule' \"a 'b' c\" d\\ e ''", &["my rule", "a 'b' c", "d e", ""]),
            ("a'b'\"c\" \"\\\"\\\\\" '\\'", &["abc", "\"\\", "\\"]),
            ("$HOME * ; `x` | > y", &["$HOME", "*", ";", "`x`", "|", ">", "y"]),
        ] {
            assert_eq!(split(text).expect(text), wanted, "{text}");
        }
        for bad in ["'a", "a \"b", "a\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
