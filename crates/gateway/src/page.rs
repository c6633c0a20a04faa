//! A directory as an answer: a page for people, JSON for programs.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use data_encoding::{BASE64, HEXLOWER};
use quick_xml::escape::escape;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_control::ByteCount;
use tidegate_transfer::endpoint::access::url_path;
use tidegate_transfer::path::split;

use crate::body::{Pieces, text};
use crate::hashes::{BLAKE3, HASH, Hashes};
use crate::tree::Item;
use crate::validators::date_time;

/// Most things on a page.
pub(crate) const PAGE: usize = 10_000;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}table{width:100%;border-collapse:collapse}\
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid #8884}\
td:first-child{overflow-wrap:anywhere}\
.h{overflow-wrap:anywhere;font:.75rem/1.2 ui-monospace,monospace}\
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
a{text-decoration:none}a:hover{text-decoration:underline}:root{color-scheme:light dark}\
@media(max-width:40rem){body{margin:1rem auto}\
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}\
tr{display:flex;flex-wrap:wrap;gap:0 .75rem;padding:.4rem 0;border-bottom:1px solid #8884}\
td{border:0;padding:0}td:empty{display:none}td:first-child{flex:1 0 100%}\
td:first-child a{display:block;padding:.4rem 0}.n{font-size:.875rem;opacity:.75}\
.h:not(:empty){flex:1 0 100%;padding:.25rem 0}.h:not(:empty)::before{content:\"BLAKE3 \";opacity:.75}\
p a{display:inline-block;padding:.4rem .2rem}}";

/// A part of a directory.
#[derive(Debug)]
pub struct Page {
    /// The directory's path, without a slash at its end.
    pub path: Vec<u8>,
    /// The key behind which there is more.
    pub last: Option<Vec<u8>>,
    /// Whether the directory that contains it may be looked at.
    pub(crate) has_parent: bool,
    /// What of the files' content is known.
    pub hashes: Arc<Hashes>,
    /// What its links carry along, so that they open: the token of the link by which the page was reached.
    pub token: Option<String>,
}

#[derive(Serialize)]
struct Entry<'p> {
    name: String,
    /// The name, as it stands in a URL: exact whatever its bytes are.
    href: String,
    r#type: &'static str,
    size: Option<u64>,
    modified: String,
    etag: &'p str,
    /// As far as somebody has asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    blake3: Option<String>,
}

/// The form in which a directory is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A page for people.
    Html,
    /// For programs.
    Json,
}

/// The form that `headers` ask for.
pub(crate) fn form(headers: &HeaderMap) -> Form {
    let accepted = headers.get_all("accept").iter().filter_map(|value| value.to_str().ok());
    let html = accepted.flat_map(|list| list.split(',')).any(|kind| kind.trim().starts_with("text/html"));
    if html { Form::Html } else { Form::Json }
}

impl Page {
    /// The headers of an answer in `form`.
    pub fn describe(form: Form, headers: &mut HeaderMap) {
        let kind = match form {
            Form::Json => "application/json",
            Form::Html => "text/html; charset=utf-8",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let (Form::Html, Ok(policy)) = (form, HeaderValue::from_str(policy())) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
    }

    /// Its text in `form`, of what `items` gives.
    pub fn pieces(self, form: Form, items: impl Iterator<Item = Item> + Send + 'static) -> Pieces {
        let mut items = items.map(Ok).peekable();
        let is_empty = items.peek().is_none();
        let page = Arc::new(self);
        let (before, behind) = match form {
            Form::Json => (page.json_head(), page.json_foot()),
            Form::Html => (page.html_head(), page.html_foot(is_empty)),
        };
        let mut is_first = true;
        let write = move |item: &Item, text: &mut String| match form {
            Form::Html => page.html_row(item, text),
            Form::Json => {
                text.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
                text.push_str(&json(&page.entry(item)));
            }
        };
        text(before, items, write, move || behind)
    }

    /// A link from the page; its token comes first among what it carries.
    fn link(&self, to: &str, query: &str) -> String {
        let token = self.token.as_ref().map(|token| format!("token={token}"));
        let query: Vec<&str> =
            token.as_deref().into_iter().chain((!query.is_empty()).then_some(query)).collect();
        if query.is_empty() { to.to_owned() } else { format!("{to}?{}", query.join("&")) }
    }

    fn href(&self, item: &Item) -> String {
        // With a dot, lest a name with a colon is taken for a scheme.
        let end = if item.is_directory() { "/" } else { "" };
        self.link(&format!("./{}{end}", url_path(&item.name)), "")
    }

    /// What the file hashes to, or a link that has it made.
    fn hash(&self, item: &Item) -> String {
        match self.hashes.known(BLAKE3, &item.version) {
            Some(digest) => HEXLOWER.encode(&digest),
            None => {
                let href = self.link(&format!("./{}", url_path(&item.name)), HASH);
                format!("<a href=\"{}\">make</a>", escape(href))
            }
        }
    }

    fn next(&self) -> Option<String> {
        let last = self.last.as_ref()?;
        Some(self.link("./", &format!("after={}", url_path(last))))
    }

    fn entry<'p>(&self, item: &'p Item) -> Entry<'p> {
        let r#type = if item.is_directory() { "directory" } else { "file" };
        let name = String::from_utf8_lossy(&item.name).into_owned();
        let (modified, etag) = (date_time(item.version.modified), &item.version.tag[..]);
        let blake3 = self.hashes.known(BLAKE3, &item.version).map(|digest| HEXLOWER.encode(&digest));
        Entry { name, href: self.href(item), r#type, size: item.size, modified, etag, blake3 }
    }

    fn json_head(&self) -> String {
        format!("{{\"path\":{},\"entries\":[", json(&self.shown()))
    }

    /// Where the rest is.
    fn json_foot(&self) -> String {
        format!("],\"next\":{}}}", json(&self.next()))
    }

    fn shown(&self) -> String {
        format!("/{}", String::from_utf8_lossy(&self.path))
    }

    fn html_head(&self) -> String {
        let path = self.shown();
        let path = escape(&path);
        let title = String::from_utf8_lossy(split(&self.path).1);
        let title = if title.is_empty() { "/".into() } else { escape(&*title) };
        let mut head = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
             <style>{STYLE}</style></head><body><h1>{path}</h1>\n<p>Download all of it: <a href=\"{}\">tar</a> \
             or <a href=\"{}\">zip</a></p>\n<table><thead><tr><th>Name</th><th class=\"n\">Size</th>\
             <th class=\"n\">Modified (UTC)</th><th>BLAKE3</th></tr></thead><tbody>\n",
            escape(self.link("./", "archive=tar")),
            escape(self.link("./", "archive=zip")),
        );
        if self.has_parent {
            row(&mut head, &self.link("../", ""), "../", ">", "", "");
        }
        head
    }

    fn html_row(&self, item: &Item, text: &mut String) {
        let name = String::from_utf8_lossy(&item.name);
        let end = if item.is_directory() { "/" } else { "" };
        let title = |size: u64| format!(" title=\"{size} bytes\">{}", ByteCount(size));
        let size = item.size.map_or_else(|| ">".to_owned(), title);
        let modified = date_time(item.version.modified).replace('T', " ").replace('Z', "");
        let hash = if item.is_directory() { String::new() } else { self.hash(item) };
        row(text, &self.href(item), &format!("{name}{end}"), &size, &modified, &hash);
    }

    fn html_foot(&self, is_empty: bool) -> String {
        let mut foot = "</tbody></table>\n".to_owned();
        if let Some(next) = self.next() {
            let _ = writeln!(foot, "<p><a href=\"{}\">More</a></p>", escape(next));
        }
        if is_empty {
            foot.push_str("<p>Nothing is here.</p>\n");
        }
        foot + "</body></html>\n"
    }
}

fn row(text: &mut String, href: &str, name: &str, size: &str, modified: &str, hash: &str) {
    let written = writeln!(
        text,
        "<tr><td><a href=\"{}\">{}</a></td><td class=\"n\"{size}</td><td class=\"n\">{modified}</td>\
         <td class=\"h\">{hash}</td></tr>",
        escape(href),
        escape(name),
    );
    written.expect("a string takes everything");
}

/// As JSON: names are text by now, and nothing else could fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// What the page may do: show its own style, and nothing else.
fn policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let style = BASE64.encode(&Sha256::digest(STYLE.as_bytes()));
        format!(
            "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    })
}

#[cfg(test)]
mod tests {
    use tidegate_transfer::manifest::Timestamp;

    use super::*;
    use crate::validators::Validators;

    #[test]
    fn names_cannot_become_markup_or_lead_elsewhere() {
        let item = |name: &[u8], size| {
            let version = Validators { tag: "\"t\"".to_owned(), modified: Timestamp::default() };
            Item { name: name.to_vec(), size, version, by_link: false }
        };
        let items =
            [item(b"<script>\"'&", Some(3)), item(b"javascript:x", None), item(b"\xff?#", Some(2 << 20))];
        let page = || Page {
            path: b"a/<b>".to_vec(),
            last: Some(b"\xff?#".to_vec()),
            has_parent: true,
            hashes: Arc::default(),
            token: Some("x.y".to_owned()),
        };
        let told = |form| {
            let pieces = page().pieces(form, items.clone().into_iter());
            let pieces: Vec<_> = pieces.map(|piece| piece.expect("made")).collect();
            String::from_utf8(pieces.concat()).expect("text")
        };
        let html = told(Form::Html);
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        for wanted in [
            "<a href=\"./%3Cscript%3E%22%27%26?token=x.y\">&lt;script&gt;",
            "<a href=\"./javascript%3Ax/?token=x.y\">javascript:x/</a>",
            "<a href=\"./%FF%3F%23?token=x.y\">\u{fffd}?#</a>",
            "<a href=\"./?token=x.y&amp;after=%FF%3F%23\">More",
            "<a href=\"../?token=x.y\">",
            "./?token=x.y&amp;archive=zip",
            "<a href=\"./%FF%3F%23?token=x.y&amp;hash=blake3\">make</a>",
        ] {
            assert!(html.contains(wanted), "{wanted} in {html}");
        }
        let json: serde_json::Value = serde_json::from_str(&told(Form::Json)).expect("JSON");
        assert_eq!(json["entries"][1]["type"], "directory");
        assert_eq!(
            (&json["entries"][2]["href"], &json["entries"][2]["size"]),
            (&"./%FF%3F%23?token=x.y".into(), &(2 << 20).into())
        );
    }
}
