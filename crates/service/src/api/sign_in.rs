//! The dashboard's door: a link or a form that brings a token or a code, and the cookie that follows.

use std::sync::Arc;

use axum::Form;
use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::http::header::{HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::auth::{Keys, cross_site, same_site};
use super::frame::{Path, QueryParams, Routes};
use super::operation::{HTML, Operation};
use super::problem::Problem;
use crate::dashboard;

/// How pages are told of.
const PAGE: &str = "HTML.";

/// What the printed link carries.
#[derive(Deserialize, JsonSchema)]
struct Link {
    /// The code of the link that the service printed.
    code: Option<String>,
}

/// The form.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Token {
    /// The service's token, or the code of its link.
    token: String,
}

/// The page, its parts, and signing in and out.
pub(crate) fn routes() -> Routes<Arc<Keys>> {
    let said = |name, summary| Operation::new(name, "dashboard", summary).open();
    let shows = |name, summary| said(name, summary).answers_as::<String>(StatusCode::OK, PAGE, HTML);
    let wrong = |said: Operation| said.answers_as::<String>(StatusCode::UNAUTHORIZED, PAGE, HTML);
    let signs_in =
        shows("login", "Sign a browser in.").reads_as::<Token>("application/x-www-form-urlencoded");
    let asks = shows("loginForm", "The form that signs in; with the printed code, signed in at once.");
    Routes::new()
        .get(
            "/",
            page,
            shows("dashboard", "The dashboard.").says(StatusCode::SEE_OTHER, "To the form that signs in."),
        )
        .get(
            "/assets/{name}",
            asset,
            said("asset", "A part of the dashboard.")
                .path::<String>("name", "What it is called.")
                .says(StatusCode::OK, "The part."),
        )
        .get("/login", form, wrong(asks.query::<Link>()))
        .post("/login", sign_in, wrong(signs_in))
        .post("/logout", sign_out, shows("logout", "Sign a browser out."))
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
