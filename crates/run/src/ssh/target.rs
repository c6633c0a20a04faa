//! A host that is reached by ssh, as the user writes it.

use std::fmt;
use std::net::Ipv6Addr;

use tidegate_contract::feature;
use tidegate_contract::text::show;
use tidegate_transfer::error::{Error, usage};

/// How the URL of such a host begins.
pub const SCHEME: &str = "ssh://";

/// Whom ssh is told to connect to.
///
/// User and host are of letters, digits, `.`, `_` and `-`, which no shell and no `ssh_config` makes anything else of, and
/// begin with no `-`, which ssh would take for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Target {
    /// Reads `user@host:path`, with an IPv6 number in brackets; `None` if it is something else.
    pub fn of_path(text: &[u8]) -> Option<Result<(Self, Vec<u8>), Error>> {
        let before_slash = text.split(|&b| b == b'/').next()?;
        let at = before_slash.iter().position(|&b| b == b'@')?;
        let after = &before_slash[at + 1..];
        let host = match after.strip_prefix(b"[") {
            Some(number) => number.iter().position(|&b| b == b']')? + 2,
            None => after.iter().position(|&b| b == b':')?,
        };
        let end = at + 1 + host;
        (text.get(end) == Some(&b':')).then(|| {
            let place = std::str::from_utf8(&text[..end]).map_err(|_| refused(text, "it is no text"))?;
            Ok((Self::parse(place)?, text[end + 1..].to_vec()))
        })
    }

    /// Reads `ssh://[user@]host[:port][/path]`; the path is absolute, or in the home directory behind `/~/`.
    pub fn of_url(text: &[u8]) -> Result<(Self, Vec<u8>), Error> {
        let rest = text.strip_prefix(SCHEME.as_bytes()).unwrap_or(text);
        let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = std::str::from_utf8(authority).map_err(|_| refused(text, "it is no text"))?;
        // Behind brackets or a name; a colon within brackets is the number's.
        let (place, port) = match authority.rsplit_once(':') {
            Some((place, port)) if !port.contains(']') => {
                let number = port.parse().ok().filter(|&port: &u16| port > 0);
                (
                    place,
                    Some(number.ok_or_else(|| refused(text, "the port is not a number from 1 to 65535"))?),
                )
            }
            _ => (authority, None),
        };
        let path = path.strip_prefix(b"/~/").unwrap_or(if path.is_empty() { b"/" } else { path });
        Ok((Self { port, ..Self::parse(place)? }, path.to_vec()))
    }

    /// Reads `host`, `user@host` or `ssh://user@host:port`, which name no path.
    pub fn of_host(text: &str) -> Result<Self, Error> {
        if !text.starts_with(SCHEME) {
            return Self::parse(text);
        }
        match Self::of_url(text.as_bytes())? {
            (target, path) if path == b"/" => Ok(target),
            _ => Err(refused(text.as_bytes(), "a host has no path")),
        }
    }

    fn parse(place: &str) -> Result<Self, Error> {
        if !cfg!(feature = "ssh") {
            return Err(usage(feature::missing(&show(place.as_bytes()), "ssh")));
        }
        let refuse = |why: &str| Err(refused(place.as_bytes(), why));
        let (user, host) = match place.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, place),
        };
        if user.is_some_and(|user| !is_harmless(user)) {
            return refuse("a user is of letters, digits, '.', '_' and '-', and begins with no '-'");
        }
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            // A zone may follow the number.
            Some(inner) => {
                let (number, zone) = inner.split_once('%').unwrap_or((inner, "0"));
                if number.parse::<Ipv6Addr>().is_err() || !is_harmless(zone) {
                    return refuse("brackets are for an IPv6 number");
                }
                inner
            }
            None if is_harmless(host) => host,
            None => {
                return refuse("a host is of letters, digits, '.', '_' and '-', and begins with no '-'");
            }
        };
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port: None })
    }

    /// What ssh is told, behind its options.
    pub fn arguments(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        let place = match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        };
        port.chain(["--".to_owned(), place]).collect()
    }

    /// The host alone, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Whether neither ssh nor a shell makes anything of it.
fn is_harmless(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !word.is_empty() && word.chars().all(plain) && !word.starts_with('-')
}

fn refused(text: &[u8], why: &str) -> Error {
    usage(format!("{} is no host for ssh: {why}", show(text)))
}

impl fmt::Display for Target {
    /// The URL, without a path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(all(test, feature = "ssh"))]
mod tests {
    use super::*;

    fn of_path(text: &str) -> Option<Result<(Vec<String>, String), Error>> {
        let read = Target::of_path(text.as_bytes())?;
        Some(read.map(|(target, path)| (target.arguments(), String::from_utf8(path).expect("text"))))
    }

    #[test]
    fn a_user_and_a_host_before_a_colon_are_for_ssh() {
        for (text, place, path) in [
            ("me@host:dir", "me@host", "dir"),
            ("me@host:", "me@host", ""),
            ("me@h.example.org:/a b/c:d", "me@h.example.org", "/a b/c:d"),
            ("me@[::1]:/x", "me@::1", "/x"),
            ("me@[fe80::1%eth0]:x", "me@fe80::1%eth0", "x"),
        ] {
            let (arguments, read) = of_path(text).expect("for ssh").expect("a host");
            assert_eq!((arguments, read.as_str()), (vec!["--".to_owned(), place.to_owned()], path), "{text}");
        }
        for text in ["host:dir", "./me@host:dir", "me@host", "me@host/dir:x", "me", "", "@"] {
            assert!(of_path(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_url_may_have_a_port_and_its_path_is_absolute() {
        for (text, shown, path) in [
            ("ssh://me@host/data", "ssh://me@host", "/data"),
            ("ssh://host:2222", "ssh://host:2222", "/"),
            ("ssh://me@[::1]:2222/x/", "ssh://me@[::1]:2222", "/x/"),
            ("ssh://[::1]/x", "ssh://[::1]", "/x"),
            ("ssh://host/~/x", "ssh://host", "x"),
        ] {
            let (target, read) = Target::of_url(text.as_bytes()).expect("a host");
            assert_eq!((target.to_string().as_str(), &read[..]), (shown, path.as_bytes()), "{text}");
        }
        let (target, _) = Target::of_url(b"ssh://me@host:2222/").expect("a host");
        assert_eq!(target.arguments(), ["-p", "2222", "--", "me@host"]);
    }

    #[test]
    fn what_ssh_or_a_shell_would_take_for_something_else_is_refused_in_one_line() {
        for text in [
            "me@-oProxyCommand=x:dir",
            "-l@host:dir",
            "a$b@host:dir",
            "a;b@host:dir",
            "me@ho st:dir",
            "me@$(x):dir",
            "me@`x`:dir",
            "me@[x]:dir",
            "me@[::1%$x]:dir",
            "@host:dir",
            "me@:dir",
            "me@h\u{1b}[2J:dir",
        ] {
            let error = of_path(text).expect("for ssh").expect_err(text);
            let message = error.message;
            assert!(
                message.contains("is no host for ssh") && !message.contains(['\n', '\u{1b}']),
                "{message}"
            );
        }
        for text in ["-oProxyCommand=x", "a b", "a$b", "", "me@", "host:dir", "ssh://host/dir"] {
            Target::of_host(text).expect_err(text);
        }
        for text in ["ssh://", "ssh://:22/", "ssh://host:0/", "ssh://host:x/", "ssh://-x/", "ssh://a@b@c/"] {
            Target::of_url(text.as_bytes()).expect_err(text);
        }
    }
}
