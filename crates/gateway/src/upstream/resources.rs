//! The resources of one server, as read through the REST API.

use pillion_core::compute;
use pillion_core::tool::{CallContext, ErrorCode, ToolFailure};
use pillion_mcp_client::{
    EntryKind, MAX_ERROR_TEXT_BYTES, McpError, RequestOptions, RpcError, shortened,
};
use pillion_mcp_tools::error_code;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Server;
use crate::calling_client::message::INTERNAL_ERROR;

/// JSON-RPC error codes with which servers report that a resource is unknown or that they have no
/// resources.
const NOT_FOUND_CODES: [i64; 3] = [-32601, -32602, -32002];

/// The result of `resources/read`.
#[derive(Debug, Default, Deserialize)]
pub struct ReadResourceResult {
    /// The contents as the server sent them: each has a `text`, or a `blob` in Base64.
    pub contents: Vec<Map<String, Value>>,
}

/// Returns the server's resources, repaired where necessary. Entries that cannot be repaired
/// are dropped with a warning.
///
/// # Errors
/// The same errors as [`for_caller`](super::CallerConnections::for_caller), and the server's error.
pub async fn list(
    server: &Server,
    context: &CallContext,
) -> Result<Vec<Box<RawValue>>, ToolFailure> {
    let connection = server.connections.for_caller(context).await?;
    let listing = connection.route_messages(None, connection.client.list_resources());
    let entries = Box::pin(listing)
        .await
        .map_err(|error| to_failure(server, error_code(error.class()), &error))?;
    let checker = &server.entries;
    let raw_entries = checker
        .check_list(EntryKind::Resource, entries)
        .await
        .into_iter()
        .map(|offered_entry| offered_entry.entry);
    Ok(raw_entries.collect())
}

/// Returns the contents of a resource.
///
/// # Errors
/// The same errors as [`for_caller`](super::CallerConnections::for_caller), and the server's error:
/// `not_found` if the server has no such resource.
pub async fn read(
    server: &Server,
    uri: &str,
    context: &CallContext,
) -> Result<ReadResourceResult, ToolFailure> {
    const READ_METHOD: &str = "resources/read";
    let connection = server.connections.for_caller(context).await?;
    let (span, trace) = server.start_span(READ_METHOD, None, context.trace.as_ref());
    let mut options = RequestOptions::default();
    options.meta = trace.map(|trace| trace.to_meta()).unwrap_or_default();
    let params = json!({ "uri": uri });
    let request = connection
        .client
        .request_with_options(READ_METHOD, &params, &options);
    let outcome = connection.route_messages(None, request).await;
    if let Some(span) = span {
        let to_rpc_error = |error: &McpError| match error.rpc_error() {
            Some(error) => error.clone(),
            None => RpcError::new(INTERNAL_ERROR, error.to_string()),
        };
        span.end_request_span(&outcome.as_ref().map_err(to_rpc_error));
    }
    let result = outcome.map_err(|error| {
        let is_not_found = |error: &RpcError| NOT_FOUND_CODES.contains(&error.code);
        let code = if error.rpc_error().is_some_and(is_not_found) {
            ErrorCode::NotFound
        } else {
            error_code(error.class())
        };
        to_failure(server, code, &error)
    })?;
    let bytes = result.get().len();
    let parse = move || serde_json::from_str(result.get());
    let contents = compute::run(&server.label, bytes, parse).await;
    contents.map_err(|error| to_failure(server, ErrorCode::InternalError, &error))
}

fn to_failure(server: &Server, code: ErrorCode, error: &dyn std::fmt::Display) -> ToolFailure {
    let text = error.to_string();
    let shortened_text = shortened(&text, MAX_ERROR_TEXT_BYTES);
    let message = format!("MCP server '{}': {shortened_text}", server.label);
    ToolFailure::new(code, message)
}
