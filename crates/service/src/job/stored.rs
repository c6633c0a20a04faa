//! Requests as a queue has them.

use serde_json::{Map, Value};
use tidegate_spec::options::Options;

use super::request::Request;
use super::spec::Spec;

/// The request that `text` is. One that was written when options were words of a command line is what those meant.
pub(crate) fn read(text: &str) -> Result<Request, String> {
    let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let words = match fields.get("options") {
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if !words.is_empty() {
        fields.remove("options");
    }
    let beside = ["filter", "files"].map(|name| (name, fields.remove(name)));
    let request = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string());
    let mut request: Request = request?;
    if !words.is_empty() {
        request.options = Spec::typed(&words, request.route()?)?;
    }
    for (name, value) in beside.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        request.options.extend(Options::from([(name, value)]));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_before_is_what_its_words_meant() {
        let text = r#"{"sources": ["/a/"], "destination": "tg://h/b", "filter": ["- *.tmp"], "files": ["x"],
            "options": ["--exclude", "e/", "--limit-link=8Mbit/s", "--checksum"]}"#;
        let mut wanted = Request::transfer("/a/", "tg://h/b");
        wanted.options = serde_json::from_str(
            r#"{"checksum": true, "limit_link": 8000000, "filter": [{"exclude": "e/"}, "- *.tmp"], "files": ["x"]}"#,
        )
        .expect("options");
        assert_eq!(read(text), Ok(wanted.clone()));
        assert_eq!(wanted.check(), Ok(()));
        assert_eq!(read(&serde_json::to_string(&wanted).expect("plain data")), Ok(wanted));
        let got = r#"{"sources": ["SRR390728"], "destination": "/b/", "options": ["--format=sra"]}"#;
        assert_eq!(read(got).expect("read").options.text("format"), Some("sra"));
        for wrong in ["", "[]", r#"{"sources": ["/a"], "destination": "/b", "options": ["--nonsense"]}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
