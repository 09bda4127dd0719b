use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{INVALID_PARAMS, error_with_data};
use pillion_mcp_client::{Feature, RpcError};
use serde_json::json;

/// The error code for a missing resource in revisions before 2026-07-28.
const RESOURCE_NOT_FOUND_CODE: i64 = -32002;

/// Returns the error for an unknown resource, with the code of revision 2026-07-28.
pub(super) fn resource_not_found(uri: &str) -> RpcError {
    error(INVALID_PARAMS, uri)
}

/// Returns the error for an unknown resource, with the code that the client's revision expects.
pub(super) fn resource_not_found_for(link: &ClientLink, uri: &str) -> RpcError {
    let is_stateless = link.requester.version.supports(Feature::RequestMetadata);
    let code = if is_stateless {
        INVALID_PARAMS
    } else {
        RESOURCE_NOT_FOUND_CODE
    };
    error(code, uri)
}

fn error(code: i64, uri: &str) -> RpcError {
    error_with_data(code, "Resource not found", &json!({ "uri": uri }))
}
