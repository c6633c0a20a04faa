//! Addresses without what may be secret in them: tickets, users, passwords, and queries, which may be signed. What is
//! left is the scheme, the host, the port and the path.

use std::borrow::Cow;

use crate::text::{one_line, shorten, show};

/// The longest label of a host's name, in bytes (RFC 1035, 2.3.4). A ticket that was cut off before its `@` stands
/// where the host would, and has more characters than that without a dot.
const MAX_LABEL: usize = 63;

/// What stands for what was left out.
const GAP: &str = "…";

/// What becomes of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Query {
    /// It is left out.
    LeftOut,
    /// `?…` says that there was one.
    Marked,
    /// The same as left out, in a text that goes on: the end of a sentence is none of it.
    InText,
}

/// One address as it may be shown, its scheme in lower case; a path is left as it is.
///
/// ```
/// use tidegate_contract::redact;
///
/// assert_eq!(redact::address("https://me:secret@host/a?X-Amz-Signature=1f"), "https://host/a");
/// ```
pub fn address(address: &str) -> String {
    alone(address, Query::LeftOut)
}

/// One address as somebody wrote it, for lists in which files differ by their queries: `?…` says that there was one.
pub fn marked(address: &str) -> String {
    alone(address, Query::Marked)
}

/// The same for what may be no URL at all, and may be long.
pub fn public_text(text: &str) -> String {
    show(shorten(marked(text)).as_bytes()).into_owned()
}

fn alone(address: &str, query: Query) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.is_empty() || !scheme.chars().all(is_plain) {
        return text(address).into_owned();
    }
    let scheme = if query == Query::Marked { scheme.to_owned() } else { scheme.to_ascii_lowercase() };
    let mut shown = format!("{scheme}://");
    push(&mut shown, rest, query);
    shown
}

/// A text in which every address is as it may be shown. Doing so again changes nothing.
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let ends = |c: char| matches!(c, '\'' | '"') || c.is_whitespace() || c.is_control();
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        safe.push_str(before);
        let (address, more) = after.split_at(after.find(ends).unwrap_or(after.len()));
        push(&mut safe, address, Query::InText);
        rest = more;
    }
    safe.push_str(rest);
    Cow::Owned(safe)
}

/// Somebody's words in one line that is not too long, fit to be shown, without the secrets of the addresses in them.
/// Those of the `known` addresses are left out wherever they stand, escaped or not.
pub fn line(words: &str, known: &[&str]) -> String {
    let line = one_line(&without(words, known, str::to_owned));
    shorten(text(&without(&line, known, one_line)).into_owned())
}

/// `text` without the secrets of `known` addresses, which stand in it as `shown` has them.
fn without(text: &str, known: &[&str], shown: impl Fn(&str) -> String) -> String {
    let mut text = text.to_owned();
    for &known in known {
        let public = address(known);
        if public != *known {
            text = text.replace(&shown(known), &shown(&public));
        }
        if let Some((user, _)) = known.split_once("://").and_then(|(_, rest)| rest.split_once('@')) {
            text = text.replace(&format!("{}@", shown(user)), &format!("{GAP}@"));
        }
    }
    text
}

/// Adds an address without its scheme. Addresses may stand in its path, as behind a proxy.
fn push(shown: &mut String, address: &str, query: Query) {
    let asks = |from: usize| address[from..].find(['?', '#']).map_or(address.len(), |at| from + at);
    let mut asked = asks(0);
    // Looked for once: whoever made the text may have made it long.
    let (in_head, in_all) = (address[..asked].rfind('@'), address.rfind('@'));
    let mut at = 0;
    loop {
        let head = &address[at..asked];
        let ends = [head.find('/'), head.find("://")].into_iter().flatten();
        let mut authority = &head[..ends.min().unwrap_or(head.len())];
        let mut end = at + authority.len();
        if let Some((_, host)) = authority.rsplit_once('@') {
            authority = host;
        } else if has_password(authority)
            && let Some(sign) = [in_head, in_all].into_iter().flatten().find(|&sign| sign >= at)
        {
            // A password may hold what ends a host and that nobody escaped: nothing before the '@' is shown.
            if sign >= asked {
                asked = asks(sign);
            }
            let head = &address[sign + 1..asked];
            authority = &head[..head.find('/').unwrap_or(head.len())];
            end = sign + 1 + authority.len();
        }
        shown.push_str(if is_host(authority) { authority } else { GAP });
        let path = &address[end..asked];
        let Some(inner) = path.find("://") else {
            shown.push_str(path);
            return push_query(shown, &address[asked..], query);
        };
        shown.push_str(&path[..inner + 3]);
        at = end + inner + 3;
    }
}

fn push_query(shown: &mut String, asked: &str, query: Query) {
    const MARK: &str = "?…";
    let words = asked.trim_end_matches([':', ',', ';', '.', '!', ')']);
    match query {
        Query::Marked if !asked.is_empty() => shown.push_str(MARK),
        Query::LeftOut | Query::Marked => {}
        // The end of a question.
        Query::InText if words.len() <= 1 => shown.push_str(asked),
        Query::InText => {
            if asked.starts_with(MARK) {
                shown.push_str(MARK);
            }
            shown.push_str(&asked[words.len()..]);
        }
    }
}

/// Whether what stands behind the last colon is no port, and therefore may be (the beginning of) a password.
fn has_password(authority: &str) -> bool {
    let is_v6 = authority.starts_with('[') && authority.ends_with(']');
    !is_v6 && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host(authority: &str) -> bool {
    let host =
        authority.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(authority, |(host, _)| host);
    host.split('.').all(|label| label.len() <= MAX_LABEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So long is a ticket.
    fn ticket() -> String {
        "A".repeat(86)
    }

    #[test]
    fn an_address_is_shown_without_secrets() {
        for (whole, wanted) in [
            ("/data/a b@c", "/data/a b@c"),
            ("tg://FPR:secret@dtn1:7700/x", "tg://dtn1:7700/x"),
            ("https://u:secret@h/x?X-Amz-Signature=secret#secret", "https://h/x"),
            ("https://h?secret=secret", "https://h"),
            ("ftp://u:se/cret@h:21/x/y", "ftp://h:21/x/y"),
            ("ftp://u:se?cret@h:21/x/y", "ftp://h:21/x/y"),
            ("ftp://u:se://cret@h:21/x?y@z", "ftp://h:21/x"),
            ("gsiftp://dtn:2811/a@b", "gsiftp://dtn:2811/a@b"),
            ("https://[2001:db8::1]/a@b", "https://[2001:db8::1]/a@b"),
            ("S3://bucket/key", "s3://bucket/key"),
            ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
            ("file:///data/x", "file:///data/x"),
            ("ftp://me:se/cret", "ftp://me:se/cret"),
            ("https://a:secret@b:secret@host:x/a", "https://host:x/a"),
            ("an odd://u:secret@h", "an odd://h"),
        ] {
            assert_eq!(address(whole), wanted, "{whole}");
            assert_eq!(address(wanted), wanted);
        }
        for long in [300, 86, 64] {
            assert_eq!(address(&format!("tg://{}", "A".repeat(long))), "tg://…");
        }
        let longest = format!("https://{}.{}:8443/x", "b".repeat(63), "d.".repeat(90));
        assert_eq!(address(&longest), longest);
    }

    #[test]
    fn a_mark_tells_of_a_query() {
        for (whole, wanted) in [
            ("https://me:secret@host/a?token=secret#secret", "https://host/a?…"),
            (
                "https://user:pass@host.example:8443/a%20b?X-Sig=1234&x=2#f",
                "https://host.example:8443/a%20b?…",
            ),
            ("S3://bucket/a", "S3://bucket/a"),
        ] {
            assert_eq!(marked(whole), wanted, "{whole}");
            assert_eq!(marked(wanted), wanted);
        }
    }

    #[test]
    fn a_text_has_no_secrets() {
        let secret = ticket();
        let quoted = format!("'tg://{secret}'");
        let two = format!("tg://{secret}@a/ tg://{secret}@b/");
        for (before, after) in [
            ("nothing", "nothing"),
            ("cannot reach tg://SECRET@dtn:7700/x: refused", "cannot reach tg://dtn:7700/x: refused"),
            ("get https://u:p@h/a?X-Amz-Signature=abc failed", "get https://h/a failed"),
            ("https://h/a?X-Amz-Signature=abc: no", "https://h/a: no"),
            ("https://h/a?…: no", "https://h/a?…: no"),
            ("is it http://h:80?", "is it http://h:80?"),
            ("'s3://key:secret@bucket/k'", "'s3://bucket/k'"),
            ("http://proxy/http://u:p@h/x@y", "http://proxy/http://h/x@y"),
            ("url=http://http://u:p@h", "url=http://http://h"),
            ("https://u:se/cret@h/x: no", "https://h/x: no"),
            ("no way to ftp://me:secret@host/x nor 'tg://T@h'", "no way to ftp://host/x nor 'tg://h'"),
            ("cannot reach tg://…@dtn:7117/: refused", "cannot reach tg://dtn:7117/: refused"),
            ("größer als 1 → 2", "größer als 1 → 2"),
            ("tg://host/a@b", "tg://host/a@b"),
            (&quoted, "'tg://…'"),
            (&two, "tg://a/ tg://b/"),
        ] {
            assert_eq!(text(before), after);
            assert_eq!(text(after), after);
        }
    }

    #[test]
    fn a_line_has_no_secret_of_a_known_address() {
        let known = "https://u:secret@h/x?sig=secret";
        let said = "cannot get https://u:secret@h/x?sig=secret: u:secret@h is\tdown\n";
        assert_eq!(line(said, &[known]), "cannot get https://h/x: …@h is down ");
        let known = "https://u:\u{202e}secret@h/x";
        for said in [known.to_owned(), one_line(known), format!("at {}@h", one_line("u:\u{202e}secret"))] {
            assert!(!line(&said, &[known]).contains("secret"), "{said}");
        }
        assert!(line(&"é".repeat(4000), &[]).len() < 1010);
    }

    #[test]
    fn hostile_text_takes_no_long_time() {
        for piece in ["://", "a:b/://", "x://a:b?", "@", "://@", "a:b@://"] {
            let hostile = piece.repeat((64 << 10) / piece.len());
            assert_eq!(text(&text(&hostile)), text(&hostile), "{piece}");
        }
    }
}
