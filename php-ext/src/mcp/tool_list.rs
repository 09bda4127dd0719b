//! Reads the tools of a server, through a PSR-16 cache if one is set.

use ext_php_rs::types::Zval;
use pillion_mcp_client::{McpClient, McpError};
use serde_json::json;
use serde_json::value::RawValue;

use super::hooks::{CACHE, Hooks};
use super::link::{ServerLink, decode_message};
use super::store_key::store_key;
use crate::exception::{into_tool_failure, transport_failure};
use crate::json::EmptyObject;
use crate::log::LogLevel;
use crate::values::event;
use crate::zend::{Failure, Object, Outcome, Result, new_string};

/// The hook for the lifetime (TTL) of a cached list of tools, in seconds.
pub const CACHE_TTL: &str = "cache_ttl";
/// The hook for the tenant. The cache key contains the tenant, so that tenants do not share cached
/// lists.
pub const CACHE_TENANT: &str = "cache_tenant";

/// Returns the list of tools as a PHP value, from the cache or from the server.
///
/// # Errors
/// The same errors as [`ServerLink::send`].
pub fn list(link: &ServerLink, hooks: Hooks<'_>, empty_object: EmptyObject) -> Outcome {
    let json = read_json(link, hooks)?;
    let raw_list: &RawValue = serde_json::from_str(&json).map_err(|error| invalid_list(&error))?;
    decode_message(raw_list, empty_object)
}

/// Returns the list of tools for a registry: each tool as the server wrote it.
///
/// # Errors
/// The same errors as [`list`].
pub fn list_raw(link: &ServerLink, hooks: Hooks<'_>) -> Result<Vec<Box<RawValue>>> {
    serde_json::from_str(&read_json(link, hooks)?).map_err(|error| invalid_list(&error))
}

fn invalid_list(error: &serde_json::Error) -> Failure {
    transport_failure(format!(
        "The server's list of tools cannot be read: {error}"
    ))
}

/// Returns the list of tools as JSON, from the cache or from the server.
fn read_json(link: &ServerLink, hooks: Hooks<'_>) -> Result<String> {
    let cache_value = hooks.get(CACHE);
    let Some(cache) = cache_value.as_ref().and_then(Object::from_value) else {
        return fetch(link, hooks);
    };
    if let Some(key) = cache_key(link, hooks)?
        && let Some((json, count)) = read_cache(hooks, cache, &key)?
    {
        dispatch_tools_listed(link, hooks, count, true)?;
        return Ok(json);
    }
    let json = fetch(link, hooks)?;
    // The cache key is computed again after the request, because the user may have granted an
    // authorization during the request, and the list then belongs to the new tokens.
    let Some(key) = cache_key(link, hooks)? else {
        return Ok(json);
    };
    let ttl = hooks.get(CACHE_TTL).unwrap_or_default();
    let outcome = cache.call("set", [new_string(&key), new_string(&json), ttl]);
    log_cache_failure(hooks, outcome)?;
    Ok(json)
}

/// Removes the list of tools from the cache, after the server has reported a change.
///
/// # Errors
/// An exception of the logger or a failure that ends the PHP request.
pub fn forget(link: &ServerLink, hooks: Hooks<'_>) -> Result<()> {
    let cache_value = hooks.get(CACHE);
    if let Some(cache) = cache_value.as_ref().and_then(Object::from_value)
        && let Some(key) = cache_key(link, hooks)?
    {
        let outcome = cache.call("delete", [new_string(key)]);
        log_cache_failure(hooks, outcome)?;
    }
    Ok(())
}

fn fetch(link: &ServerLink, hooks: Hooks<'_>) -> Result<String> {
    let request = |client: McpClient| async move {
        let tools = client.list_tools().await?;
        let tool_texts: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
        Ok::<_, McpError>((format!("[{}]", tool_texts.join(",")), tool_texts.len()))
    };
    let (json, count) = link.send(hooks, "tools/list", request)?;
    dispatch_tools_listed(link, hooks, count, false)?;
    Ok(json)
}

/// Returns the cached list and its number of tools. An invalid cached list counts as missing.
fn read_cache(hooks: Hooks<'_>, cache: Object<'_>, key: &str) -> Result<Option<(String, usize)>> {
    let cached_value = log_cache_failure(hooks, cache.call("get", [new_string(key)]))?;
    let json = cached_value.as_ref().and_then(Zval::str);
    Ok(json.and_then(|json| {
        let tools: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        Some((json.to_owned(), tools.len()))
    }))
}

/// Logs an exception of the cache instead of returning it, because a failing cache must not fail
/// the call.
fn log_cache_failure(hooks: Hooks<'_>, outcome: Outcome) -> Result<Option<Zval>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(failure) => {
            let failure = into_tool_failure(failure)?;
            hooks.log(
                LogLevel::Warning,
                "The cache of MCP tool lists failed",
                || json!({ "error": failure.message }),
            )?;
            Ok(None)
        }
    }
}

fn dispatch_tools_listed(
    link: &ServerLink,
    hooks: Hooks<'_>,
    count: usize,
    is_from_cache: bool,
) -> Result<()> {
    let server = link.server().display_name();
    hooks.dispatch(|| event::new_tools_listed(&server, count, is_from_cache))
}

/// Returns the cache key of a client's list of tools. The key depends on the whole configuration
/// including credentials, and on the tenant, so that one user never receives another user's list.
/// Returns `None` while the user is unknown. PSR-16 permits letters, digits and `_`, at most 64
/// characters.
fn cache_key(link: &ServerLink, hooks: Hooks<'_>) -> Result<Option<String>> {
    let tenant_value = hooks.get(CACHE_TENANT);
    let tenant = tenant_value
        .as_ref()
        .and_then(Zval::str)
        .unwrap_or_default();
    let identity = link.identity(hooks)?;
    Ok(identity.map(|identity| store_key("tools", &format!("{identity}\0{tenant}"))))
}
