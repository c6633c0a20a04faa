//! What errors of an end that ssh reaches call it and its paths: as they were typed, and not as the endpoint there has them.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_transfer::error::Error;
use tidegate_transfer::text::show;
use tidegate_transfer::wire::ticket::Address;

/// What is said instead of what; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Words(Arc<Mutex<Vec<(String, String)>>>);

impl Words {
    /// Forgets what was said of an earlier try.
    pub fn clear(&self) {
        self.all().clear();
    }

    /// The endpoint at `address` is the host `place`.
    pub fn call(&self, address: &Address, place: &str) {
        let at = address.place();
        self.all().extend([(format!("the endpoint at {at}"), place.to_owned()), (at, place.to_owned())]);
    }

    /// What is called `beneath` the root there was `typed`.
    pub fn path(&self, beneath: &[u8], typed: &[u8]) {
        let trimmed = |path: &[u8]| show(path.strip_suffix(b"/").unwrap_or(path)).into_owned();
        let (beneath, typed) = (trimmed(beneath), trimmed(typed));
        // A short name may be any word of a message.
        if beneath.len() > 1 && beneath != typed {
            self.all().push((format!(" {beneath}"), format!(" {typed}")));
        }
    }

    /// `text` with these words.
    pub fn text(&self, text: &str) -> String {
        let all = self.all();
        all.iter().fold(text.to_owned(), |text, (from, to)| replaced(&text, from, to))
    }

    /// `error` in these words.
    pub fn error(&self, error: Error) -> Error {
        Error { message: self.text(&error.message), ..error }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `text` with `to` for each `from` that is a word or a path's beginning.
fn replaced(text: &str, from: &str, to: &str) -> String {
    let mut rest = text;
    let mut made = String::with_capacity(text.len());
    while let Some(at) = rest.find(from) {
        let behind = &rest[at + from.len()..];
        let ends = behind.chars().next().is_none_or(|c| !c.is_alphanumeric() && !"-_.~".contains(c));
        made.push_str(&rest[..at]);
        made.push_str(if ends { to } else { from });
        rest = behind;
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_called_as_it_was_typed() {
        let words = Words::default();
        let address = Address { ticket: None, host: "127.0.0.1".to_owned(), port: 40471, path: Vec::new() };
        words.call(&address, "ssh://u@dtn");
        words.path(b"data/in/", b"/data/in/");
        words.path(b"home/u/run", b"run");
        for (said, wanted) in [
            (
                "the endpoint at 127.0.0.1:40471: cannot read data/in/x: no",
                "ssh://u@dtn: cannot read /data/in/x: no",
            ),
            ("lost the connection to 127.0.0.1:40471: reset", "lost the connection to ssh://u@dtn: reset"),
            ("cannot write home/u/run/a: no", "cannot write run/a: no"),
            ("cannot make /data/in: no", "cannot make /data/in: no"),
            ("127.0.0.1:404711 and data/inside", "127.0.0.1:404711 and data/inside"),
        ] {
            assert_eq!(words.text(said), wanted);
        }
    }
}
