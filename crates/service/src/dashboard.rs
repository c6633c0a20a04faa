//! The dashboard: one page, embedded, that asks the API and nobody else.
//!
//! It is plain HTML, CSS and JavaScript, with no step that builds it. Its policy lets it load only what this
//! service serves, so that nothing a job carries can become a script.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// What the page may load: scripts, styles, pictures and answers of this service.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page's parts, by name.
const ASSETS: [(&str, &str, &str); 11] = [
    ("app.js", SCRIPT, include_str!("dashboard/app.js")),
    ("chart.js", SCRIPT, include_str!("dashboard/chart.js")),
    ("client.js", SCRIPT, include_str!("dashboard/client.js")),
    ("dom.js", SCRIPT, include_str!("dashboard/dom.js")),
    ("estimate.js", SCRIPT, include_str!("dashboard/estimate.js")),
    ("format.js", SCRIPT, include_str!("dashboard/format.js")),
    ("job.js", SCRIPT, include_str!("dashboard/job.js")),
    ("jobs.js", SCRIPT, include_str!("dashboard/jobs.js")),
    ("paths.js", SCRIPT, include_str!("dashboard/paths.js")),
    ("style.css", "text/css; charset=utf-8", include_str!("dashboard/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("dashboard/icon.svg")),
];

/// The page.
pub fn page() -> Response {
    content(HTML, include_str!("dashboard/index.html").to_owned())
}

/// The form that asks for the token; `wrong` after one that did not fit.
pub fn login(wrong: bool) -> Response {
    let said =
        if wrong { "<p class=\"wrong\" role=\"alert\">That is not the token or the code.</p>" } else { "" };
    content(HTML, include_str!("dashboard/login.html").replace("<!-- said here -->", said))
}

/// What follows a sign-in. A page and no redirection: a browser that came from another site keeps the cookie
/// back until a page of ours leads on.
pub(crate) fn welcome() -> Response {
    content(HTML, include_str!("dashboard/welcome.html").to_owned())
}

/// A part of the page.
pub(crate) fn asset(name: &str) -> Option<Response> {
    let (_, kind, text) = ASSETS.iter().find(|(known, ..)| *known == name)?;
    Some(content(kind, (*text).to_owned()))
}

fn content(kind: &'static str, text: String) -> Response {
    // A new version of the service must not meet an old page.
    ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache")], text)
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_served_and_nothing_comes_from_elsewhere() {
        let pages = [
            include_str!("dashboard/index.html"),
            include_str!("dashboard/login.html"),
            include_str!("dashboard/welcome.html"),
        ];
        let parts = ASSETS.iter().map(|(_, _, text)| *text);
        for text in pages.into_iter().chain(parts) {
            for found in text.split("/assets/").skip(1).chain(text.split("from \"./").skip(1)) {
                let name: String = found.chars().take_while(|&c| c != '"').collect();
                assert!(ASSETS.iter().any(|(known, ..)| *known == name), "{name} is not served");
            }
            // The policy refuses styles and scripts within the page.
            assert!(!text.contains("style=\"") && !text.contains("<script>") && !text.contains("innerHTML"));
            let addresses = text.matches("http").filter(|_| true).count();
            let named =
                text.matches("http://www.w3.org/2000/svg").count() + text.matches("http-equiv").count();
            assert_eq!(addresses, named, "an address of another host");
        }
    }
}
