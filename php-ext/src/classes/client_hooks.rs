//! The setters shared by both client classes and executors: PSR-3 logger and PSR-14 event
//! dispatcher; clients also have a PSR-16 cache.

use ext_php_rs::types::Zval;

use super::{mcp_client, mcp_sse_client, tool_executor};
use crate::exception;
use crate::mcp::hooks::{self, Hooks};
use crate::mcp::{ServerLink, tool_list};
use crate::zend::{
    Class, Failure, Method, MethodCall, Outcome, Parameter, Type, int_of, string_of,
};

/// Adds the methods of clients.
pub(super) fn methods(class: Class) -> Class {
    observing(class).method(
        Method::new("setCache", set_cache)
            .parameters(&[
                Parameter::required("cache", Type::OBJECT.nullable()),
                Parameter::optional("ttl", Type::INT, "300"),
                Parameter::optional("tenant", Type::STRING, "''"),
            ])
            .returns(Type::STATIC),
    )
}

/// Adds the methods for logger and dispatcher.
pub(super) fn observing(class: Class) -> Class {
    let object = Type::OBJECT.nullable();
    class
        .method(
            Method::new("setLogger", set_logger)
                .parameters(&[Parameter::required("logger", object)])
                .returns(Type::STATIC),
        )
        .method(
            Method::new("setEventDispatcher", set_event_dispatcher)
                .parameters(&[Parameter::required("dispatcher", object)])
                .returns(Type::STATIC),
        )
}

/// Returns the hooks of `$this`, a client or an executor.
fn hooks_of<'a>(call: &MethodCall<'a>) -> Result<Hooks<'a>, Failure> {
    let this = call.this();
    if this.instance_of(mcp_client::class()) {
        mcp_client::hooks_of(this)
    } else if this.instance_of(mcp_sse_client::class()) {
        mcp_sse_client::hooks_of(this)
    } else {
        tool_executor::hooks_of(this)
    }
}

/// Returns a client's link and hooks; `None` if the value is not a client.
///
/// # Errors
/// An `Error` if the client is not constructed.
pub fn client_of(value: &Zval) -> Result<Option<(&ServerLink, Hooks<'_>)>, Failure> {
    match mcp_sse_client::client_of(value)? {
        None => mcp_client::client_of(value),
        known => Ok(known),
    }
}

fn set_logger(call: &mut MethodCall<'_>) -> Outcome {
    hooks_of(call)?.set_object(call, 0, hooks::LOGGER, "logger", &["log"])?;
    Ok(call.this().to_value())
}

fn set_event_dispatcher(call: &mut MethodCall<'_>) -> Outcome {
    hooks_of(call)?.set_object(call, 0, hooks::EVENTS, "dispatcher", &["dispatch"])?;
    Ok(call.this().to_value())
}

fn set_cache(call: &mut MethodCall<'_>) -> Outcome {
    let hooks = hooks_of(call)?;
    let ttl = call.optional_int(1)?.unwrap_or(300);
    if ttl < 0 {
        return Err(exception::invalid_input(
            "$ttl must be a number of seconds, not negative",
        ));
    }
    let tenant = call.value(2).map_or(Ok(""), |_| call.string(2))?;
    hooks.set_object(call, 0, hooks::CACHE, "cache", &["get", "set", "delete"])?;
    hooks.set(tool_list::TTL, Some(&int_of(ttl)));
    hooks.set(tool_list::TENANT, Some(&string_of(tenant)));
    Ok(call.this().to_value())
}
