//! Metrics as Prometheus reads them.

use std::fmt::Write;

/// What such a text is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One series of a gauge or a counter: its labels as pairs, and its value.
pub type Series = (Vec<(&'static str, String)>, f64);

/// The one series of a family without labels.
pub fn one(value: f64) -> [Series; 1] {
    [(Vec::new(), value)]
}

/// Writes one family of series.
pub fn family(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    series: impl IntoIterator<Item = Series>,
) {
    head(text, name, kind, help);
    for (labels, value) in series {
        line(text, name, &labels, value);
    }
}

/// Writes what is said of a family before its series.
pub fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes one series.
pub fn line(text: &mut String, name: &str, labels: &[(&'static str, String)], value: f64) {
    text.push_str(name);
    for (i, (label, value)) in labels.iter().enumerate() {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{}{label}=\"{value}\"", if i == 0 { '{' } else { ',' });
    }
    let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
}
