//! Who we are to a server: the user's name and password in a URL or in `.netrc`.

use std::path::Path;

use data_encoding::BASE64;
use url::Url;

/// Largest `.netrc` that is read.
const LARGEST: u64 = 1 << 20;

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password, perhaps empty.
    pub password: String,
}

tidegate_contract::opaque!(Login);

impl Login {
    /// The one in a URL.
    pub fn in_url(url: &Url) -> Option<Self> {
        if url.username().is_empty() && url.password().is_none() {
            return None;
        }
        Some(Self { user: decoded(url.username()), password: decoded(url.password().unwrap_or_default()) })
    }

    /// As the value of an `Authorization` line of the Basic scheme (RFC 7617).
    pub fn basic(&self) -> String {
        format!("Basic {}", BASE64.encode(format!("{}:{}", self.user, self.password).as_bytes()))
    }
}

/// Percent-encoding undone; bytes that are no UTF-8 become the replacement character.
pub(crate) fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decoded_bytes(text)).into_owned()
}

/// Percent-encoding undone.
pub(crate) fn decoded_bytes(text: &str) -> Vec<u8> {
    let (bytes, mut out) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let digit = |at: usize| bytes.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// The words of a line of `.netrc`; one that holds spaces stands in double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(&first) = rest.peek() {
        if first.is_whitespace() {
            rest.next();
            continue;
        }
        let quoted = first == '"';
        if quoted {
            rest.next();
        }
        let mut word = String::new();
        while let Some(c) = rest.next_if(|&c| if quoted { c != '"' } else { !c.is_whitespace() }) {
            match c {
                '\\' if quoted => word.extend(rest.next()),
                c => word.push(c),
            }
        }
        if quoted {
            rest.next();
        }
        words.push(word);
    }
    words
}

/// The logins of a `.netrc`, by host.
#[derive(Debug, Default)]
pub struct Logins {
    hosts: Vec<(String, Login)>,
    other: Option<Login>,
}

impl Logins {
    /// Those in the file at `path`; none where it cannot be read, as others do.
    pub fn read(path: &Path) -> Self {
        let small = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        match small.then(|| std::fs::read_to_string(path)) {
            Some(Ok(text)) => Self::parse(&text),
            _ => Self::default(),
        }
    }

    /// Those in the text of such a file. Macros are skipped, unknown words too.
    pub fn parse(text: &str) -> Self {
        let mut logins = Self::default();
        let mut host: Option<Option<String>> = None;
        let mut login = Login { user: String::new(), password: String::new() };
        let mut macro_runs = false;
        for line in text.lines() {
            if macro_runs && !line.trim().is_empty() {
                continue;
            }
            macro_runs = false;
            let mut words = words(line).into_iter();
            while let Some(word) = words.next() {
                let mut next = || words.next().unwrap_or_default();
                match word.as_str() {
                    "machine" => {
                        logins.keep(host.take(), &mut login);
                        host = Some(Some(next().to_ascii_lowercase()));
                    }
                    "default" => {
                        logins.keep(host.take(), &mut login);
                        host = Some(None);
                    }
                    "login" => login.user = next(),
                    "password" => login.password = next(),
                    "account" => drop(next()),
                    "macdef" => {
                        macro_runs = true;
                        break;
                    }
                    _ if word.starts_with('#') => break,
                    _ => {}
                }
            }
        }
        logins.keep(host, &mut login);
        logins
    }

    fn keep(&mut self, host: Option<Option<String>>, login: &mut Login) {
        let done = std::mem::replace(login, Login { user: String::new(), password: String::new() });
        match host {
            _ if done.user.is_empty() && done.password.is_empty() => {}
            Some(Some(host)) => self.hosts.push((host, done)),
            Some(None) => self.other = Some(done),
            None => {}
        }
    }

    /// The one for the host of `url`; the first that stands there counts.
    pub fn of(&self, url: &Url) -> Option<&Login> {
        url.host_str()?;
        self.named(url).or(self.other.as_ref())
    }

    /// The one that names the host of `url`.
    pub fn named(&self, url: &Url) -> Option<&Login> {
        let host = url.host_str()?;
        self.hosts.iter().find(|(name, _)| name == host).map(|(_, login)| login)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_a_url_is_decoded() {
        let url = Url::parse("ftp://us%40er:p%3Aw%25@host/x").expect("a URL");
        let login = Login::in_url(&url).expect("there is one");
        assert_eq!((login.user.as_str(), login.password.as_str()), ("us@er", "p:w%"));
        assert_eq!(Login::in_url(&Url::parse("http://host/").expect("a URL")), None);
        // The example of RFC 7617.
        let login = Login { user: "Aladdin".into(), password: "open sesame".into() };
        assert_eq!(login.basic(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{login:?}").contains("sesame"));
        assert_eq!(decoded("a%2"), "a%2");
    }

    #[test]
    fn a_netrc_is_read_with_its_oddities() {
        let text = "# mine\nmachine One.example\n\tlogin me\n\tpassword one\n\
                    macdef init\ncd /pub\nmachine no.example login x\n\n\
                    machine two.example login you password \"tw\\\"o 2\" account z\ndefault login any password mail";
        let logins = Logins::parse(text);
        let of = |host: &str| {
            let url = Url::parse(&format!("https://{host}/x")).expect("a URL");
            logins.of(&url).map(|login| (login.user.clone(), login.password.clone()))
        };
        assert_eq!(of("one.example"), Some(("me".into(), "one".into())));
        assert_eq!(of("two.example"), Some(("you".into(), "tw\"o 2".into())));
        let named =
            |host: &str| logins.named(&Url::parse(&format!("https://{host}/")).expect("a URL")).is_some();
        assert!(named("two.example") && !named("three.example"));
        assert_eq!(of("no.example"), Some(("any".into(), "mail".into())));
        assert_eq!(Logins::parse("machine x").of(&Url::parse("http://x/").expect("a URL")), None);
    }

    proptest::proptest! {
        #[test]
        fn no_netrc_and_no_name_is_too_strange(text in "([ -~\n\t]|é|machine |login |password |default |\"){0,80}") {
            Logins::parse(&text);
            assert!(decoded_bytes(&text).len() <= text.len());
        }
    }
}
