//! Selects the handler of each method.

use std::sync::Arc;

use pillion_core::compute;
use pillion_mcp_client::{Feature, RpcError};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Caller, local, results, tools};
use crate::catalog::compute_account;
use crate::list_kind::ListKind;
use pillion_gateway::Gateway;
use pillion_gateway::calling_client::link::ClientLink;
use pillion_gateway::calling_client::message::{
    METHOD_NOT_FOUND, Request, invalid_params, raw, with_members,
};

/// The members of a result that forbid clients to cache the result, because servers may change at
/// any time and other clients may have other rights.
const NO_CACHE_MEMBERS: [(&str, &str); 2] = [("ttlMs", "0"), ("cacheScope", "\"private\"")];
const COMPLETE_MEMBER: (&str, &str) = ("resultType", "\"complete\"");

/// Handles a request that is independent of sessions, and returns its result. Requests that concern
/// a session, and notification streams, are handled by the modules that know the session.
pub(super) async fn handle(
    caller: &Caller,
    request: &Request,
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let (meta_trace, http_trace) = (link.meta_trace(), caller.context.trace.as_ref());
    let Some(telemetry) = &caller.mcp.gateway.process().telemetry else {
        link.set_trace(meta_trace.or(http_trace).cloned());
        return handle_without_span(caller, request, link).await;
    };
    let method = request.method.as_str();
    let tool = match method {
        "tools/call" => request
            .text("name")
            .ok()
            .filter(|name| is_known_tool(&caller.mcp.gateway, name)),
        _ => None,
    };
    let version = link.requester.version.as_str();
    let span = telemetry.start_mcp_span(method, tool.as_deref(), version, meta_trace, http_trace);
    link.set_trace(span.context());
    let outcome = handle_without_span(caller, request, link).await;
    span.end_request_span(&outcome);
    outcome
}

fn is_known_tool(gateway: &Gateway, tool: &str) -> bool {
    gateway.registry().contains(tool) || gateway.upstreams().find_registered_name(tool).is_some()
}

async fn handle_without_span(
    caller: &Caller,
    request: &Request,
    link: &Arc<ClientLink>,
) -> Result<Box<RawValue>, RpcError> {
    let version = link.requester.version;
    let is_stateless = version.supports(Feature::RequestMetadata);
    let catalog = &caller.mcp.state.catalog;
    let list = |kind| async move {
        check_cursor(request)?;
        catalog.list(caller, kind).await
    };
    let method = request.method.as_str();
    let result = match method {
        "ping" if !is_stateless => return raw(&json!({})),
        "server/discover" if is_stateless => raw(&create_discover_result())?,
        "tools/list" => {
            check_cursor(request)?;
            tools::list(caller, version).await?
        }
        "tools/call" => tools::call(caller, request, link).await?,
        "prompts/list" => list(ListKind::Prompts).await?,
        "resources/list" => list(ListKind::Resources).await?,
        "resources/templates/list" => list(ListKind::Templates).await?,
        "prompts/get" => catalog.get_prompt(caller, request, link).await?,
        "resources/read" => match results::read(caller, request).await? {
            Some(result) => result,
            None => match local::read(caller, request, link).await? {
                Some(result) => result,
                None => catalog.read_resource(caller, request, link).await?,
            },
        },
        "completion/complete" => catalog.complete(caller, request, link).await?,
        _ => return Err(RpcError::new(METHOD_NOT_FOUND, "Method not found")),
    };
    if !is_stateless {
        return Ok(result);
    }
    // Only the results of lists, `server/discover` and `resources/read` have the members `ttlMs`
    // and `cacheScope`. A result that requests more input does not have these members.
    let is_cacheable =
        method.ends_with("/list") || matches!(method, "server/discover" | "resources/read");
    let result_bytes = result.get().len();
    let add_members = move || {
        let complete_result = with_members(result, &[COMPLETE_MEMBER]);
        if is_cacheable {
            with_members(complete_result, &NO_CACHE_MEMBERS)
        } else {
            complete_result
        }
    };
    Ok(if result_bytes <= compute::MAX_INLINE_BYTES {
        add_members()
    } else {
        compute::run(&compute_account(caller), result_bytes, add_members).await
    })
}

/// Returns the `DiscoverResult` (MCP 2026-07-28).
fn create_discover_result() -> serde_json::Value {
    json!({
        "supportedVersions": [pillion_mcp_client::ProtocolVersion::LATEST],
        "capabilities": super::create_capabilities(),
        "_meta": {"io.modelcontextprotocol/serverInfo": super::create_server_info()},
    })
}

/// Rejects a cursor, because every list is returned as one page. An empty cursor requests the first
/// page, for clients that always send a cursor.
fn check_cursor(request: &Request) -> Result<(), RpcError> {
    match request.params.get("cursor").map(|cursor| cursor.get()) {
        None | Some("null" | "\"\"") => Ok(()),
        Some(_) => Err(invalid_params(
            "Invalid cursor: each list has one page, so send no cursor",
        )),
    }
}
