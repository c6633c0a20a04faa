//! The dashboard's door: a link or a form that brings a token or a code, and the cookie that follows.

use std::sync::Arc;

use axum::Form;
use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::http::header::{HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::auth::{Keys, cross_site, same_site};
use super::frame::{Path, QueryParams, Routes};
use super::problem::Problem;
use crate::dashboard;

/// What the printed link carries.
#[derive(Deserialize)]
struct Link {
    code: Option<String>,
}

/// What the form carries.
#[derive(Deserialize)]
struct Token {
    token: String,
}

/// The page, its parts, and signing in and out.
pub(crate) fn routes() -> Routes<Arc<Keys>> {
    Routes::new()
        .get("/", page)
        .get("/assets/{name}", asset)
        .get("/login", form)
        .post("/login", sign_in)
        .post("/logout", sign_out)
}

async fn page(State(keys): State<Arc<Keys>>, headers: HeaderMap) -> Response {
    if keys.has_session(&headers) {
        return dashboard::page();
    }
    (StatusCode::SEE_OTHER, [(LOCATION, "/login")]).into_response()
}

async fn asset(Path(name): Path<String>) -> Response {
    let none = || Problem::not_found("the dashboard has no such part", "reload the page").into_response();
    dashboard::asset(&name).unwrap_or_else(none)
}

async fn form(State(keys): State<Arc<Keys>>, QueryParams(link): QueryParams<Link>) -> Response {
    match link.code {
        None => dashboard::login(false),
        Some(code) => admit(&keys, &code),
    }
}

async fn sign_in(
    State(keys): State<Arc<Keys>>,
    headers: HeaderMap,
    form: Result<Form<Token>, FormRejection>,
) -> Response {
    if !same_site(&Method::POST, &headers) {
        return cross_site().into_response();
    }
    match form {
        Ok(Form(Token { token })) => admit(&keys, &token),
        Err(rejection) => {
            Problem::new(rejection.status(), rejection.body_text(), "send the form of GET /login")
                .into_response()
        }
    }
}

fn admit(keys: &Keys, given: &str) -> Response {
    if !keys.opens(given) {
        return (StatusCode::UNAUTHORIZED, dashboard::login(true)).into_response();
    }
    with_cookie(dashboard::welcome(), &keys.set_cookie())
}

async fn sign_out(State(keys): State<Arc<Keys>>, headers: HeaderMap) -> Response {
    if !same_site(&Method::POST, &headers) {
        return cross_site().into_response();
    }
    with_cookie(dashboard::login(false), &keys.clear_cookie())
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
