use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, response::IntoResponse, response::Response};
use pillion_wire::{Readiness, ReloadReport, UnavailableServer};

use crate::access::Grant;
use crate::app::App;
use crate::moment::text_of;

/// Says whether requests should come here: 200 once every MCP server was asked for its tools,
/// whatever the answer was; 503 before, and while the sidecar drains.
///
/// The first look makes the sidecar ask, and does not wait for it.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    summary = "Say whether requests should come here",
    description = "503 until every MCP server was asked for its tools, and while the sidecar drains. The first look makes it ask, without waiting.",
    responses(
        (status = 200, description = "Ready", body = Readiness),
        (status = 503, description = "Not yet, or not any more", body = Readiness),
    )
)]
pub(super) async fn ready(State(app): State<App>, grant: Option<Extension<Grant>>) -> Response {
    let mut readiness = of(&app);
    let is_ready = readiness.status == "ready";
    if readiness.status == "starting" {
        // Those who look once more meanwhile wait for the same answers.
        tokio::spawn(async move { app.discover().await });
    }
    if grant.is_none() {
        // Whoever brings no token learns nothing of servers and files.
        readiness = Readiness {
            status: readiness.status,
            ..Readiness::default()
        };
    }
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness)).into_response()
}

/// How ready the sidecar is.
pub(super) fn of(app: &App) -> Readiness {
    let process = app.process();
    let status = if process.is_draining() {
        "draining"
    } else if app.was_discovery_tried() {
        "ready"
    } else {
        "starting"
    };
    let failed = app.server_reports().into_iter().filter_map(|server| {
        Some(UnavailableServer {
            label: server.label,
            error: server.error?,
        })
    });
    Readiness {
        status: status.to_owned(),
        unavailable_servers: failed.collect(),
        store_error: app.store_failure(),
        last_reload: process.last_reload().map(|reload| ReloadReport {
            at: text_of(reload.at.into()),
            success: reload.error.is_none(),
            error: reload.error,
        }),
    }
}
