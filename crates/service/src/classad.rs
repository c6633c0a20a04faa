//! ClassAds as HTCondor writes them, and Stork's users: `[ dap_type = transfer; src_url = "…"; … ]`, several in a file.
//!
//! An expression is checked to be one and kept as it was written: `transfer` without quotes would evaluate to
//! nothing, and is meant as a word. What is not known here is kept and can be given back.

mod expression;
mod token;

use std::fmt;

use thiserror::Error;

use expression::Reader;
use token::{Lexer, TokenKind};

/// The most bytes of a file of ads.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The most attributes of one ad.
const MAX_ATTRIBUTES: usize = 1000;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct SyntaxError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// A ClassAd: attributes in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassAd {
    attributes: Vec<Attribute>,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name as written; upper and lower case are the same.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// The line it began on; 0 for one that was not read.
    pub line: usize,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text in quotes, without them.
    Text(String),
    /// Any other expression, as it was written.
    Expression(String),
}

impl Value {
    /// The text, or the word that stands there without quotes.
    pub fn as_word(&self) -> &str {
        match self {
            Self::Text(text) | Self::Expression(text) => text,
        }
    }

    /// The same, where it is a text or a word: a number, a list and a call are none, and would be names of files.
    pub(crate) fn as_text(&self) -> Option<&str> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self {
            Self::Text(text) => Some(text),
            Self::Expression(word) => {
                let is_word = word.chars().all(is_plain) && !word.starts_with(|c: char| c.is_ascii_digit());
                (is_word && !token::is_reserved(word)).then_some(word)
            }
        }
    }

    /// `YES`, `TRUE`, `NO` or `FALSE`, in quotes or without.
    pub(crate) fn as_switch(&self) -> Option<bool> {
        match self.as_word().to_ascii_lowercase().as_str() {
            "yes" | "true" => Some(true),
            "no" | "false" => Some(false),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.replace('\0', "\u{fffd}"))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Expression(value.to_string())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Expression(number.to_string())
    }
}

impl From<&ClassAd> for Value {
    fn from(ad: &ClassAd) -> Self {
        Self::Expression(ad.to_string())
    }
}

/// A list of ads.
impl From<&[ClassAd]> for Value {
    fn from(ads: &[ClassAd]) -> Self {
        let written: Vec<String> = ads.iter().map(ClassAd::to_string).collect();
        Self::Expression(format!("{{ {} }}", written.join(", ")))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => token::quote(text, '"', f),
            Self::Expression(text) => f.write_str(text),
        }
    }
}

impl ClassAd {
    /// Reads all ads in `text`.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, SyntaxError> {
        if text.len() > MAX_BYTES {
            let message = format!("the file has {} bytes; at most {MAX_BYTES} are taken", text.len());
            return Err(SyntaxError { line: 1, column: 1, message });
        }
        let mut reader = Reader::new(Lexer::new(text))?;
        let mut ads = Vec::new();
        while reader.next_kind() != &TokenKind::End {
            ads.push(Self::read(&mut reader)?);
        }
        Ok(ads)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, SyntaxError> {
        let mut ad = Self::default();
        reader.expect("[", "an ad begins with '['")?;
        loop {
            while reader.accept(";")? {}
            if reader.accept("]")? {
                return Ok(ad);
            }
            let line = reader.line();
            let name = reader.attribute_name()?;
            reader.expect("=", "'=' is missing behind the attribute's name")?;
            let value = reader.value()?;
            // As in HTCondor, what is said later counts.
            ad.set(Attribute { name, value, line });
            if ad.attributes.len() > MAX_ATTRIBUTES {
                return Err(reader.wrong(format!("the ad has more than {MAX_ATTRIBUTES} attributes")));
            }
            if !reader.accept(";")? {
                reader.expect("]", "';' or ']' is missing before this")?;
                return Ok(ad);
            }
        }
    }

    /// The ad with another attribute.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(Attribute { name: name.to_owned(), value: value.into(), line: 0 });
        self
    }

    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attribute(name).map(|attribute| &attribute.value)
    }

    /// The attribute of that name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }

    /// All attributes in order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Adds an attribute, or gives it another value.
    pub fn set(&mut self, attribute: Attribute) {
        match self.attributes.iter_mut().find(|known| known.name.eq_ignore_ascii_case(&attribute.name)) {
            Some(known) => *known = attribute,
            None => self.attributes.push(attribute),
        }
    }
}

impl fmt::Display for ClassAd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[\n")?;
        for attribute in &self.attributes {
            f.write_str("  ")?;
            token::write_name(&attribute.name, f)?;
            writeln!(f, " = {};", attribute.value)?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> ClassAd {
        let mut ads = ClassAd::parse_all(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ads.len(), 1, "{text}");
        ads.remove(0)
    }

    #[test]
    fn comments_escapes_and_nested_values_are_read() {
        let ad = one(concat!(
            "// a job\n[ A = \"x\\\"\\\\\\n\\101y\\303\\274\"; /* and\nmore */ b = {1, 2.5e3, \"]\"};\n",
            "  c = [ d = 1; e = a.b[0] ]; 'odd name' = x =?= undefined ? f(1, \"a;b\") : -3 ;; ]"
        ));
        assert_eq!(ad.get("a"), Some(&Value::Text("x\"\\\nAyü".to_owned())));
        assert_eq!(ad.get("B"), Some(&Value::Expression("{1, 2.5e3, \"]\"}".to_owned())));
        assert_eq!(ad.get("c"), Some(&Value::Expression("[ d = 1; e = a.b[0] ]".to_owned())));
        assert!(ad.get("odd name").is_some());
        assert_eq!(one("[a=1;A=2]").attributes().len(), 1);
        assert_eq!(ClassAd::parse_all("[] [a = b] // end").map(|ads| ads.len()), Ok(2));
        assert_eq!(ClassAd::parse_all(" \n// nothing").map(|ads| ads.len()), Ok(0));
    }

    #[test]
    fn what_is_put_together_is_read_as_what_it_was() {
        let inner = ClassAd::default().with("Why", "no \"room\"\nhere\0");
        let list: &[ClassAd] = &[inner.clone(), ClassAd::default()];
        let ad = ClassAd::default().with("Ok", true).with("N", -1).with("Inner", &inner).with("List", list);
        let read = one(&ad.to_string());
        assert_eq!(read.get("ok").and_then(Value::as_switch), Some(true));
        assert_eq!(read.get("n").map(Value::as_word), Some("-1"));
        let inner = one(read.get("inner").expect("an ad").as_word());
        assert_eq!(inner.get("why").map(Value::as_word), Some("no \"room\"\nhere\u{fffd}"));
        assert!(read.get("list").is_some_and(|list| list.as_word().starts_with("{ [")));
    }

    #[test]
    fn errors_tell_line_and_column() {
        for (text, line, column, words) in [
            ("[\n a = 1\n b = 2;\n]", 3, 2, "';'"),
            ("[ a 1; ]", 1, 5, "'='"),
            ("[ a = ; ]", 1, 7, "value"),
            ("[ a = \"x;\n b = 1; ]", 1, 7, "quote"),
            ("[ a = 1; ", 1, 10, "end"),
            ("a = 1;", 1, 1, "'['"),
            ("[ ü = 1 ]", 1, 3, "ü"),
            ("[ a = \"\\303\"; ]", 1, 7, "UTF-8"),
            ("[ a = (1 + 2; ]", 1, 13, "')'"),
            ("[ a = 1 + ; ]", 1, 11, "value"),
            ("[ error = 1 ]", 1, 3, "error"),
            ("[ a = /* x ]", 1, 7, "comment"),
            ("[ a = 1 ] ]", 1, 11, "'['"),
        ] {
            let error = ClassAd::parse_all(text).expect_err(text);
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
            assert!(error.message.contains(words) && !error.message.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |open: &str, n: usize| format!("[ a = {} ]", open.repeat(n));
        for open in ["(", "{", "[ a = ", "-", "!", "a ? "] {
            assert!(ClassAd::parse_all(&deep(open, 100_000)).is_err(), "{open}");
        }
    }

    fn value() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            any::<u32>().prop_map(|n| n.to_string()),
            "[a-z][a-z0-9_]{0,6}".prop_filter("a word", |word| !token::is_reserved(word)),
            any::<String>().prop_map(|text| Value::Text(text.replace('\0', "")).to_string()),
            Just("0x1F".to_owned()),
            Just("1.5E-3".to_owned()),
            Just("true".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                (inner.clone(), "(\\+|\\*|&&|\\|\\||==|=\\?=|is|<=|>>>)", inner.clone())
                    .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|list| format!("{{ {} }}", list.join(", "))),
                prop::collection::vec(inner.clone(), 0..3).prop_map(|list| format!("f({})", list.join(","))),
                inner.clone().prop_map(|a| format!("[ x = {a}; ]")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) ? /* c */ {b} : ({b})[{a}]")),
                inner.prop_map(|a| format!("!({a}) // end\n + 1")),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_as_the_same(
            entries in prop::collection::vec((".{1,12}", value()), 0..8),
            gap in "[ \\n\\t]{0,3}",
        ) {
            let mut text = format!("{gap}[");
            for (name, value) in &entries {
                let name = name.replace('\0', "x");
                text.push_str(&format!("{gap}'{}'{gap}={gap}{value}{gap};", name.replace('\\', "\\\\").replace('\'', "\\'")));
            }
            text.push_str("]\n[ b = 1 ]");
            let read = ClassAd::parse_all(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
            let printed: String = read.iter().map(|ad| format!("{ad}\n")).collect();
            let again = ClassAd::parse_all(&printed).map_err(|error| TestCaseError::fail(format!("{printed}: {error}")))?;
            let strip = |ads: Vec<ClassAd>| -> Vec<Vec<(String, Value)>> {
                ads.into_iter().map(|ad| ad.attributes.into_iter().map(|a| (a.name, a.value)).collect()).collect()
            };
            prop_assert_eq!(strip(again), strip(read));
        }

        #[test]
        fn garbage_never_panics(text in "[\\[\\]{}();=a-z0-9\"'/*?:.,<>!& \\n\\\\-]{0,200}", other in any::<String>()) {
            for text in [&text, &other] {
                if let Err(error) = ClassAd::parse_all(text) {
                    prop_assert!(error.line >= 1 && error.column >= 1);
                    prop_assert!(!error.to_string().contains('\n'));
                }
            }
        }
    }
}
