//! Offloaded tool results as resources.

use std::time::Duration;

use axum::body::Bytes;
use futures_util::TryStreamExt;
use pillion_mcp_client::{Feature, ProtocolVersion, RpcError};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Caller;
use pillion_gateway::calling_client::message::{INTERNAL_ERROR, Request, raw};
use pillion_gateway::results::RESULT_URI_PREFIX;

/// Timeout for reserving memory for a stored result.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the `ReadResourceResult` if the URI names an offloaded result of this caller.
pub(super) async fn read(
    caller: &Caller,
    request: &Request,
) -> Result<Option<Box<RawValue>>, RpcError> {
    let uri = request.text("uri")?;
    let results = caller.mcp.gateway.results();
    let (Some(id), Some(results)) = (uri.strip_prefix(RESULT_URI_PREFIX), results) else {
        return Ok(None);
    };
    let log_unreadable_result = |error: std::io::Error| {
        tracing::error!(%error, "Cannot read a stored result");
        RpcError::new(INTERNAL_ERROR, "The stored result cannot be read")
    };
    let find_result = results.find(id).await.map_err(log_unreadable_result)?;
    let own_result = find_result.filter(|found| found.header.belongs_to(&caller.context));
    let Some(stored_result) = own_result else {
        return Ok(None);
    };
    let media_type = stored_result.header.media_type.clone();
    let size = usize::try_from(stored_result.bytes).unwrap_or(usize::MAX);
    if let Some(memory) = &caller.context.result_memory
        && !memory.reserve(size, Instant::now() + MEMORY_TIMEOUT).await
    {
        let reason = "Too many bytes of responses wait for clients that read slowly \
                      (http.max_waiting_bytes). Retry after 1 second.";
        return Err(RpcError::new(INTERNAL_ERROR, reason));
    }
    let whole_range = 0..stored_result.bytes;
    let chunks = stored_result
        .read(whole_range)
        .await
        .map_err(log_unreadable_result)?;
    let append_chunk = async |mut result_bytes: Vec<u8>, chunk: Bytes| {
        result_bytes.extend_from_slice(&chunk);
        Ok(result_bytes)
    };
    let result_bytes = chunks
        .try_fold(Vec::with_capacity(size), append_chunk)
        .await
        .map_err(log_unreadable_result)?;
    let text = String::from_utf8_lossy(&result_bytes);
    let contents = json!([{"uri": uri, "mimeType": media_type, "text": text}]);
    raw(&json!({ "contents": contents })).map(Some)
}

/// Adds a resource link to a truncated `CallToolResult`, from which the client can read the
/// complete result. Does nothing if the client's revision does not support resource links.
pub(super) fn add_link(result: &mut Value, stored_result: &Value, version: ProtocolVersion) {
    // Clients support resource links if their revision has the header `MCP-Protocol-Version`,
    // because revision 2025-06-18 introduced both the header and resource links.
    if !version.supports(Feature::ProtocolVersionHeader) {
        return;
    }
    let id = stored_result["id"].as_str().unwrap_or_default();
    let resource_link = json!({
        "type": "resource_link",
        "uri": format!("{RESULT_URI_PREFIX}{id}"),
        "name": "The whole result",
        "mimeType": stored_result["mediaType"],
        "size": stored_result["bytes"],
    });
    if let Some(content) = result["content"].as_array_mut() {
        content.push(resource_link);
    }
}
