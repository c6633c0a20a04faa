//! Access by HTTP: tokens, what their holders may, and which were revoked.
//!
//! A token has a part that names it and says what it allows, and a secret that follows from that part under a key of its own
//! purpose, which comes of the endpoint's secret. So a ticket's key never travels, nothing need be remembered of tokens, and
//! a token that leaks opens no session.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

use crate::endpoint::Endpoint;
use crate::endpoint::rights::{may_delete, may_read, may_use, may_write};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::store::browse::stat;
use crate::store::named::{Reached, Scope};
use crate::sys::confined::stat_trusted;
use crate::sys::identity::{FileIdentity, fingerprint};
use crate::sys::{clock, fs, lock, random};
use crate::wire::ticket::Claims;
use crate::wire::tls::write_private;

/// What the key for tokens is derived from the endpoint's secret for.
const PURPOSE: &str = "tidegate 2026 access tokens for HTTP";

/// Bytes that tell a token from others with the same claims.
const NAME_BYTES: usize = 8;

/// The file of the state directory that lists what was revoked.
const REVOKED: &str = "revoked-tokens";

/// Most tokens that are revoked at a time.
const MAX_REVOKED: usize = 10_000;

/// A token: `ID.SECRET` where one word is wanted, and a key pair where two are.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// What it allows and what it is called; public.
    pub id: String,
    /// What follows from that, for who holds the endpoint's secret.
    pub secret: String,
}

tidegate_contract::opaque!(AccessToken);

impl AccessToken {
    /// A new token for `claims`, under the endpoint's `secret`.
    fn issue(secret: &Digest, claims: &Claims) -> Self {
        loop {
            let name = &random::bytes()[..NAME_BYTES];
            let id = BASE64URL_NOPAD.encode(&[name, &claims.encode()].concat());
            let token = Self { secret: secret_of(secret, &id), id };
            // Programs that are given it as a word would take it for an option: one of 32 is drawn anew.
            if !token.id.starts_with('-') && !token.secret.starts_with('-') {
                return token;
            }
        }
    }

    /// As one word.
    pub fn to_word(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// Reads [`to_word`](Self::to_word)'s.
    pub fn parse(word: &str) -> Option<Self> {
        let (id, secret) = word.trim().split_once('.')?;
        Some(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// What it is called where its secret must not stand, and by which it is revoked.
    pub fn name(&self) -> Result<String> {
        read_id(&self.id).map(|(name, _)| name)
    }
}

/// The secret of the token `id`, under the endpoint's `secret`.
fn secret_of(secret: &Digest, id: &str) -> String {
    let key = blake3::derive_key(PURPOSE, secret);
    BASE64URL_NOPAD.encode(blake3::keyed_hash(&key, id.as_bytes()).as_bytes())
}

/// The name and the claims of the token `id`.
fn read_id(id: &str) -> Result<(String, Claims)> {
    let bytes = BASE64URL_NOPAD.decode(id.as_bytes()).map_err(|_| unknown())?;
    let (name, claims) = bytes.split_at_checked(NAME_BYTES).ok_or_else(unknown)?;
    Ok((HEXLOWER.encode(name), Claims::decode(claims).map_err(|_| unknown())?))
}

fn unknown() -> Error {
    Error::new(ErrorKind::Authentication, "the token is not valid here")
}

/// The names of what was revoked, and the version of the list that has them.
pub(super) type Revoked = Option<(FileIdentity, HashSet<String>)>;

/// What a request does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reads it, or what is beneath.
    Read,
    /// Puts it there.
    Write,
    /// Removes it.
    Delete,
}

/// What the holder of a token may.
#[derive(Clone, Debug)]
pub struct Access {
    endpoint: Arc<Endpoint>,
    claims: Arc<Claims>,
    name: Arc<str>,
}

impl Access {
    /// What the token is called, for logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The only path that it opens; empty for all.
    pub fn path(&self) -> &[u8] {
        &self.claims.path
    }

    /// Whether it allows `right` at `path`, which is relative to the root; empty for the root itself.
    pub fn check(&self, path: &[u8], right: Right) -> Result<()> {
        let rights = match right {
            Right::Read => may_read(&self.claims),
            Right::Write => may_write(&self.endpoint, &self.claims),
            Right::Delete => may_delete(&self.endpoint, &self.claims),
        };
        let checked = may_use(&self.claims, path).and(rights);
        checked.map_err(|error| Error { message: error.message.replace("the ticket", "the token"), ..error })
    }

    /// Where `path` may lead, if it allows `right` there: no link leads further than for tickets.
    pub fn scope(&self, path: &[u8], right: Right) -> Result<Scope<'_>> {
        self.check(path, right)?;
        let Endpoint { followed, .. } = &*self.endpoint;
        Ok(Scope { root: self.endpoint.root()?, claim: &self.claims.path, followed })
    }

    /// Fails once it has expired or was revoked: what was begun with it ends then.
    pub fn check_valid(&self) -> Result<()> {
        check_time(&self.claims)?;
        self.endpoint.check_revoked(&self.name)
    }

    /// A file without a name, for what does not fit into memory.
    pub fn scratch(&self) -> std::io::Result<fs::File> {
        fs::nameless(&self.endpoint.config.state)
    }

    /// Goes to `path`, if it allows `right` there.
    pub fn reach(&self, path: &[u8], right: Right) -> Result<Reached> {
        self.scope(path, right)?.reach(path)
    }
}

impl Endpoint {
    /// What the holder of `token` may.
    pub fn access(self: &Arc<Self>, token: &AccessToken) -> Result<Access> {
        let (access, secret) = self.access_of(&token.id)?;
        // Hashes are compared in constant time.
        if blake3::hash(secret.as_bytes()) != blake3::hash(token.secret.as_bytes()) {
            return Err(unknown());
        }
        Ok(access)
    }

    /// What the holder of the token `id` may who has proved to know its secret, which is told for that.
    pub fn access_of(self: &Arc<Self>, id: &str) -> Result<(Access, String)> {
        let (name, claims) = read_id(id)?;
        check_time(&claims)?;
        self.check_revoked(&name)?;
        let access =
            Access { endpoint: Arc::clone(self), claims: Arc::new(claims), name: Arc::from(name.as_str()) };
        Ok((access, secret_of(&self.secret, id)))
    }

    /// Fails if the token that is called `name` was revoked. The list is read again once it is another one.
    fn check_revoked(&self, name: &str) -> Result<()> {
        let path = list(&self.config.state);
        let version = stat_trusted(path.as_os_str().as_bytes()).map(|stat| fingerprint(&stat));
        let mut known = self.revoked.lock();
        if known.as_ref().is_none_or(|(of, _)| version.as_ref() != Ok(of)) {
            // Of what is written meanwhile the version is an older one, and it is read once more.
            let names = revoked(&self.config.state)?;
            *known = version.ok().map(|version| (version, names.clone()));
            return refuse_revoked(&names, name);
        }
        known.as_ref().map_or(Ok(()), |(_, names)| refuse_revoked(names, name))
    }

    /// Says where others reach what is served over HTTP: a URL without a slash at its end.
    pub fn announce_http(&self, url: String) {
        let _ = self.http.set(url);
    }

    /// A URL that opens `path` for reading until `expires`, for who may do that by `claims`.
    pub(super) fn share(&self, path: &[u8], expires: Option<u64>, claims: &Claims) -> Result<String> {
        let Some(base) = self.http.get() else {
            let why = "it serves nothing over HTTP: start it with `tidegate endpoint --https`";
            return Err(Error::new(ErrorKind::Denied, why));
        };
        may_read(claims)?;
        may_use(claims, path)?;
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let scope = Scope { root: self.root()?, claim: &claims.path, followed: &self.followed };
        // Who has a link to nothing blames whoever sent it.
        stat(&scope, trimmed)?;
        // No link outlives the ticket that it was made by.
        let expires = [expires, claims.expires].into_iter().flatten().min();
        let claims =
            Claims { read: true, write: false, delete: false, path: trimmed.to_vec(), expires, once: None };
        let token = AccessToken::issue(&self.secret, &claims);
        Ok(format!("{base}/{}?token={}", url_path(path), token.to_word()))
    }
}

/// `path` as it stands in a URL.
pub fn url_path(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    text
}

/// A token for `claims`, of the endpoint whose state directory is `state`; nothing is made there.
pub fn token_from_state(state: &Path, claims: &Claims) -> Result<AccessToken> {
    Ok(AccessToken::issue(&super::secret_from_state(state)?, claims))
}

/// Revokes the token that is called `name`, or is the word `name`, at the endpoint whose state directory is `state`.
/// Answers with its name.
pub fn revoke(state: &Path, name: &str) -> Result<String> {
    super::secret_from_state(state)?;
    let name = match AccessToken::parse(name) {
        Some(token) => token.name()?,
        None => name.to_owned(),
    };
    if HEXLOWER.decode(name.as_bytes()).map(|bytes| bytes.len()) != Ok(NAME_BYTES) {
        let why = "that is no token, nor what one is called: sixteen hexadecimal digits";
        return Err(Error::new(ErrorKind::Usage, why));
    }
    let _held = lock::hold_directory(state)
        .map_err(|error| Error::new(ErrorKind::Usage, format!("cannot use {}: {error}", state.display())))?;
    let mut all = revoked(state)?;
    all.insert(name.clone());
    if all.len() > MAX_REVOKED {
        let why = format!(
            "{MAX_REVOKED} tokens are revoked already: remove {} to end all tickets and tokens, and then {}",
            state.join("endpoint.secret").display(),
            list(state).display()
        );
        return Err(Error::new(ErrorKind::Usage, why));
    }
    let mut lines: Vec<String> = all.into_iter().map(|name| name + "\n").collect();
    lines.sort_unstable();
    write_private(&list(state), lines.concat().as_bytes())?;
    Ok(name)
}

fn list(state: &Path) -> PathBuf {
    state.join(REVOKED)
}

/// Fails if the claims hold no more.
fn check_time(claims: &Claims) -> Result<()> {
    let expired = |_| Error::new(ErrorKind::Authentication, "this token has expired: ask for a new one");
    claims.check_time(clock::wall()).map_err(expired)
}

fn refuse_revoked(names: &HashSet<String>, name: &str) -> Result<()> {
    match names.contains(name) {
        true => Err(Error::new(ErrorKind::Authentication, "this token was revoked: ask for a new one")),
        false => Ok(()),
    }
}

/// The names of what was revoked.
fn revoked(state: &Path) -> Result<HashSet<String>> {
    match fs::read_to_string(&list(state)) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
        // Nobody is let in while it is not known who is not.
        Err(error) => Err(Error::new(
            ErrorKind::Io,
            format!("cannot read which tokens are revoked in {}: {error}", list(state).display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Config;

    fn endpoint(directory: &Path) -> Arc<Endpoint> {
        let state = directory.join("state");
        std::fs::create_dir_all(&state).expect("made");
        Endpoint::bind(Config::local(directory, state)).expect("bound")
    }

    #[test]
    fn a_token_allows_what_it_says_until_it_is_revoked() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, state) = (endpoint(directory.path()), directory.path().join("state"));
        let claims = Claims { write: false, path: b"data".to_vec(), ..Claims::FULL };
        let token = token_from_state(&state, &claims).expect("issued");
        let read = AccessToken::parse(&token.to_word()).expect("read");
        let access = endpoint.access(&read).expect("let in");
        access.check(b"data/x", Right::Read).expect("allowed");
        for (path, right) in [
            (&b"data/x"[..], Right::Write),
            (b"data", Right::Delete),
            (b"dat", Right::Read),
            (b"", Right::Read),
        ] {
            let error = access.check(path, right).expect_err("not allowed");
            assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        }
        assert!(access.check(b"data/../x", Right::Read).is_err(), "it leads out");
        // No option of any program begins as it does.
        for _ in 0..500 {
            let token = token_from_state(&state, &claims).expect("issued");
            assert!(!token.id.starts_with('-') && !token.secret.starts_with('-'), "{token:?}");
        }
        // Another one with the same claims stays.
        let other = token_from_state(&state, &claims).expect("issued");
        assert_eq!(revoke(&state, &token.to_word()).expect("revoked"), access.name());
        let error = endpoint.access(&token).expect_err("revoked");
        assert!(error.message.contains("revoked"), "{error}");
        endpoint.access(&other).expect("let in");
        let access = endpoint.access(&other).expect("let in");
        revoke(&state, &other.name().expect("one")).expect("revoked");
        endpoint.access(&other).expect_err("revoked");
        access.check_valid().expect_err("what was begun ends, too");
        std::fs::remove_file(list(&state)).expect("removed");
        access.check_valid().expect("the list is another one");
        for bad in ["", "xyz", "0123", "a.b", "..", "0123456789abcdeg"] {
            assert!(revoke(&state, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_else_lets_in() {
        let directory = tempfile::tempdir().expect("a directory");
        let (endpoint, state) = (endpoint(directory.path()), directory.path().join("state"));
        let token = token_from_state(&state, &Claims::FULL).expect("issued");
        let narrow = token_from_state(&state, &Claims { write: false, ..Claims::FULL }).expect("issued");
        let late = token_from_state(&state, &Claims { expires: Some(1), ..Claims::FULL }).expect("issued");
        let ticket = super::super::ticket_from_state(&state, &Claims::FULL).expect("issued");
        let with = |id: &str, secret: &str| AccessToken { id: id.to_owned(), secret: secret.to_owned() };
        let key = BASE64URL_NOPAD.encode(&ticket.key);
        for wrong in [
            with(&token.id, &narrow.secret),
            with(&token.id, ""),
            with("", &token.secret),
            with(&token.id, &key),
            with("AAAA", &key),
            late,
        ] {
            assert_eq!(endpoint.access(&wrong).expect_err("wrong").kind, ErrorKind::Authentication);
        }
        assert!(!format!("{token:?}").contains(&token.secret));
    }

    #[test]
    fn a_shared_link_is_no_wider_and_lives_no_longer_than_what_it_was_made_by() {
        let directory = tempfile::tempdir().expect("a directory");
        let endpoint = endpoint(directory.path());
        let claims = Claims { path: b"a".to_vec(), expires: Some(5_000_000_000), ..Claims::FULL };
        let error = endpoint.share(b"a/b", None, &claims).expect_err("no HTTP");
        assert!(error.message.contains("--https"), "{error}");
        endpoint.announce_http("https://h:1".to_owned());
        let error = endpoint.share(b"a/b c/", None, &claims).expect_err("not there");
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        std::fs::create_dir_all(directory.path().join("a/b c")).expect("made");
        let url = endpoint.share(b"a/b c/", Some(9_000_000_000), &claims).expect("shared");
        let (place, word) = url.split_once("?token=").expect("a token");
        assert_eq!(place, "https://h:1/a/b%20c/");
        let access = endpoint.access(&AccessToken::parse(word).expect("one")).expect("let in");
        let wanted = Claims { write: false, path: b"a/b c".to_vec(), ..claims };
        assert_eq!(*access.claims, wanted);
        endpoint.share(b"b", None, &claims).expect_err("not covered");
        endpoint.share(b"a", None, &Claims { read: false, ..claims }).expect_err("not to be read");
    }
}
