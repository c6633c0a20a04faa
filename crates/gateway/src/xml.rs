//! XML, written: S3's answers and WebDAV's.

use quick_xml::escape::escape;

/// A document that grows.
#[derive(Debug)]
pub(crate) struct Xml(String);

impl Xml {
    /// Nothing yet.
    pub fn new() -> Self {
        Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned())
    }

    /// A part of one, which others stand before.
    pub fn part() -> Self {
        Self(String::new())
    }

    /// An element with text.
    pub fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        let text: String = text.chars().map(printable).collect();
        self.0.push_str(&escape(text));
        self.close(name);
    }

    /// An element with others in it.
    pub fn within(&mut self, name: &str, inner: impl FnOnce(&mut Self)) {
        self.open(name);
        inner(self);
        self.close(name);
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.0
    }

    /// The beginning of an element.
    pub fn open(&mut self, name: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
    }

    /// Its end; `name` may have attributes behind it.
    pub fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name.split(' ').next().unwrap_or(name));
        self.0.push('>');
    }
}

/// XML has no control characters, not even escaped ones.
pub(crate) fn printable(character: char) -> char {
    match character {
        '\t' | '\n' | '\r' => character,
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut xml = Xml::new();
        xml.within("a xmlns=\"b\"", |xml| xml.element("c", "<&>\"\u{1}é"));
        assert!(xml.finish().ends_with("\n<a xmlns=\"b\"><c>&lt;&amp;&gt;&quot;\u{fffd}é</c></a>"));
    }
}
