use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use pillion_wire::route;

use super::error::{InternalError, RequestError};
use crate::app::App;
use pillion_gateway::metrics;

/// Return the metrics, for Prometheus.
///
/// The format is OpenMetrics text. This request contacts no MCP server.
#[utoipa::path(
    get,
    path = route::METRICS.path,
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    match app.scrape().to_text() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "Cannot write the metrics");
            RequestError::from(InternalError).into_response()
        }
    }
}
