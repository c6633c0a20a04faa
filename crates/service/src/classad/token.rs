//! The words of a ClassAd, with where they stand.

use std::fmt;

use super::SyntaxError;

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind<'a> {
    /// A name, or a keyword such as `is`.
    Word(&'a str),
    /// A name in single quotes.
    QuotedName(String),
    /// A text in double quotes.
    Text(String),
    /// A number.
    Number,
    /// An operator or a bracket.
    Symbol(&'static str),
    /// Nothing follows.
    End,
}

/// A token and where it stands, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    /// What it is.
    pub kind: TokenKind<'a>,
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// The line it begins on, from 1.
    pub line: usize,
}

/// Longer ones first, so that `=` never takes the beginning of `=?=`.
const SYMBOLS: [&str; 35] = [
    ">>>", "=?=", "=!=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "[", "]", "{", "}", "(", ")", ";",
    ",", "=", "?", ":", ".", "<", ">", "+", "-", "*", "/", "%", "!", "~", "&", "|", "^",
];

/// Whether a word names no attribute.
pub(crate) fn is_reserved(word: &str) -> bool {
    ["true", "false", "undefined", "error", "is", "isnt"]
        .iter()
        .any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// Cuts a text into tokens.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// A byte and the line it is on, counted as the text is read.
    counted: (usize, usize),
}

impl<'a> Lexer<'a> {
    /// At the beginning of `text`.
    pub const fn new(text: &'a str) -> Self {
        Self { text, at: 0, counted: (0, 1) }
    }

    /// What was written from byte `start` to `end`.
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..end]
    }

    /// An error at a byte.
    pub fn wrong(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        let before = &self.text[..at];
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        SyntaxError { line: before.matches('\n').count() + 1, column, message: message.into() }
    }

    /// The next token.
    pub fn next(&mut self) -> Result<Token<'a>, SyntaxError> {
        self.skip()?;
        let start = self.at;
        let rest = &self.text[start..];
        let kind = match rest.chars().next() {
            None => TokenKind::End,
            Some('"') => TokenKind::Text(self.quoted('"')?),
            Some('\'') => TokenKind::QuotedName(self.quoted('\'')?),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                self.at += end;
                TokenKind::Word(&rest[..end])
            }
            Some(c) if c.is_ascii_digit() => self.number(rest)?,
            Some('.') if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(rest)?,
            Some(c) => {
                let found = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
                let symbol = found.ok_or_else(|| self.wrong(start, format!("{c:?} means nothing here")))?;
                self.at += symbol.len();
                TokenKind::Symbol(symbol)
            }
        };
        let (from, line) = self.counted;
        self.counted = (start, line + self.text[from..start].matches('\n').count());
        Ok(Token { kind, start, end: self.at, line: self.counted.1 })
    }

    /// Goes past blanks and comments.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if let Some(comment) = trimmed.strip_prefix("/*") {
                let end = comment.find("*/");
                self.at +=
                    4 + end.ok_or_else(|| self.wrong(self.at, "the comment has no end: '*/' is missing"))?;
            } else {
                return Ok(());
            }
        }
    }

    /// A text between two `quote`s, without them and with its escapes undone.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let start = self.at;
        // An octal escape is a byte, and HTCondor writes what is not ASCII by them.
        let mut text = Vec::new();
        let mut rest = self.text[start + 1..].char_indices();
        while let Some((at, c)) = rest.next() {
            match c {
                _ if c == quote => {
                    self.at = start + 1 + at + c.len_utf8();
                    return String::from_utf8(text).map_err(|_| self.wrong(start, "the text is no UTF-8"));
                }
                '\\' => {
                    let place = start + 1 + at;
                    let Some((_, escaped)) = rest.next() else { break };
                    let c = match escaped {
                        'b' => '\u{8}',
                        't' => '\t',
                        'n' => '\n',
                        'f' => '\u{c}',
                        'r' => '\r',
                        '0'..='7' => {
                            let first = escaped.to_digit(8).unwrap_or(0);
                            let most = if first <= 3 { 2 } else { 1 };
                            let mut code = first;
                            for _ in 0..most {
                                let next = rest.clone().next().and_then(|(_, c)| c.to_digit(8));
                                let Some(digit) = next else { break };
                                rest.next();
                                code = code * 8 + digit;
                            }
                            let byte = u8::try_from(code).ok().filter(|&byte| byte != 0);
                            text.push(
                                byte.ok_or_else(|| self.wrong(place, "a text cannot hold the character 0"))?,
                            );
                            continue;
                        }
                        // As in HTCondor, what needs no escape stands for itself.
                        other => other,
                    };
                    push(&mut text, c);
                }
                _ => push(&mut text, c),
            }
        }
        Err(self.wrong(start, format!("the quote {quote} is never closed")))
    }

    /// `12`, `0x1F`, `1.5e-3`, with a factor such as `10M` behind it if there is one.
    fn number(&mut self, rest: &str) -> Result<TokenKind<'a>, SyntaxError> {
        let bytes = rest.as_bytes();
        let digits = |from: usize, hex: bool| {
            let digit = |b: &&u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
            from + bytes[from..].iter().take_while(digit).count()
        };
        let mut end = if bytes.len() > 2 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X') {
            digits(2, true)
        } else {
            let mut end = digits(0, false);
            if bytes.get(end) == Some(&b'.') {
                end = digits(end + 1, false);
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                let exponent = digits(end + 1 + sign, false);
                if exponent > end + 1 + sign {
                    end = exponent;
                }
            }
            end
        };
        if matches!(bytes.get(end), Some(b'B' | b'K' | b'M' | b'G' | b'T' | b'b' | b'k' | b'm' | b'g' | b't'))
        {
            end += 1;
        }
        if bytes.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            return Err(self.wrong(
                self.at + end,
                "a number ends here, and a letter or digit follows; put texts in quotes",
            ));
        }
        self.at += end;
        Ok(TokenKind::Number)
    }
}

fn push(text: &mut Vec<u8>, c: char) {
    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Writes a text in quotes.
pub(crate) fn quote(text: &str, quote: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write;
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            _ if c == quote => write!(f, "\\{c}")?,
            c if u32::from(c) < 0x20 => write!(f, "\\{:03o}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}

/// Writes an attribute's name, in quotes if it needs them.
pub(crate) fn write_name(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plain = name
        .chars()
        .enumerate()
        .all(|(i, c)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit()));
    if plain && !name.is_empty() && !is_reserved(name) { f.write_str(name) } else { quote(name, '\'', f) }
}
