//! The console: its pages, and the links that sign browsers in.

use axum::extract::State;
use axum::{Extension, Json, Router};
use pillion_gateway::access::{
    AccessGrant, GrantHolder, MAX_USER_BYTES, SIGN_IN_CODE_TTL, SessionOwner,
};
use pillion_management::error::{DENIED, RequestError, Result, route_error};
use pillion_wire::{ConsoleLink, ConsoleLinkRequest, route};

#[cfg(feature = "console")]
use tower_http::catch_panic::CatchPanicLayer;

use super::extract::OptionalBody;
use crate::app::App;

route_error! {
    /// A link would outlive the access token with which it was created.
    #[derive(Debug, thiserror::Error)]
    #[error("Sign-in links are created over the Unix socket: sign in with the access token instead")]
    struct NotUnixSocket => DENIED
}

/// Create a link that signs a browser in to the console.
///
/// The browser gets the permission of the local user who creates the link. The link is good for one
/// sign-in within a minute. The request must come over the Unix socket.
#[utoipa::path(
    post,
    path = route::CREATE_CONSOLE_LINK.path,
    request_body(content = Option<ConsoleLinkRequest>, content_type = "application/json"),
    responses(
        (status = 200, description = "The link", body = ConsoleLink),
        (status = 400, description = "The request body is invalid"),
        (status = 403, description = "The request did not come over the Unix socket"),
    )
)]
pub(super) async fn create_link(
    State(app): State<App>,
    Extension(grant): Extension<AccessGrant>,
    OptionalBody(request): OptionalBody<ConsoleLinkRequest>,
) -> Result<Json<ConsoleLink>> {
    if grant.holder != GrantHolder::LocalUser {
        return Err(NotUnixSocket.into());
    }
    let user = request.user.filter(|user| !user.is_empty());
    if user
        .as_ref()
        .is_some_and(|user| user.len() > MAX_USER_BYTES)
    {
        let expected = format!("at most {MAX_USER_BYTES} bytes");
        return Err(RequestError::invalid_parameter("user", expected));
    }
    let owner = SessionOwner {
        user,
        grant,
        token: None,
    };
    let code = app.process().browser_sessions.create_code(owner);
    Ok(Json(ConsoleLink {
        success: true,
        path: format!("/console/sign-in?code={code}"),
        expires_in: SIGN_IN_CODE_TTL.as_secs(),
    }))
}

/// Adds the pages of the console, if this build has them.
#[cfg(feature = "console")]
pub(super) fn add_pages(router: Router, app: &App) -> Router {
    let console = pillion_console::Console {
        gateway: app.gateway().clone(),
        servers: app.servers().cloned(),
        gate: app.access().gate.clone(),
        socket: app.endpoints().socket.clone(),
        listen: app.endpoints().listen,
        accepts_stored_tokens: app.accepts_stored_tokens(),
        section: app.console().clone(),
        effective_config: app.effective_config().clone(),
        warnings: app.warnings().clone(),
        applied_reloads: app.process().applied_reloads(),
    };
    let pages = pillion_console::router(console);
    let catch_panics = CatchPanicLayer::custom(super::fallback::respond_to_panic);
    router.nest(pillion_console::PATH, pages.layer(catch_panics))
}

/// Adds nothing: this build has no console.
#[cfg(not(feature = "console"))]
pub(super) fn add_pages(router: Router, _app: &App) -> Router {
    router
}
