//! Whether what stands behind `=` is an expression, and where it ends.
//!
//! It is never evaluated, so precedence does not matter: operands with operators between them will do.

use super::token::{Lexer, Token, TokenKind, is_reserved};
use super::{SyntaxError, Value};

/// How deep brackets may lie in brackets, which bounds the stack.
const DEEPEST: u32 = 64;

const BINARY: [&str; 23] = [
    "||", "&&", "|", "^", "&", "==", "!=", "=?=", "=!=", "<", "<=", ">", ">=", "<<", ">>", ">>>", "+", "-",
    "*", "/", "%", "is", "isnt",
];

/// Reads tokens with one in hand.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
    /// The byte behind the last token taken.
    taken: usize,
    /// The last text taken, and where it stood.
    text: Option<(usize, usize, String)>,
    depth: u32,
}

impl<'a> Reader<'a> {
    /// At the first token.
    pub fn new(mut lexer: Lexer<'a>) -> Result<Self, SyntaxError> {
        let next = lexer.next()?;
        Ok(Self { lexer, next, taken: 0, text: None, depth: 0 })
    }

    /// What comes next.
    pub(crate) const fn next_kind(&self) -> &TokenKind<'a> {
        &self.next.kind
    }

    /// The line of what comes next.
    pub const fn line(&self) -> usize {
        self.next.line
    }

    /// An error at what comes next.
    pub fn wrong(&self, message: impl Into<String>) -> SyntaxError {
        let mut message = message.into();
        if self.next.kind == TokenKind::End {
            message.push_str("; the text ends here");
        }
        self.lexer.wrong(self.next.start, message)
    }

    fn take(&mut self) -> Result<TokenKind<'a>, SyntaxError> {
        let next = self.lexer.next()?;
        let token = std::mem::replace(&mut self.next, next);
        self.taken = token.end;
        Ok(token.kind)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.next.kind, TokenKind::Symbol(next) if next == symbol)
    }

    /// Takes `symbol` if it comes next.
    pub fn accept(&mut self, symbol: &str) -> Result<bool, SyntaxError> {
        let found = self.is(symbol);
        if found {
            self.take()?;
        }
        Ok(found)
    }

    /// Takes `symbol`, or says that it is missing.
    pub fn expect(&mut self, symbol: &str, otherwise: &str) -> Result<(), SyntaxError> {
        if self.accept(symbol)? { Ok(()) } else { Err(self.wrong(otherwise)) }
    }

    /// The name of an attribute.
    pub(crate) fn attribute_name(&mut self) -> Result<String, SyntaxError> {
        match &self.next.kind {
            TokenKind::Word(word) if is_reserved(word) => Err(self.wrong(format!(
                "{word} is a word of the language and names no attribute; write '{word}' in single quotes"
            ))),
            TokenKind::Word(_) | TokenKind::QuotedName(_) => Ok(match self.take()? {
                TokenKind::Word(word) => word.to_owned(),
                TokenKind::QuotedName(name) => name,
                _ => String::new(),
            }),
            _ => Err(self.wrong("the name of an attribute, or ']' to end the ad, is missing here")),
        }
    }

    /// The value of an attribute.
    pub fn value(&mut self) -> Result<Value, SyntaxError> {
        let start = self.next.start;
        self.text = None;
        self.expression()?;
        Ok(match self.text.take() {
            // Nothing but a text was taken.
            Some((from, to, text)) if (from, to) == (start, self.taken) => Value::Text(text),
            _ => Value::Expression(self.lexer.slice(start, self.taken).to_owned()),
        })
    }

    fn expression(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("more than {DEEPEST} levels deep")));
        }
        loop {
            self.operand()?;
            if self.accept("?")? {
                if !self.is(":") {
                    self.expression()?;
                }
                self.expect(":", "':' is missing for the '?' before it")?;
                continue;
            }
            let is_binary = match self.next.kind {
                TokenKind::Symbol(symbol) => BINARY.contains(&symbol),
                TokenKind::Word(word) => word.eq_ignore_ascii_case("is") || word.eq_ignore_ascii_case("isnt"),
                _ => false,
            };
            if !is_binary {
                break;
            }
            self.take()?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn operand(&mut self) -> Result<(), SyntaxError> {
        while matches!(self.next.kind, TokenKind::Symbol("-" | "+" | "!" | "~")) {
            self.take()?;
        }
        match &self.next.kind {
            TokenKind::Symbol("(") => {
                self.take()?;
                self.expression()?;
                self.expect(")", "')' is missing before this")?;
            }
            TokenKind::Symbol("{") => {
                self.take()?;
                self.list("}", "',' or '}' is missing before this")?;
            }
            TokenKind::Symbol("[") => self.record()?,
            // An attribute of the ad itself: `.name`.
            TokenKind::Symbol(".") => self.field()?,
            TokenKind::Word(_) => {
                self.take()?;
                if self.accept("(")? {
                    self.list(")", "',' or ')' is missing before this")?;
                }
            }
            TokenKind::QuotedName(_) | TokenKind::Number => drop(self.take()?),
            TokenKind::Text(_) => self.text()?,
            TokenKind::Symbol(_) | TokenKind::End => return Err(self.wrong("a value is missing here")),
        }
        loop {
            if self.is(".") {
                self.field()?;
            } else if self.accept("[")? {
                self.expression()?;
                self.expect("]", "']' is missing before this")?;
            } else {
                return Ok(());
            }
        }
    }

    /// A text; one behind another belongs to it.
    fn text(&mut self) -> Result<(), SyntaxError> {
        let start = self.next.start;
        let mut whole = String::new();
        while let TokenKind::Text(text) = &self.next.kind {
            whole.push_str(text);
            self.take()?;
        }
        self.text = Some((start, self.taken, whole));
        Ok(())
    }

    fn field(&mut self) -> Result<(), SyntaxError> {
        self.take()?;
        match self.next.kind {
            TokenKind::Word(_) | TokenKind::QuotedName(_) => self.take().map(drop),
            _ => Err(self.wrong("a name is missing behind '.'")),
        }
    }

    fn list(&mut self, end: &str, otherwise: &str) -> Result<(), SyntaxError> {
        if self.accept(end)? {
            return Ok(());
        }
        loop {
            self.expression()?;
            if !self.accept(",")? {
                return self.expect(end, otherwise);
            }
        }
    }

    /// An ad as a value.
    fn record(&mut self) -> Result<(), SyntaxError> {
        self.take()?;
        loop {
            while self.accept(";")? {}
            if self.accept("]")? {
                return Ok(());
            }
            self.attribute_name()?;
            self.expect("=", "'=' is missing behind the attribute's name")?;
            self.expression()?;
            if !self.accept(";")? {
                return self.expect("]", "';' or ']' is missing before this");
            }
        }
    }
}
