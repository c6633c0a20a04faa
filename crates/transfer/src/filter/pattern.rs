//! What one pattern matches: rsync's wildcards, on bytes, compiled once and matched without allocating.

use std::fmt;

/// A pattern, as rsync's manual has it under "pattern matching rules".
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// What it is, after the anchor.
    tokens: Vec<Token>,
    /// The same without `**/` in front: what begins with it matches at the top, too.
    without_prefix: Option<Vec<Token>>,
    /// The same without `/***` at the end: it matches the directory, too.
    without_suffix: Option<Vec<Token>>,
    /// Where in a path it may begin.
    begins: Begins,
    /// Whether it is of directories alone.
    directories: bool,
}

/// Where in a path a pattern may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// At the start alone.
    AtStart,
    /// So many components before the end.
    Components(usize),
    /// At the start and behind every slash.
    Anywhere,
}

#[derive(Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`: one byte, and no slash.
    Any,
    /// `*`: bytes without a slash.
    Star,
    /// `**`: any bytes.
    Stars,
    /// `[…]`: one of these bytes, and no slash.
    Class(Bytes),
}

/// A set of bytes, a bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

impl Pattern {
    /// Compiles `text`; a class that is not closed, or is none, makes a pattern that matches nothing.
    pub fn new(text: &[u8]) -> Self {
        let wild = text.iter().any(|byte| b"*?[".contains(byte));
        let crosses = wild.then(|| text.windows(2).position(|two| two == b"**")).flatten();
        let (body, directories) = match text {
            [body @ .., b'/'] if !body.is_empty() => (body, true),
            body => (body, false),
        };
        let slashes = body.iter().filter(|&&byte| byte == b'/').count();
        let (anchored, body) = match body.strip_prefix(b"/") {
            Some(rest) => (true, rest),
            None => (false, body),
        };
        let begins = match (anchored, crosses) {
            (true, _) | (false, Some(0)) => Begins::AtStart,
            (false, Some(_)) => Begins::Anywhere,
            (false, None) => Begins::Components(slashes + 1),
        };
        let tokens = match wild {
            false => Some(body.iter().copied().map(Token::Byte).collect()),
            true => compile(body),
        };
        let Some(tokens) = tokens else {
            // An empty class is in no path.
            let nothing = vec![Token::Class(Bytes::default())];
            return Self { tokens: nothing, without_prefix: None, without_suffix: None, begins, directories };
        };
        let without_prefix = match &tokens[..] {
            [Token::Stars, Token::Byte(b'/'), rest @ ..] if crosses == Some(0) => Some(rest.to_vec()),
            _ => None,
        };
        let without_suffix = match &tokens[..] {
            [before @ .., Token::Byte(b'/'), Token::Stars] if body.ends_with(b"***") => Some(before.to_vec()),
            _ => None,
        };
        Self { tokens, without_prefix, without_suffix, begins, directories }
    }

    /// Whether it begins at the root, wherever that is.
    pub(crate) fn is_anchored(text: &[u8]) -> bool {
        text.first() == Some(&b'/')
    }

    /// Whether it matches `path`, which is relative to the root.
    pub fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.directories && !is_directory {
            return false;
        }
        self.begin(&self.tokens, path)
            || self.without_prefix.as_ref().is_some_and(|tokens| self.begin(tokens, path))
            || (is_directory && self.without_suffix.as_ref().is_some_and(|tokens| self.begin(tokens, path)))
            || (is_directory && self.is_bare(path))
    }

    /// Whether `**/name/***` is meant and this is a `name` at the top.
    fn is_bare(&self, path: &[u8]) -> bool {
        match (&self.without_prefix, &self.without_suffix) {
            (Some(tokens), Some(_)) if tokens.len() >= 2 => glob(&tokens[..tokens.len() - 2], path),
            _ => false,
        }
    }

    fn begin(&self, tokens: &[Token], path: &[u8]) -> bool {
        match self.begins {
            Begins::AtStart => glob(tokens, path),
            Begins::Components(1) => glob(tokens, crate::path::split(path).1),
            Begins::Components(n) => match path.iter().rev().filter(|&&byte| byte == b'/').count() + 1 {
                all if all < n => false,
                all if all == n => glob(tokens, path),
                _ => {
                    let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
                    slashes.map(|(at, _)| at).nth(n - 1).is_some_and(|at| glob(tokens, &path[at + 1..]))
                }
            },
            Begins::Anywhere => {
                let behind = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
                [0].into_iter().chain(behind).any(|start| glob(tokens, &path[start..]))
            }
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a pattern of {} tokens, {:?}", self.tokens.len(), self.begins)
    }
}

/// Whether `tokens` match all of `text`. Where they fail, the last `*` takes one byte more, or where that cannot go on,
/// the last `**`: what stands before that has taken as little as it can, and nothing is tried twice.
fn glob(tokens: &[Token], text: &[u8]) -> bool {
    if let Some(Token::Byte(last)) = tokens.last()
        && text.last() != Some(last)
    {
        return false;
    }
    let (mut token, mut at) = (0, 0);
    let (mut star, mut stars) = (None::<(usize, usize)>, None::<(usize, usize)>);
    loop {
        let fits = match (tokens.get(token), text.get(at)) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                star = Some((token + 1, at));
                token += 1;
                continue;
            }
            (Some(Token::Stars), _) => {
                (stars, star) = (Some((token + 1, at)), None);
                token += 1;
                continue;
            }
            (None, _) | (_, None) => false,
            (Some(Token::Byte(wanted)), Some(byte)) => wanted == byte,
            (Some(Token::Any), Some(byte)) => *byte != b'/',
            (Some(Token::Class(bytes)), Some(byte)) => *byte != b'/' && bytes.has(*byte),
        };
        if fits {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        let goes_on = |from: usize| text.get(from).is_some_and(|byte| *byte != b'/');
        match (&mut star, &mut stars) {
            (Some((after, from)), _) if goes_on(*from) => {
                *from += 1;
                (token, at) = (*after, *from);
            }
            (_, Some((after, from))) if *from < text.len() => {
                *from += 1;
                star = None;
                (token, at) = (*after, *from);
            }
            _ => return false,
        }
    }
}

/// The tokens of `text`; `None` of what can match nothing.
fn compile(text: &[u8]) -> Option<Vec<Token>> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        tokens.push(match byte {
            b'\\' => {
                at += 1;
                Token::Byte(*text.get(at - 1)?)
            }
            b'?' => Token::Any,
            b'*' => {
                let more = text[at..].iter().take_while(|&&byte| byte == b'*').count();
                at += more;
                if more == 0 { Token::Star } else { Token::Stars }
            }
            b'[' => {
                let (class, length) = class(&text[at..])?;
                at += length;
                class
            }
            byte => Token::Byte(byte),
        });
    }
    Some(tokens)
}

/// The class that `text` begins with, behind its bracket, and how long it is.
fn class(text: &[u8]) -> Option<(Token, usize)> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let (mut at, mut bytes) = (usize::from(negated), Bytes::default());
    // A bracket that comes first is one of the bytes.
    let (mut first, mut before) = (true, None::<u8>);
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            b']' if !first => break,
            b'\\' => {
                let byte = *text.get(at)?;
                at += 1;
                bytes.add(byte);
                before = Some(byte);
            }
            b'-' if before.is_some() && text.get(at).is_some_and(|&next| next != b']') => {
                let mut end = *text.get(at)?;
                at += 1;
                if end == b'\\' {
                    end = *text.get(at)?;
                    at += 1;
                }
                for byte in before.unwrap_or_default()..=end {
                    bytes.add(byte);
                }
                before = None;
            }
            b'[' if text.get(at) == Some(&b':') => {
                let close = at + text[at..].iter().position(|&byte| byte == b']')?;
                match text[at + 1..close].strip_suffix(b":") {
                    // Not closed as a name is: the bytes for themselves.
                    None => {
                        bytes.add(b'[');
                        before = Some(b'[');
                    }
                    Some(name) => {
                        let is_in = named(name)?;
                        (0..=u8::MAX).filter(is_in).for_each(|byte| bytes.add(byte));
                        at = close + 1;
                        before = None;
                    }
                }
            }
            byte => {
                bytes.add(byte);
                before = Some(byte);
            }
        }
        first = false;
    }
    if negated {
        bytes.0.iter_mut().for_each(|bits| *bits = !*bits);
    }
    Some((Token::Class(bytes), at))
}

/// What a POSIX class of that name holds, of ASCII.
fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_rsync_matches() {
        // Pattern, path (with a slash behind a directory), whether it matches: each tried with rsync 3.5.0.
        for (pattern, path, wanted) in [
            ("x/*.o", "x/a.o", true),
            ("x/*.o", "x/y/a.o", false),
            ("x/**.o", "x/y/a.o", true),
            ("x/**/a.o", "x/a.o", false),
            ("/**/z", "y/z", true),
            ("/**/z", "z", false),
            ("**/foo", "foo", true),
            ("foo**", "x/foobar/", true),
            ("**x/y", "xx/y/", true),
            ("d/foo", "e/d/foo", true),
            ("d/foo", "foo", false),
            ("x/**", "x/", false),
            ("x/*", "x/", false),
            ("x/***", "x/", true),
            ("x/***", "x/y/z", true),
            ("x/****", "x/", true),
            ("**/x/***", "x/", true),
            ("foo/", "foo", false),
            ("foo/", "foo/", true),
            ("/x/**/", "x/y/", true),
            ("/x/**/", "x/b", false),
            ("x//foo", "x/foo", false),
            ("./foo", "foo", false),
            ("/x", "s/x", false),
            ("/s/x", "s/x", true),
            ("?", "é", false),
            ("??", "é", true),
            ("*", ".hid", true),
            ("a\\b", "a\\b", true),
            ("a\\\\b", "a\\b", false),
            ("a\\b*", "abc", true),
            ("a\\b*", "a\\b", false),
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            ("[", "[", false),
            ("[a", "[a", false),
            ("[[:foo:]]", "f", false),
            ("[c-a]", "b", false),
            ("a[/]b", "a/b", false),
            ("a[!x]b", "a/b", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "bx", false),
            ("[]-]", "-", true),
            ("[[:digit:]x]*", "x1", true),
            ("[[:digit:]x]*", "y1", false),
            ("*a*b*c", "xaxbxbxc", true),
            ("/", "x", false),
        ] {
            let (name, is_directory) = path.strip_suffix('/').map_or((path, false), |name| (name, true));
            let found = Pattern::new(pattern.as_bytes()).matches(name.as_bytes(), is_directory);
            assert_eq!(found, wanted, "{pattern} and {path}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = Pattern::new(&[b"**a*".repeat(200), b"b".to_vec()].concat());
        assert!(!pattern.matches(&b"a/".repeat(2000), false));
    }
}
