//! Cookies that redirects set, for as long as the command runs: a sign-on elsewhere is known by one (RFC 6265).

use tidegate_transfer::sys::sync::{Mutex, MutexGuard};

use cookie_store::{CookieDomain, CookieStore, RawCookie};
use ureq::http::{HeaderMap, HeaderValue, header};
use url::Url;

/// Most cookies that are kept, and the longest, with its attributes.
const MAX_COOKIES: usize = 1000;
const MAX_LENGTH: usize = 4 << 10;

/// What all workers were given.
#[derive(Default)]
pub struct Cookies(Mutex<CookieStore>);

tidegate_contract::opaque!(Cookies);

impl Cookies {
    /// What is sent to `url` behind `own` cookies.
    pub fn of(&self, url: &Url, own: Option<&HeaderValue>) -> Option<HeaderValue> {
        let store = self.lock();
        let kept = store.get_request_values(url).map(|(name, value)| format!("{name}={value}"));
        let own = own.and_then(|own| own.to_str().ok()).map(str::to_owned);
        let all: Vec<String> = own.into_iter().chain(kept).collect();
        let mut value = (!all.is_empty()).then(|| HeaderValue::from_str(&all.join("; ")).ok()).flatten()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Keeps what an answer of `url` sets; whether that changed what is sent somewhere.
    pub fn keep(&self, url: &Url, headers: &HeaderMap) -> bool {
        let mut store = self.lock();
        let mut changed = false;
        for line in headers.get_all(header::SET_COOKIE) {
            let Some(text) = line.to_str().ok().filter(|text| text.len() <= MAX_LENGTH) else { continue };
            let Ok(cookie) = RawCookie::parse(text.to_owned()) else { continue };
            let (name, value) = (cookie.name().to_owned(), cookie.value().to_owned());
            let before = store.get_request_values(url).find(|(known, _)| *known == name);
            let same = before.is_some_and(|(_, known)| known == value);
            if store.iter_any().count() < MAX_COOKIES && !is_for_many(&cookie) {
                changed |= store.insert_raw(&cookie, url).is_ok() && !same;
            }
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, CookieStore> {
        self.0.lock()
    }
}

/// Whether a cookie is for a domain of one label: all sites beneath it.
fn is_for_many(cookie: &RawCookie<'_>) -> bool {
    let domain = cookie.domain().unwrap_or_default().trim_matches('.');
    matches!(CookieDomain::try_from(cookie), Ok(CookieDomain::Suffix(_))) && !domain.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_goes_back_to_its_site_and_path_only() {
        let cookies = Cookies::default();
        let of = |text: &str| {
            let value = cookies.of(&Url::parse(text).expect(text), None);
            value.map(|value| value.to_str().expect("text").to_owned())
        };
        let set = |from: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::SET_COOKIE, HeaderValue::from_str(line).expect("a line"));
            }
            cookies.keep(&Url::parse(from).expect(from), &headers)
        };
        assert!(set("https://data.example.org/login", &["s=1; Path=/; Secure; HttpOnly"]));
        assert!(!set("https://data.example.org/login", &["s=1; Path=/; Secure"]), "the same again");
        assert_eq!(of("https://data.example.org/a/b").as_deref(), Some("s=1"));
        for elsewhere in
            ["http://data.example.org/a", "https://www.data.example.org/a", "https://example.org/"]
        {
            assert_eq!(of(elsewhere), None, "{elsewhere}");
        }
        assert!(set("https://urs.example.net/x", &["d=2; Domain=example.net; Path=/in"]));
        assert_eq!(of("https://data.example.net/in/a").as_deref(), Some("d=2"));
        assert_eq!(of("https://data.example.net/out"), None);
        // For others, for all, too long, or none.
        let long = format!("l={}", "x".repeat(MAX_LENGTH));
        assert!(!set(
            "https://h.example.org/",
            &["o=1; Domain=example.net", "t=1; Domain=org", &long, "=", ""]
        ));
        assert!(set("https://h.example.org/", &["e=1"]) && set("https://h.example.org/", &["e=2"]));
        let own = HeaderValue::from_static("mine=0");
        let sent = cookies.of(&Url::parse("https://h.example.org/").expect("a URL"), Some(&own));
        assert_eq!(sent.expect("some").to_str().expect("text"), "mine=0; e=2");
        let many: Vec<String> = (0..2 * MAX_COOKIES).map(|i| format!("c{i}=1")).collect();
        set("https://many.example.org/", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(cookies.lock().iter_any().count(), MAX_COOKIES);
    }
}
