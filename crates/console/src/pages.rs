//! The pages, one module each.

mod access;
mod approvals;
mod calls;
mod changes;
mod chats;
mod components;
mod connect;
mod doctor;
mod home;
mod registry;
mod servers;
mod settings;
mod tools;
mod usage;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::Markup;
use pillion_management::servers::{ServerError, Servers};

use crate::Console;
use crate::error::{PageError, Result};
use crate::sign_in::see_other;

pub(crate) use servers::OAUTH_CALLBACK_PATH;

/// The result of a handler that shows a page.
type PageResult = Result<Markup>;

/// Returns the routes of the pages.
pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/", get(home::redirect))
        .route("/home", get(home::show))
        .route("/approvals", get(approvals::list))
        .route(
            "/approvals/{id}",
            get(approvals::show).post(approvals::decide),
        )
        .route("/changes", get(changes::list))
        .route("/changes/tool", get(changes::show).post(changes::decide))
        .route("/calls", get(calls::list))
        .route("/calls/export", get(calls::export))
        .route("/calls/{id}", get(calls::show))
        .route("/calls/{id}/pictures/{number}", get(calls::picture))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", get(tools::show).post(tools::run))
        .route(
            "/saved-calls",
            get(tools::saved::list).post(tools::saved::remove),
        )
        .route("/components", get(components::show))
        .merge(servers::routes())
        .merge(doctor::routes())
        .merge(registry::routes())
        .merge(chats::routes())
        .merge(usage::routes())
        .merge(access::routes())
        .merge(connect::routes())
        .merge(settings::routes())
}

/// Says that there is no such page.
pub(crate) async fn not_found() -> PageError {
    PageError::NotFound("There is no such page.")
}

fn require_servers(console: &Console) -> Result<Arc<Servers>, ServerError> {
    console.servers.clone().ok_or(ServerError::NoStore)
}

/// Redirects to a page, after a form was accepted. `location` is relative to the requested URL.
fn redirect_to(location: &str) -> Response {
    see_other(location, None)
}
