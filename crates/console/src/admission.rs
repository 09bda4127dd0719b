//! Admits the requests of browsers: identifies the visitor, rejects forged requests, and adds the
//! headers that keep the pages inert.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use pillion_gateway::access::{
    AccessGate, AccessGrant, AccessRejection, Admission, BrowserSession, MAX_USER_BYTES, Peer,
    TokenCheckError,
};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::pages::OAUTH_CALLBACK_PATH;
use crate::ui::CSRF_FIELD;
use crate::visitor::{Visitor, VisitorData, root_of};
use crate::{Console, sign_in};

/// The policy of every page: only files of the sidecar itself, and no inline script or style. The
/// pages show text that attackers may have written.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Header in which an application on the Unix socket names its signed-in user. The application
/// forwards the requests of browsers to the console.
const USER_HEADER: &str = "x-pillion-console-user";

/// Header in which such an application sends a secret of the browser's session, which the console
/// uses as its CSRF token.
const CSRF_HEADER: &str = "x-pillion-console-csrf";

/// Minimum length of such a secret, in bytes.
const MIN_CSRF_BYTES: usize = 20;

/// The path of the event stream.
pub(crate) const LIVE_PATH: &str = "/live";

/// Header of the requests with which the script loads a page again.
const SCRIPT_HEADER: &str = "x-requested-with";

/// The value of [`SCRIPT_HEADER`].
const SCRIPT_HEADER_VALUE: &str = "console.js";

/// Time within which the body of a form must arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a form, in bytes.
const MAX_FORM_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of the form of the sign-in page, in bytes.
const MAX_SIGN_IN_BYTES: usize = 8 * 1024;

/// The beginning of the name of the cookie with the browser's session.
const COOKIE_NAME: &str = "pillion_console";

/// The cookie of the request's session. Stored as a request extension.
#[derive(Clone)]
pub(crate) struct SessionCookie(pub(crate) String);

/// Handles a request of a browser: the middleware of all pages.
pub(crate) async fn admit(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let root = root_of(parts.uri.path());
    if let Some(rejection) = reject_source(&console, &parts) {
        return rejection;
    }
    let visitor = if is_asset(parts.uri.path()) {
        None
    } else {
        identify(&console, &mut parts, &root).await
    };
    if let Some(visitor) = &visitor
        && !Admission::admit_request(&parts, &visitor.grant().principal()).await
    {
        return AccessRejection::NoFreePermit.into_response();
    }
    let is_public = is_public(parts.uri.path());
    let mut response = match admit_form(&mut parts, body, visitor.as_ref(), is_public).await {
        Ok(body) if is_public || visitor.is_some() => {
            if let Some(visitor) = &visitor {
                parts.extensions.insert(visitor.clone());
            }
            next.run(Request::from_parts(parts, body)).await
        }
        Ok(_) if matches!(parts.method, Method::GET | Method::HEAD) => {
            sign_in::redirect(&root, &parts.uri)
        }
        Ok(_) => PageError::SignedOut.into_response(),
        Err(error) => error.into_response(),
    };
    if let Some(error) = response.extensions().get::<PageError>() {
        let page = (error.status(), error.render(&root, visitor.as_ref()));
        response = page.into_response();
    }
    add_headers(response.headers_mut());
    response
}

/// Checks where a request comes from: over TCP, the configuration must offer the console, and the
/// headers `Host` and `Origin` must be those of the listener. Returns the response to a request that
/// is rejected.
fn reject_source(console: &Console, parts: &Parts) -> Option<Response> {
    let Some(Peer::Network { .. }) = parts.extensions.get::<Peer>() else {
        return None;
    };
    match console.gate.as_ref().filter(|_| console.section.tcp) {
        Some(gate) => gate
            .check_source(parts)
            .err()
            .map(AccessRejection::into_response),
        None => Some(StatusCode::NOT_FOUND.into_response()),
    }
}

/// Returns whether the path needs no session. The redirect of an authorization server arrives
/// without the session's cookie, which is `SameSite=Strict`.
fn is_public(path: &str) -> bool {
    path == "/sign-in" || path == OAUTH_CALLBACK_PATH || is_asset(path)
}

fn is_asset(path: &str) -> bool {
    path.starts_with("/assets/")
}

/// Returns the visitor of a request, or `None` if the browser is not signed in.
async fn identify(console: &Console, parts: &mut Parts, root: &str) -> Option<Visitor> {
    let (grant, user, csrf_token, has_session) = match forwarded_user(parts) {
        Some((grant, user, csrf_token)) => (grant, Some(user), csrf_token, false),
        None => {
            let session = find_session(console, parts).await?;
            let owner = &session.owner;
            (
                owner.grant.clone(),
                owner.user.clone(),
                session.csrf_token.clone(),
                true,
            )
        }
    };
    let (waiting_approvals, changed_tools) = console.count_waiting(&grant).await;
    Some(Visitor::new(VisitorData {
        grant,
        user,
        csrf_token,
        has_session,
        is_read_only: console.section.read_only,
        root: root.to_owned(),
        waiting_approvals,
        changed_tools,
    }))
}

/// Returns the user on whose behalf an application forwards the request. Only a process on the Unix
/// socket, which may do everything anyway, can name a user.
fn forwarded_user(parts: &Parts) -> Option<(AccessGrant, String, String)> {
    let Some(Peer::Process { uid, .. }) = parts.extensions.get::<Peer>() else {
        return None;
    };
    let header = |name: &str| std::str::from_utf8(parts.headers.get(name)?.as_bytes()).ok();
    let user = header(USER_HEADER).filter(|user| (1..=MAX_USER_BYTES).contains(&user.len()))?;
    let csrf_token = header(CSRF_HEADER).filter(|token| token.len() >= MIN_CSRF_BYTES)?;
    Some((
        AccessGrant::for_local_user(*uid),
        user.to_owned(),
        csrf_token.to_owned(),
    ))
}

/// Returns the session of the request's cookie.
async fn find_session(console: &Console, parts: &mut Parts) -> Option<Arc<BrowserSession>> {
    let cookie = read_cookie(&parts.headers)?.to_owned();
    let sessions = console.sessions();
    let lifetime = console.session_lifetime();
    let session = if is_automatic(parts) {
        sessions.peek(&cookie, lifetime)?
    } else {
        sessions.find(&cookie, lifetime)?
    };
    match check_token(console.gate.as_ref(), &session).await {
        Ok(true) => {}
        Ok(false) => {
            sessions.end(&cookie);
            return None;
        }
        // The token cannot be checked now: the session continues once it can.
        Err(error) => {
            tracing::warn!(%error, "Cannot check the access token of a session of the console");
            return None;
        }
    }
    parts.extensions.insert(SessionCookie(cookie));
    Some(session)
}

/// Returns whether the script sent the request without an action of the user. Such a request does
/// not count as a use of the session, so that a session expires although a page is open.
fn is_automatic(parts: &Parts) -> bool {
    let is_update = parts
        .headers
        .get(SCRIPT_HEADER)
        .is_some_and(|value| value == SCRIPT_HEADER_VALUE);
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    parts.uri.path() == LIVE_PATH || (is_update && is_read)
}

/// Returns whether the access token of the session, if any, still grants the session's permission.
///
/// # Errors
/// The tokens cannot be read.
pub(crate) async fn check_token(
    gate: Option<&Arc<AccessGate>>,
    session: &BrowserSession,
) -> Result<bool, TokenCheckError> {
    match (&session.owner.token, gate) {
        (None, _) => Ok(true),
        (Some(_), None) => Ok(false),
        (Some(token), Some(gate)) => {
            let grant = gate.check(token.expose_secret()).await?;
            Ok(grant.as_ref() == Some(&session.owner.grant))
        }
    }
}

/// Returns the name of the session's cookie. Cookies do not depend on the port, so the name contains
/// the port: consoles on several ports of one host do not share sessions.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let port = host
        .and_then(|host| host.rsplit_once(':'))
        .map(|(_, port)| port);
    let is_number = |port: &&str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.filter(is_number) {
        Some(port) => format!("{COOKIE_NAME}_{port}"),
        None => COOKIE_NAME.to_owned(),
    }
}

/// Returns the value of the session's cookie. Several such cookies count as none, because another
/// site on the same host may have set one of them.
fn read_cookie(headers: &HeaderMap) -> Option<&str> {
    let own_name = cookie_name(headers);
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut values = cookies
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == own_name)
        .map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

/// Returns the cookie that begins a session, or ends it if `value` is `None`. Without a `Path`, the
/// cookie is valid for the pages beside the sign-in page, below any prefix. The browser sends the
/// cookie only over HTTPS if it used HTTPS, according to its proxy or the application that forwards.
pub(crate) fn set_cookie(headers: &HeaderMap, value: Option<&str>) -> HeaderValue {
    let is_secure = headers
        .get("x-forwarded-proto")
        .is_some_and(|scheme| scheme == "https");
    let secure = if is_secure { "; Secure" } else { "" };
    let end = if value.is_none() { "; Max-Age=0" } else { "" };
    let (name, value) = (cookie_name(headers), value.unwrap_or_default());
    let text = format!("{name}={value}{end}{secure}; HttpOnly; SameSite=Strict");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Reads the form of a POST request and rejects a form that is not from the visitor's own page.
/// Returns the body for the handler.
async fn admit_form(
    parts: &mut Parts,
    body: Body,
    visitor: Option<&Visitor>,
    is_public: bool,
) -> Result<Body> {
    match parts.method {
        Method::GET | Method::HEAD => return Ok(body),
        Method::POST => {}
        _ => return Err(PageError::NotFound("This page accepts no such request.")),
    }
    check_origin(parts)?;
    // A browser without a session can send only the form of the sign-in page, which is short.
    let (csrf_token, max_bytes) = match visitor {
        Some(visitor) => (Some(visitor.csrf_token()), MAX_FORM_BYTES),
        None if is_public => (None, MAX_SIGN_IN_BYTES),
        None => return Err(PageError::SignedOut),
    };
    let fields = FormFields::parse(&read_form(body, max_bytes).await?)
        .ok_or(PageError::InvalidForm("it has too many fields"))?;
    if let Some(csrf_token) = csrf_token.filter(|_| !is_public) {
        let sent_token = fields.get(CSRF_FIELD).unwrap_or_default();
        if !bool::from(sent_token.as_bytes().ct_eq(csrf_token.as_bytes())) {
            return Err(PageError::Forged);
        }
    }
    parts.extensions.insert(fields);
    Ok(Body::empty())
}

/// Checks that a form comes from a page of the same host, or over TCP, of a configured origin, which
/// [`reject_source`] has checked. All browsers send `Origin` with a form.
fn check_origin(parts: &Parts) -> Result<()> {
    let text = |name: HeaderName| parts.headers.get(name)?.to_str().ok();
    let is_over_tcp = matches!(parts.extensions.get::<Peer>(), Some(Peer::Network { .. }));
    let is_own_origin = text(ORIGIN).is_some_and(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_same_host = authority
            .zip(text(HOST))
            .is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host));
        is_same_host || is_over_tcp
    });
    let fetch_site = text(HeaderName::from_static("sec-fetch-site"));
    if is_own_origin && fetch_site.is_none_or(|site| site == "same-origin") {
        Ok(())
    } else {
        Err(PageError::Forged)
    }
}

async fn read_form(body: Body, max_bytes: usize) -> Result<Bytes> {
    let collected_body = Limited::new(body, max_bytes).collect();
    match tokio::time::timeout(FORM_TIMEOUT, collected_body).await {
        Ok(Ok(collected_body)) => Ok(collected_body.to_bytes()),
        Ok(Err(_)) => Err(PageError::InvalidForm(
            "it is too long, or the connection was closed",
        )),
        Err(_) => Err(PageError::InvalidForm("it did not arrive within 30 s")),
    }
}

fn add_headers(headers: &mut HeaderMap) {
    let fixed_headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`, with which browsers send forms with the origin `null`.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed_headers {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}
