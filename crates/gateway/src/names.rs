//! Paths and queries, as URLs have them.

use percent_encoding::percent_decode_str;
use tidegate_transfer::path::RelPath;

use crate::refusal::{Answer, Refusal};

/// The path beneath the root that `path` of a URL means: relative, and with a slash at its end if it has one there.
pub fn path(path: &str) -> Answer<Vec<u8>> {
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    let relative = decoded.strip_prefix(b"/").unwrap_or(&decoded).to_vec();
    let trimmed = relative.strip_suffix(b"/").unwrap_or(&relative);
    if !trimmed.is_empty() {
        RelPath::new(trimmed).map_err(|error| Refusal::senseless(error.message))?;
    } else if !relative.is_empty() {
        return Err(Refusal::senseless("an empty name in the path"));
    }
    Ok(relative)
}

/// The value of `name` in the query `text`, exact whatever its bytes are.
pub(crate) fn bytes(text: &str, name: &str) -> Option<Vec<u8>> {
    let mut pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| percent_decode_str(value).collect())
}

/// The names and values of a query, in their order.
pub fn query(text: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// The value of `name` in a query.
pub fn value<'q>(query: &'q [(String, String)], name: &str) -> Option<&'q str> {
    query.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_stays_beneath_the_root() {
        for (url, expected) in [
            ("/", &b""[..]),
            ("", b""),
            ("/a/b%20c", b"a/b c"),
            ("/a/", b"a/"),
            ("/%E6%97%a5%FF+", b"\xe6\x97\xa5\xff+"),
            ("/100%", b"100%"),
            ("/...", b"..."),
        ] {
            assert_eq!(path(url).expect(url), expected, "{url}");
        }
        for bad in [
            "/..",
            "/a/../b",
            "/%2e%2e/etc",
            "/a/%2E%2e",
            "//etc/passwd",
            "/a//b",
            "//",
            "/a%00b",
            "/./a",
            "/.tidegate/x",
            "/a/.TIDEGATE",
            "/%2e%2e%2f%2e%2e%2fetc",
            "/a%2f%2fb",
        ] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_query_is_read_in_its_order() {
        let pairs = query("list-type=2&prefix=a%2Fb%26&&x&y==");
        let shown: Vec<_> = pairs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(shown, [("list-type", "2"), ("prefix", "a/b&"), ("x", ""), ("y", "=")]);
        assert_eq!((value(&pairs, "prefix"), value(&pairs, "z")), (Some("a/b&"), None));
        assert_eq!((bytes("a&b=%ff%26&b=2", "b"), bytes("a&c=1", "a")), (Some(b"\xff&".to_vec()), None));
    }

    proptest! {
        #[test]
        fn no_path_leads_out(text in "[a%2eE./fF0]{0,30}") {
            if let Ok(path) = path(&text) {
                let mut names = path.split(|&b| b == b'/');
                prop_assert!(names.all(|name| name != b".." && name != b"."));
                prop_assert!(!path.starts_with(b"/"));
            }
        }
    }
}
