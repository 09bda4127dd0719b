//! Selects the handler of each method.

use std::sync::Arc;

use pillion_core::compute;
use pillion_mcp_client::{Feature, RpcError};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Caller, local, results, tools};
use crate::McpServer;
use crate::catalog::compute_account;
use crate::list_kind::Kind;
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{
    METHOD_NOT_FOUND, Request, invalid_params, raw, with_members,
};

/// The cache members of a result: the result must not be cached, because servers may change at any
/// time and the client's rights may differ from those of others.
const NO_CACHE_MEMBERS: [(&str, &str); 2] = [("ttlMs", "0"), ("cacheScope", "\"private\"")];
const COMPLETE_MEMBER: (&str, &str) = ("resultType", "\"complete\"");

/// Returns the result of a request that is independent of sessions. Requests that concern a
/// session, and notification streams, are handled by the modules that know the session.
pub(super) async fn handle(
    mcp: &McpServer,
    caller: &Caller,
    request: &Request,
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let (meta_trace, http_trace) = (link.meta_trace(), caller.context.trace.as_ref());
    let Some(telemetry) = &mcp.gateway.process().telemetry else {
        link.set_trace(meta_trace.or(http_trace).cloned());
        return handle_without_span(mcp, caller, request, link).await;
    };
    let method = request.method.as_str();
    let tool = match method {
        "tools/call" => request.text("name").ok().filter(|name| is_known(mcp, name)),
        _ => None,
    };
    let version = link.requester.version.as_str();
    let span = telemetry.mcp_request(method, tool.as_deref(), version, meta_trace, http_trace);
    link.set_trace(span.context());
    let outcome = handle_without_span(mcp, caller, request, link).await;
    span.end_request_span(&outcome);
    outcome
}

fn is_known(mcp: &McpServer, tool: &str) -> bool {
    mcp.gateway.registry().contains(tool) || mcp.gateway.upstreams().only_named(tool).is_some()
}

async fn handle_without_span(
    mcp: &McpServer,
    caller: &Caller,
    request: &Request,
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let version = link.requester.version;
    let is_stateless = version.supports(Feature::RequestMetadata);
    let catalog = &mcp.state.catalog;
    let method = request.method.as_str();
    let result = match method {
        "ping" if !is_stateless => return raw(&json!({})),
        "server/discover" if is_stateless => raw(&discovered())?,
        "tools/list" => {
            only_page(request)?;
            tools::list(mcp, caller, version).await?
        }
        "tools/call" => tools::call(mcp, caller, request, link).await?,
        "prompts/list" => {
            only_page(request)?;
            catalog.list(mcp, caller, Kind::Prompts).await?
        }
        "resources/list" => {
            only_page(request)?;
            catalog.list(mcp, caller, Kind::Resources).await?
        }
        "resources/templates/list" => {
            only_page(request)?;
            catalog.list(mcp, caller, Kind::Templates).await?
        }
        "prompts/get" => catalog.get_prompt(mcp, caller, request, link).await?,
        "resources/read" => match results::read(mcp, caller, request).await? {
            Some(result) => result,
            None => match local::read(mcp, caller, request, link).await? {
                Some(result) => result,
                None => catalog.read(mcp, caller, request, link).await?,
            },
        },
        "completion/complete" => catalog.complete(mcp, caller, request, link).await?,
        _ => return Err(RpcError::new(METHOD_NOT_FOUND, "Method not found")),
    };
    if !is_stateless {
        return Ok(result);
    }
    // Only final results have cache members, not results that ask for more input.
    let is_cacheable =
        method.ends_with("/list") || matches!(method, "server/discover" | "resources/read");
    let bytes = result.get().len();
    let add_members = move || {
        let complete = with_members(result, &[COMPLETE_MEMBER]);
        if is_cacheable {
            with_members(complete, &NO_CACHE_MEMBERS)
        } else {
            complete
        }
    };
    Ok(if bytes <= compute::MAX_INLINE_BYTES {
        add_members()
    } else {
        compute::run(&compute_account(caller), bytes, add_members).await
    })
}

/// Returns the `DiscoverResult` (MCP 2026-07-28).
fn discovered() -> serde_json::Value {
    json!({
        "supportedVersions": [pillion_mcp_client::ProtocolVersion::LATEST],
        "capabilities": super::capabilities(),
        "_meta": {"io.modelcontextprotocol/serverInfo": super::server_info()},
    })
}

/// Rejects a cursor: every list is returned as one page. Clients that have a text for the cursor,
/// and not an optional one, request the first page with an empty text.
fn only_page(request: &Request) -> Result<(), RpcError> {
    match request.params.get("cursor").map(|cursor| cursor.get()) {
        None | Some("null" | "\"\"") => Ok(()),
        Some(_) => Err(invalid_params("Invalid cursor")),
    }
}
