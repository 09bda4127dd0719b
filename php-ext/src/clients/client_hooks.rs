//! The setters for a PSR-3 logger and a PSR-14 event dispatcher, which `McpClient`, `MCPSSEClient`
//! and `ToolExecutor` share, and the clients' setter for a PSR-16 cache.

use crate::exception;
use crate::mcp::hooks;
use crate::mcp::hooks::Hooks;
use crate::mcp::tool_list;
use crate::zend::{Class, MethodCall, Outcome, State, methods, new_int, new_string};

/// Adds the setters of an MCP client to a class with the state `T`.
pub fn add_client_methods<T: State>(class: Class) -> Class {
    methods!(
        add_observer_methods::<T>(class),
        "setCache(?object $cache, int $ttl = 300, string $tenant = ''): static" => set_cache::<T>,
    )
}

/// Adds the setters for the logger and the event dispatcher to a class with the state `T`.
pub fn add_observer_methods<T: State>(class: Class) -> Class {
    methods!(
        class,
        "setLogger(?object $logger): static" => set_logger::<T>,
        "setEventDispatcher(?object $dispatcher): static" => set_event_dispatcher::<T>,
    )
}

fn set_logger<T: State>(call: &mut MethodCall<'_>) -> Outcome {
    Hooks::for_object::<T>(call.this())?.set_object(call, 0, hooks::LOGGER, "logger", &["log"])?;
    Ok(call.this().to_value())
}

fn set_event_dispatcher<T: State>(call: &mut MethodCall<'_>) -> Outcome {
    Hooks::for_object::<T>(call.this())?.set_object(
        call,
        0,
        hooks::EVENT_DISPATCHER,
        "dispatcher",
        &["dispatch"],
    )?;
    Ok(call.this().to_value())
}

fn set_cache<T: State>(call: &mut MethodCall<'_>) -> Outcome {
    let hooks = Hooks::for_object::<T>(call.this())?;
    let ttl = call.optional_int(1)?.unwrap_or(300);
    if ttl < 0 {
        return Err(exception::invalid_input(
            "$ttl must be a non-negative number of seconds",
        ));
    }
    let tenant = call.string_or(2, "")?;
    hooks.set_object(call, 0, hooks::CACHE, "cache", &["get", "set", "delete"])?;
    hooks.set(tool_list::CACHE_TTL, Some(&new_int(ttl)));
    hooks.set(tool_list::CACHE_TENANT, Some(&new_string(tenant)));
    Ok(call.this().to_value())
}
