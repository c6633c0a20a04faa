//! Paths at a server, as URLs have them: from the root, or behind `/~/` from the home directory.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tidegate_transfer::error::{Error, ErrorKind, Result};
use url::Url;

use crate::remote::login::decoded_bytes;
use crate::remote::shown;

/// What stays as it is of a name in a URL.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The path at the server, without a slash at its end.
pub(crate) fn path_of(url: &Url) -> Result<Vec<u8>> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::Usage, format!("{}: {why}", shown(url))));
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("a '?' in a name is written %3F, a '#' is %23");
    }
    if url.password().is_some() {
        return refuse("a password is not taken here: ssh logs in by a key or an agent");
    }
    let path = decoded_bytes(url.path());
    if path.contains(&0) {
        return refuse("no name has a NUL in it");
    }
    let path = match path.strip_prefix(b"/~") {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => [b".", rest].concat(),
        _ => path,
    };
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    Ok(if end == 0 { b"/".to_vec() } else { path[..end].to_vec() })
}

/// What lies in a directory, by its name.
pub(crate) fn within(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"/" => [b"/", name].concat(),
        _ => [directory, b"/", name].concat(),
    }
}

/// The URL of something in the directory at `url`, which ends in a slash.
pub(crate) fn url_within(url: &Url, name: &[u8], is_directory: bool) -> Option<Url> {
    let slash = if is_directory { "/" } else { "" };
    url.join(&format!("{}{slash}", percent_encode(name, IN_NAME))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_from_the_root_or_the_home_directory() {
        for (text, wanted) in [
            ("sftp://host", &b"/"[..]),
            ("sftp://host/", b"/"),
            ("sftp://host/a%20b/c", b"/a b/c"),
            ("sftp://host/a/%FF%2a/", b"/a/\xff*"),
            ("sftp://host/~", b"."),
            ("sftp://host/~/", b"."),
            ("sftp://host/~/a", b"./a"),
            ("sftp://host/~a", b"/~a"),
        ] {
            assert_eq!(path_of(&Url::parse(text).expect(text)).expect(text), wanted, "{text}");
        }
        for text in ["sftp://host/a?b", "sftp://host/a#b", "sftp://u:p@host/a", "sftp://host/a%00"] {
            let error = path_of(&Url::parse(text).expect(text)).expect_err(text);
            assert!(!error.message.contains(":p@"), "{error}");
        }
        assert_eq!(within(b"/", b"a"), b"/a");
        assert_eq!(within(b".", b"a"), b"./a");
        let url = Url::parse("sftp://host/d/").expect("a URL");
        for name in [&b"a b"[..], b"x:y", b"\xff?#%"] {
            let url = url_within(&url, name, false).expect("a URL");
            assert_eq!(path_of(&url).expect("a path"), within(b"/d", name));
        }
    }
}
