//! Records written as lists that are read here again: what failed is tried again with them.

use serde_json::{Map, Value, json};
use tidegate_transfer::text::show;

use super::name::path_of;
use crate::foreign::is_plain;
use crate::record::Record;

/// Headers that carry secrets are not written.
const SECRET: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// A record in the syntax of aria2's `-i`. Secrets in headers are left out, and said to be.
pub fn entry(record: &Record) -> String {
    let urls: Vec<&str> = record.urls.iter().map(url::Url::as_str).collect();
    let mut text = format!("{}\n", urls.join("\t"));
    let is_named_so = record.urls.first().is_some_and(|url| path_of(url).as_ref() == Ok(&record.path));
    if !is_named_so {
        match std::str::from_utf8(record.path.as_bytes()) {
            Ok(path) if is_plain(path) => text.push_str(&format!("  out={path}\n")),
            _ => text.push_str(&format!("# was named {}\n", show(record.path.as_bytes()))),
        }
    }
    for algorithm in record.checksums.algorithms() {
        let sum = record.checksums.hex(algorithm).unwrap_or_default();
        text.push_str(&format!("  checksum={algorithm}={sum}\n"));
    }
    for (name, value) in &record.headers {
        if SECRET.contains(&name.to_ascii_lowercase().as_str()) {
            text.push_str(&format!("# add header={name}: …\n"));
        } else {
            text.push_str(&format!("  header={name}: {value}\n"));
        }
    }
    text
}

/// A record as one JSON object. Passwords and headers are left out.
pub fn json_line(record: &Record) -> String {
    let without_password = |url: &url::Url| {
        let mut url = url.clone();
        // Fails only for URLs that cannot have one.
        let _ = url.set_password(None);
        url.to_string()
    };
    let urls: Vec<String> = record.urls.iter().map(without_password).collect();
    let sums: Map<String, Value> = record
        .checksums
        .algorithms()
        .map(|algorithm| (algorithm.to_string(), record.checksums.hex(algorithm).into()))
        .collect();
    let path = std::str::from_utf8(record.path.as_bytes())
        .map_or_else(|_| show(record.path.as_bytes()).into_owned(), str::to_owned);
    let object = json!({
        "urls": urls,
        "path": path,
        "bytes": record.bytes,
        "checksums": sums,
        "group": record.group.as_deref(),
        "meta": *record.meta,
    });
    escaped(&object.to_string())
}

/// JSON without characters that a terminal obeys or nobody sees: as text they are escaped in it, so it reads the same.
fn escaped(json: &str) -> String {
    if is_plain(json) {
        return json.to_owned();
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c.encode_utf8(&mut [0; 4])) {
            text.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}
