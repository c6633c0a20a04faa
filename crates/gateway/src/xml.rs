//! XML, written: S3's answers and WebDAV's.

use quick_xml::escape::escape;

/// A document that grows.
#[derive(Debug)]
pub struct Xml(String);

impl Xml {
    /// Nothing yet.
    pub fn new() -> Self {
        Self("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned())
    }

    /// An element with text.
    pub fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        self.0.push_str(&escape(printable(text)));
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

    fn open(&mut self, name: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push('>');
    }

    /// `name` may have attributes behind it.
    fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name.split(' ').next().unwrap_or(name));
        self.0.push('>');
    }
}

/// XML has no control characters, not even escaped ones.
fn printable(text: &str) -> String {
    let fit = |c: char| match c {
        '\t' | '\n' | '\r' => c,
        c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => '\u{fffd}',
        c => c,
    };
    text.chars().map(fit).collect()
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
