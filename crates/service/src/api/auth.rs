//! Who may ask: a bearer token for programs, a cookie for the dashboard.
//!
//! The token is made at the first start and kept in a file that only its owner can read. The cookie's value
//! is derived from the token, so that a restart signs nobody out, and cannot be turned back into it. A sign-in
//! code, which the service prints as a link, holds until the service ends.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use blake3::Hash;
use tidegate_transfer::sys::whole_file::{WholeFile, write_whole};

use super::problem::Problem;
use crate::queue::SharedQueue;

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;
/// The longest token file that is read.
const LONGEST: u64 = 4096;
/// The shortest token that someone may choose.
const SHORTEST: usize = 32;
/// The file below the service's directory.
pub(crate) const TOKEN_FILE: &str = "token";

/// The secrets of a running service. Only hashes are kept of what is compared: blake3 compares them in constant
/// time.
pub(crate) struct Keys {
    token: Hash,
    code: Hash,
    session: Hash,
    session_value: String,
    cookie: String,
    secure: bool,
}

impl Keys {
    /// The token in `directory`, made if there is none, and what follows from it. The sign-in code comes beside.
    /// Services of one host are told apart by `port`, as cookies are not; `secure` is with TLS.
    pub fn open(directory: &Path, port: u16, secure: bool) -> io::Result<(Arc<Self>, String)> {
        let token = read_or_make(directory)?;
        let code = random()?;
        let session_value = blake3::Hasher::new_derive_key("tidegate 2026 dashboard session")
            .update(token.as_bytes())
            .finalize()
            .to_hex()
            .to_string();
        let keys = Self {
            token: blake3::hash(token.as_bytes()),
            code: blake3::hash(code.as_bytes()),
            session: blake3::hash(session_value.as_bytes()),
            session_value,
            cookie: format!("tidegate_{port}"),
            secure,
        };
        Ok((Arc::new(keys), code))
    }

    /// Whether this is the token, or the sign-in code.
    pub fn opens(&self, given: &str) -> bool {
        let given = blake3::hash(given.trim().as_bytes());
        // Both are compared, whatever the first says.
        (given == self.token) | (given == self.code)
    }

    /// The `Set-Cookie` that signs a browser in, for 30 days.
    pub(crate) fn set_cookie(&self) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        let Self { cookie, session_value, .. } = self;
        format!("{cookie}={session_value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}")
    }

    /// The `Set-Cookie` that signs it out.
    pub(crate) fn clear_cookie(&self) -> String {
        format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", self.cookie)
    }

    /// Whether the request carries the token.
    fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && blake3::hash(token.trim().as_bytes()) == self.token
        })
    }

    /// Whether the request comes from a browser that signed in.
    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && blake3::hash(value.as_bytes()) == self.session)
    }
}

/// Lets through who may ask.
pub(crate) async fn guard(State(keys): State<Arc<Keys>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if keys.has_token(headers) {
        return next.run(request).await;
    }
    if !keys.has_session(headers) {
        return Problem::unauthorized().into_response();
    }
    if !same_site(request.method(), headers) {
        return cross_site().into_response();
    }
    next.run(request).await
}

/// What another site's page gets.
pub(crate) fn cross_site() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "this request came from another site's page",
        "use the dashboard itself, or send the token",
    )
}

/// Whether a browser's request comes from our own page. `SameSite=Strict` keeps the cookie from other sites
/// already; but all ports of one host are one site, so what changes something must name our own origin.
pub(crate) fn same_site(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text("sec-fetch-site").is_some_and(|from| from != "same-origin" && from != "none") {
        return false;
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok());
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    match (origin.and_then(|origin| origin.split_once("://")), host) {
        (Some((_, origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// The token kept in `directory`.
pub fn read_token(directory: &Path) -> io::Result<Option<String>> {
    let path = directory.join(TOKEN_FILE);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    let token = text.trim().to_owned();
    if token.len() < SHORTEST {
        let why = format!("{} holds no token of at least {SHORTEST} characters: remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(Some(token))
}

fn read_or_make(directory: &Path) -> io::Result<String> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if let Some(token) = read_token(directory)? {
        return Ok(token);
    }
    let token = random()?;
    let path = directory.join(TOKEN_FILE);
    write_private(&path, &format!("{token}\n"))?;
    // Another service may have been first: what is there counts.
    read_token(directory)?.ok_or_else(|| io::Error::other(format!("{} vanished", path.display())))
}

/// Has the service in `directory` opened by the token of those that share `queue` with it; the first one's is all others'.
pub(crate) async fn share_token(directory: &Path, queue: &SharedQueue) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let own = read_token(directory)?;
    let proposed = own.clone().map_or_else(random, Ok)?;
    let theirs = queue.token(&proposed).await.map_err(io::Error::other)?;
    let path = directory.join(TOKEN_FILE);
    match own {
        None => write_private(&path, &format!("{theirs}\n")),
        Some(own) if own == theirs => Ok(()),
        Some(_) => {
            let why = format!(
                "{} is not the token of the services that share the queue of {}: remove it, to take theirs",
                path.display(),
                queue.place()
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

/// Writes a file only its owner can read, unless it is there already.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let write = || {
        let mut file = WholeFile::begin(path, 0o600)?;
        file.write_all(content.as_bytes())?;
        file.commit_new().map(drop)
    };
    write().map_err(|error| unwritten(path, &error))
}

/// Writes a file only its owner can read, in place of the one before.
pub(crate) fn replace_private(path: &Path, content: &str) -> io::Result<()> {
    write_whole(path, 0o600, content.as_bytes()).map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

fn random() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| io::Error::other("no randomness to be had"))?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn a_token_is_made_once_and_is_private() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("service");
        let (keys, code) = Keys::open(&directory, 7118, false).expect("opened");
        let file = directory.join(TOKEN_FILE);
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).expect("there").permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&directory).expect("listed").count(), 1);
        let token = read_token(&directory).expect("read").expect("there");
        assert!(keys.opens(&token) && keys.opens(&code) && !keys.opens("") && !keys.opens(&token[1..]));
        let (again, other) = Keys::open(&directory, 7118, false).expect("opened");
        assert!(again.opens(&token) && !again.opens(&code) && other != code);
        let cookie = keys.set_cookie();
        assert!(!cookie.contains(&token) && !cookie.contains(&code));
        let pair = cookie.split(';').next().expect("a pair");
        assert!(again.has_session(&headers(&[("cookie", &format!("a=b; {pair}"))])));
        assert!(!again.has_session(&headers(&[("cookie", &format!("{pair}x"))])));
        assert!(!again.has_session(&headers(&[("cookie", &format!("tidegate_7118={token}"))])));
        fs::write(&file, "short").expect("written");
        assert!(Keys::open(&directory, 7118, false).is_err());
    }

    #[test]
    fn only_our_own_page_changes_something() {
        for (method, pairs, allowed) in [
            (Method::GET, vec![], true),
            (Method::GET, vec![("sec-fetch-site", "cross-site")], false),
            (Method::GET, vec![("sec-fetch-site", "same-site")], false),
            (Method::GET, vec![("sec-fetch-site", "none")], true),
            (Method::POST, vec![("host", "127.0.0.1:7118")], false),
            (Method::POST, vec![("host", "127.0.0.1:7118"), ("origin", "http://127.0.0.1:7118")], true),
            (Method::POST, vec![("host", "127.0.0.1:7118"), ("origin", "http://127.0.0.1:8080")], false),
            (Method::POST, vec![("host", "127.0.0.1:7118"), ("origin", "null")], false),
        ] {
            assert_eq!(same_site(&method, &headers(&pairs)), allowed, "{method} {pairs:?}");
        }
    }
}
