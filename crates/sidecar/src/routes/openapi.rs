use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

use super::{health, metrics, ready, status, tool_calls, tools};

/// The description of the API (requirement I5).
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pillion sidecar",
        description = "Runs tools for applications that talk to language models. HTTP/1.1 over a Unix socket."
    ),
    paths(
        tools::list::list,
        tools::schemas::schemas,
        tools::execute::execute,
        tools::batch_execute::batch_execute,
        tool_calls::list::list,
        tool_calls::statistics::statistics,
        tool_calls::show::show,
        health::health,
        ready::ready,
        metrics::metrics,
        status::status
    ),
    tags(
        (name = "tools", description = "Listing and running tools"),
        (name = "tool-calls", description = "What was called, and how it went"),
        (name = "operations", description = "Running the sidecar itself")
    )
)]
struct Document;

static DOCUMENT: LazyLock<Result<String, serde_json::Error>> =
    LazyLock::new(|| Document::openapi().to_json());

/// The OpenAPI document.
pub(super) async fn openapi() -> Response {
    match &*DOCUMENT {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response(),
        Err(error) => {
            tracing::error!(%error, "Cannot write the OpenAPI document");
            super::RequestError::Panicked.into_response()
        }
    }
}
