use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, response::IntoResponse, response::Response};
use pillion_wire::{Readiness, ReloadReport, UnavailableServer, route};

use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::timestamp::format_timestamp;

/// Check whether the sidecar is ready for requests.
///
/// Returns 503 until the sidecar has tried to list the tools of every MCP server, while it drains,
/// and while its store cannot be written. The first readiness check starts the discovery of MCP
/// tools in the background.
#[utoipa::path(
    get,
    path = route::READY.path,
    responses(
        (status = 200, description = "Ready", body = Readiness),
        (status = 503, description = "The sidecar is starting or draining, or its store cannot be written", body = Readiness),
    )
)]
pub(super) async fn ready(
    State(app): State<App>,
    grant: Option<Extension<AccessGrant>>,
) -> Response {
    app.check_store().await;
    let mut readiness = readiness(&app);
    let is_ready = readiness.status == "ready";
    if readiness.status == "starting"
        && let Ok(turn) = Arc::clone(&app.process().background_discovery).try_lock_owned()
    {
        // Concurrent requests, which need no token, share the same discovery.
        tokio::spawn(async move {
            let _turn = turn;
            app.discover().await
        });
    }
    if grant.is_none() {
        // A client without a token gets no server names and no paths.
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

/// Returns the readiness of the sidecar.
pub(super) fn readiness(app: &App) -> Readiness {
    let process = app.process();
    let status = if process.is_draining() {
        "draining"
    } else if app.is_store_missing() {
        "store_gone"
    } else if app.store_failure().is_some() {
        "store_unavailable"
    } else if app.has_tried_discovery() {
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
            at: format_timestamp(reload.at.into()),
            success: reload.error.is_none(),
            error: reload.error,
        }),
    }
}
