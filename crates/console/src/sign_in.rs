//! Signing in with a link of `pillion console` or with an access token, and signing out.

use axum::Extension;
use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use pillion_gateway::access::SessionOwner;
use secrecy::{ExposeSecret, SecretString};

use crate::Console;
use crate::admission::{SessionCookie, set_cookie};
use crate::form::{FormFields, QueryFields};
use crate::ui::{Field, FormControl, Tone, bare_page, notice, with_query};

/// Redirects a browser that is not signed in to the sign-in page, which returns to `uri`.
pub(crate) fn redirect(root: &str, uri: &Uri) -> Response {
    let path = uri
        .path_and_query()
        .map_or("", |path| path.as_str())
        .trim_start_matches('/');
    see_other(
        &with_query(&format!("{root}sign-in"), [("return", path)]),
        None,
    )
}

/// Shows the sign-in page, or signs in with the code of a link.
pub(crate) async fn show(
    State(console): State<Console>,
    QueryFields(query): QueryFields,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let target = return_path(query.get("return"));
    // A preview of the link, with the method HEAD, must not use up the code.
    let Some(code) = query.text("code").filter(|_| method == Method::GET) else {
        return page(&console, &target, None).into_response();
    };
    match console.sessions().redeem_code(code) {
        Some(owner) => {
            let cookie = console.sessions().begin(owner);
            // A page instead of a redirect: after a redirect, a browser that followed the link from
            // another site would not send the cookie, which is `SameSite=Strict`.
            let body = html! {
                meta http-equiv="refresh" content={ "0;url=" (target) };
                p { "You are signed in. " a href=(target) { "Continue" } }
            };
            let cookie_header = set_cookie(&headers, Some(&cookie));
            (
                [(SET_COOKIE, cookie_header)],
                bare_page("./", "Signed in", body),
            )
                .into_response()
        }
        None => {
            let fault = "This link was already used, or is older than a minute. Run pillion console again for a new link.";
            (StatusCode::FORBIDDEN, page(&console, &target, Some(fault))).into_response()
        }
    }
}

/// Signs in with an access token.
pub(crate) async fn sign_in(
    State(console): State<Console>,
    headers: HeaderMap,
    form: FormFields,
) -> Response {
    let target = return_path(form.get("return"));
    let token = SecretString::from(form.text("token").unwrap_or_default());
    let grant = match &console.gate {
        Some(gate) => gate.check(token.expose_secret()).await,
        None => Ok(None),
    };
    match grant {
        Ok(Some(grant)) => {
            let user = grant.only_user().map(str::to_owned);
            let owner = SessionOwner {
                grant,
                user,
                token: Some(token),
            };
            let cookie = console.sessions().begin(owner);
            see_other(&target, Some(set_cookie(&headers, Some(&cookie))))
        }
        Ok(None) => {
            let fault = "This access token is unknown, expired or revoked.";
            (StatusCode::FORBIDDEN, page(&console, &target, Some(fault))).into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "Cannot check the access token of a browser that signs in to the console");
            let fault = "The access token cannot be checked now. Try again.";
            (
                StatusCode::SERVICE_UNAVAILABLE,
                page(&console, &target, Some(fault)),
            )
                .into_response()
        }
    }
}

/// Ends the session of the browser.
pub(crate) async fn sign_out(
    State(console): State<Console>,
    cookie: Option<Extension<SessionCookie>>,
    headers: HeaderMap,
) -> Response {
    if let Some(Extension(SessionCookie(cookie))) = cookie {
        console.sessions().end(&cookie);
    }
    see_other("./sign-in", Some(set_cookie(&headers, None)))
}

fn page(console: &Console, target: &str, fault: Option<&str>) -> Markup {
    let body = html! {
        @if let Some(fault) = fault { (notice(Tone::Bad, html! { (fault) })) }
        @if console.accepts_tokens() {
            form .stack method="post" action="./sign-in" {
                input type="hidden" name="return" value=(target);
                (Field::new("token", "Access token", FormControl::Secret).with_hint("Created with pillion tokens create.").render())
                div { button .primary type="submit" { "Sign in" } }
            }
            p .muted { "On the sidecar's host, " code { "pillion console" } " prints a link that signs you in." }
        } @else {
            p { "Run " code { "pillion console" } " on the sidecar's host. It prints a link that signs you in, once, within a minute." }
        }
    };
    bare_page("./", "Sign in to Pillion", body)
}

/// Returns the page to which the sign-in returns, as a path below the console. Anything else than
/// such a path is the home page.
fn return_path(requested: Option<&str>) -> String {
    let path = requested.unwrap_or_default();
    let is_path_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/?=&%+,".contains(&byte);
    let is_below = path.starts_with(|first: char| first.is_ascii_lowercase())
        && path.bytes().all(is_path_byte)
        && !path.contains("//")
        && !path.contains("..")
        && !path.to_ascii_lowercase().contains("%2e");
    if is_below {
        format!("./{path}")
    } else {
        "./home".to_owned()
    }
}

/// Redirects to a relative URL, with the method GET.
pub(crate) fn see_other(location: &str, cookie: Option<HeaderValue>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_returns_only_to_pages_of_the_console() {
        for path in ["calls/1?tool=a%20b", "home"] {
            assert_eq!(return_path(Some(path)), format!("./{path}"));
        }
        for path in [
            "",
            "//evil.example",
            "https://evil.example",
            "/x",
            "a//b",
            "../x",
            "a/../../x",
            "a/%2e%2E/x",
            "javascript:x",
            "a\"b",
            "A",
        ] {
            assert_eq!(return_path(Some(path)), "./home", "{path}");
        }
        assert_eq!(return_path(None), "./home");
    }
}
