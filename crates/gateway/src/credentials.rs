//! Who asks: a token as a bearer's, as a password, in a link, or as the key pair that signs a request.

use std::sync::Arc;
use std::time::SystemTime;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use data_encoding::BASE64;
use tidegate_transfer::endpoint::Endpoint;
use tidegate_transfer::endpoint::access::{Access, AccessToken};

use crate::names::value;
use crate::refusal::{Answer, Refusal};
use crate::signature::{self, Signed};

/// The parameter of a link that carries its token.
const LINK: &str = "token";

/// What an asker has shown.
#[derive(Debug)]
pub(crate) struct Asker {
    /// What it may.
    pub access: Access,
    /// How it said so.
    pub by: Shown,
}

/// How an asker has shown its token.
#[derive(Debug)]
pub(crate) enum Shown {
    /// In a header.
    Header,
    /// In a link, which pages pass on; it reads and no more, whatever the token allows.
    Link(String),
    /// By a signature, as S3 has it.
    Signature(Box<Signed>),
}

/// Whether a request is signed, as S3's are, and wants to be answered as such.
pub(crate) fn is_s3(parts: &Parts, query: &[(String, String)]) -> bool {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    header.is_some_and(signature::is_signed) || value(query, signature::PARAMETER).is_some()
}

/// Finds out who sends the request of `parts`, whose `query` was read already.
pub(crate) fn asker(endpoint: &Arc<Endpoint>, parts: &Parts, query: &[(String, String)]) -> Answer<Asker> {
    if is_s3(parts, query) {
        let signed = signature::read(parts, query, SystemTime::now())?;
        let (access, secret) = endpoint.access_of(signed.id()).map_err(|error| {
            Refusal::new(StatusCode::FORBIDDEN, error.message).called("InvalidAccessKeyId")
        })?;
        let signed = Box::new(signed.check(&secret)?);
        return Ok(Asker { access, by: Shown::Signature(signed) });
    }
    let header = parts.headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    let (token, by) = match (header, value(query, LINK)) {
        (Some(header), _) => (of_header(header), Shown::Header),
        (None, Some(word)) => {
            if !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
                let why = "a link only reads: send the token as a header";
                return Err(Refusal::new(StatusCode::FORBIDDEN, why));
            }
            (AccessToken::parse(word), Shown::Link(word.to_owned()))
        }
        (None, None) => {
            let why = "a token is needed: as a bearer's, as a password, or to sign with; `tidegate ticket --http` makes one";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
        }
    };
    let unreadable = || Refusal::new(StatusCode::UNAUTHORIZED, "that is no token: ID.SECRET is expected");
    let access = endpoint.access(&token.ok_or_else(unreadable)?)?;
    Ok(Asker { access, by })
}

/// The token in an `Authorization` header.
fn of_header(header: &str) -> Option<AccessToken> {
    let (scheme, rest) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return AccessToken::parse(rest);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(rest.trim().as_bytes()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    // The whole token as a password, or its halves as user and password.
    AccessToken::parse(password)
        .or_else(|| Some(AccessToken { id: user.to_owned(), secret: password.to_owned() }))
}

/// Refuses what another site's page has a browser send, which adds a password by itself.
pub(crate) fn refuse_other_sites(parts: &Parts) -> Answer<()> {
    let from = parts.headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    match from {
        None | Some("none" | "same-origin") => Ok(()),
        _ => Err(Refusal::new(StatusCode::FORBIDDEN, "this request came from another site's page")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_in_a_header_in_three_ways() {
        let token = AccessToken { id: "id".to_owned(), secret: "secret".to_owned() };
        let basic = |pair: &str| format!("Basic {}", BASE64.encode(pair.as_bytes()));
        for header in [
            "Bearer id.secret".to_owned(),
            basic("anyone:id.secret"),
            basic(":id.secret"),
            basic("id:secret"),
        ] {
            assert_eq!(of_header(&header), Some(token.clone()), "{header}");
        }
        for bad in ["", "Bearer", "Bearer id", "Digest id.secret", "Basic !", "Basic aWQ="] {
            assert_eq!(of_header(bad), None, "{bad}");
        }
    }
}
