//! The pages, one module each.

mod approvals;
mod calls;
mod changes;
mod components;
mod home;
mod servers;
mod tools;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use maud::Markup;

use crate::Console;
use crate::error::{PageError, Result};
use crate::sign_in::see_other;

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
        .route("/changes/tool", get(changes::show).post(changes::accept))
        .route("/calls", get(calls::list))
        .route("/calls/export", get(calls::export))
        .route("/calls/{id}", get(calls::show))
        .route("/calls/{id}/pictures/{number}", get(calls::picture))
        .route("/tools", get(tools::list))
        .route("/tools/{name}", get(tools::show).post(tools::run))
        .route("/servers", get(servers::list).post(servers::add))
        .route("/servers/new", get(servers::new))
        .route("/servers/{id}", get(servers::show))
        .route(
            "/servers/{id}/remove",
            get(servers::confirm_removal).post(servers::remove),
        )
        .route("/servers/{id}/{action}", post(servers::act))
        .route("/components", get(components::show))
}

/// Says that there is no such page.
pub(crate) async fn not_found() -> PageError {
    PageError::NotFound("There is no such page.")
}

/// Redirects to a page, after a form was accepted. `location` is relative to the requested URL.
fn redirect_to(location: &str) -> Response {
    see_other(location, None)
}
