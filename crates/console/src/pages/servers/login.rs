//! Logins at the authorization servers of MCP servers (OAuth) in the visitor's browser.
//!
//! The authorization server is another origin, to which the Content-Security-Policy permits no form
//! and no redirect of a form. A page with a link therefore sends the browser there. The browser
//! returns without the session's cookie, which is `SameSite=Strict`: [`receive_redirect`] needs no
//! session and changes nothing, but continues at [`finish`] from a page of the console itself, for
//! which the browser sends the cookie.

use axum::extract::{Path, State};
use axum::http::header::{ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderName, Method, Uri};
use axum::response::Response;
use maud::{Markup, html};
use pillion_core::digest::sha256_hex;
use pillion_gateway::access::Scope;
use pillion_management::servers::{LOGIN_TTL, NewLogin, StartedLogin, run_to_completion};
use pillion_wire::ServerEntry;

use super::{require_servers, server_path};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::{FormFields, QueryFields};
use crate::pages::{PageResult, redirect_to};
use crate::ui::{
    Page, Tone, bare_page, card, duration, facts, name, notice, untrusted, untrusted_beginning,
    with_query,
};
use crate::visitor::{Section, Visitor};

/// The path to which authorization servers redirect browsers, below the console.
pub(crate) const OAUTH_CALLBACK_PATH: &str = "/oauth/callback";

/// The parameters of an authorization response (OAuth 2.1 section 4.1.2, RFC 9207).
const RESPONSE_PARAMETERS: [&str; 5] = ["code", "state", "iss", "error", "error_description"];

/// Maximum length of one such parameter, in bytes.
const MAX_PARAMETER_BYTES: usize = 4 * 1024;

/// Maximum length of the list of scopes on the page, in bytes.
const MAX_SCOPES_BYTES: usize = 1_000;

/// Begins a login, and shows the link to the authorization server.
pub(super) async fn begin(
    State(console): State<Console>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
    form: FormFields,
) -> PageResult {
    visitor.require(Scope::Admin)?;
    let servers = require_servers(&console)?;
    let redirect_uri = find_redirect_uri(&headers).ok_or(PageError::InvalidForm(
        "the browser has not sent the origin of the page",
    ))?;
    let server = servers.entry(&id, &console.gateway)?;
    // The name is used exactly, so that a login is for no other user. An empty field does not begin
    // a login for all users.
    let user = form.get("user");
    let session = session_key(&visitor);
    let login = NewLogin {
        server: &server.id,
        user,
        session: &session,
        redirect_uri: &redirect_uri,
    };
    let started_login = servers.begin_login(visitor.grant(), login).await?;
    Ok(page(&visitor, &server, user, &redirect_uri, &started_login))
}

fn page(
    visitor: &Visitor,
    server: &ServerEntry,
    user: Option<&str>,
    redirect_uri: &str,
    login: &StartedLogin,
) -> Markup {
    let scopes = login.scopes.join(" ");
    let shown_scopes = (!scopes.is_empty()).then(|| untrusted_beginning(&scopes, MAX_SCOPES_BYTES));
    let details = facts([
        ("Server", Some(untrusted(&server.name))),
        (
            "For",
            Some(user.map_or_else(|| html! { "the calls of all users" }, untrusted)),
        ),
        ("Authorization server", Some(name(&login.origin))),
        ("Scopes", shown_scopes),
        ("Redirect URI", Some(name(redirect_uri))),
    ]);
    let content = html! {
        div .content {
            (details)
            p { "The server has named this authorization server. Continue only if you know it." }
            div .row {
                a .button.primary href=(login.url) rel="noreferrer" { "Continue to the authorization server" }
                a .button href=(visitor.href(&server_path(&server.id))) { "Cancel" }
            }
            p .muted.small { "Complete the login in this browser, within " (duration(LOGIN_TTL)) ". The console must stay reachable at its current address." }
        }
    };
    let page = Page::new(
        "Log in",
        Section::Servers,
        card("Authorization", None, content),
    );
    page.render(visitor)
}

/// Receives the redirect of an authorization server, and continues at [`finish`].
pub(super) async fn receive_redirect(QueryFields(query): QueryFields) -> Markup {
    let is_short = |value: &&str| value.len() <= MAX_PARAMETER_BYTES;
    let parameters = RESPONSE_PARAMETERS.iter().filter_map(|parameter| {
        let value = query.get(parameter).filter(is_short)?;
        Some((*parameter, value))
    });
    let target = with_query("./finish", parameters);
    let body = html! {
        meta http-equiv="refresh" content={ "0;url=" (target) };
        (notice(Tone::Neutral, html! { "The authorization server has answered. " a href=(target) { "Continue" } }))
    };
    bare_page("../", "Log in", body)
}

/// Finishes a login. Only the session that has begun the login can finish it.
pub(super) async fn finish(
    State(console): State<Console>,
    visitor: Visitor,
    method: Method,
    uri: Uri,
) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    if method != Method::GET {
        return Err(PageError::NotFound("This page accepts no such request."));
    }
    let servers = require_servers(&console)?;
    let (grant, session) = (visitor.grant().clone(), session_key(&visitor));
    let query = uri.query().unwrap_or_default().to_owned();
    let finish = async move { servers.finish_login(&grant, &session, &query).await };
    let finished_login = run_to_completion(finish).await?;
    let path = format!("{}/credentials", server_path(&finished_login.server_id));
    let location = with_query(&visitor.href(&path), [("login", "done")]);
    Ok(redirect_to(&location))
}

/// Returns a text that identifies the visitor's browser session. The text does not reveal the CSRF
/// token, which is the secret that each kind of session has.
fn session_key(visitor: &Visitor) -> String {
    sha256_hex(visitor.csrf_token())
}

/// Returns the redirect URI below the console, as the browser sees the console: at the origin of
/// the page with the form, which was checked, and below the path of this page.
fn find_redirect_uri(headers: &HeaderMap) -> Option<String> {
    let text = |header: HeaderName| headers.get(header)?.to_str().ok();
    let is_web_origin =
        |origin: &&str| origin.starts_with("https://") || origin.starts_with("http://");
    let origin = text(ORIGIN).filter(is_web_origin)?;
    let page_path = text(REFERER).and_then(|page| page.strip_prefix(origin));
    let console_path = page_path.and_then(find_console_path);
    let path = console_path.unwrap_or(crate::PATH);
    Some(format!("{origin}{path}{OAUTH_CALLBACK_PATH}"))
}

/// Returns the path of the console, given the path of a page of a server.
fn find_console_path(page_path: &str) -> Option<&str> {
    let path = page_path.split(['?', '#']).next()?;
    let (console_path, _) = path.rsplit_once("/servers/")?;
    let is_path_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/%".contains(&byte);
    let is_path = console_path.is_empty() || console_path.starts_with('/');
    (is_path && console_path.bytes().all(is_path_byte)).then_some(console_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_redirect_uri_is_below_the_console_as_the_browser_sees_it() {
        let https = "https://app.example";
        for (origin, referer, expected) in [
            (
                "http://127.0.0.1:7421",
                Some("http://127.0.0.1:7421/console/servers/a/credentials?user=b"),
                Some("http://127.0.0.1:7421/console/oauth/callback"),
            ),
            (
                https,
                Some("https://app.example/team/console/servers/a"),
                Some("https://app.example/team/console/oauth/callback"),
            ),
            (
                https,
                None,
                Some("https://app.example/console/oauth/callback"),
            ),
            (
                https,
                Some("https://app.example.evil/x/servers/a"),
                Some("https://app.example/console/oauth/callback"),
            ),
            (
                https,
                Some("https://evil.example/x/servers/a"),
                Some("https://app.example/console/oauth/callback"),
            ),
            ("null", Some("https://app.example/console/servers/a"), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, origin.parse().unwrap());
            if let Some(referer) = referer {
                headers.insert(REFERER, referer.parse().unwrap());
            }
            let redirect_uri = find_redirect_uri(&headers);
            assert_eq!(redirect_uri.as_deref(), expected, "{referer:?}");
        }
    }
}
