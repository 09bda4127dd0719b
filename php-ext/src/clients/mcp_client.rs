//! `McpClient`: access to all features of an MCP server.

mod callbacks;
mod calls;
mod client;
mod listing;
mod options;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_mcp_client::{McpClient, McpLogLevel};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client_hooks;
use crate::exception;
use crate::json::{EmptyObject, to_value};
use crate::mcp::{Server, ServerLink, arguments, decode_message};
use crate::zend::{
    Class, MethodCall, Outcome, array_of, bool_of, construct, empty_array, methods, string_of,
};
pub use calls::{
    CallOutcome, ToolCallSpec, call_with_cancellation, dispatch_end, dispatch_failure, is_error,
    new_id, result_of_call, with_call_events,
};
use client::{CLASS, Client, parts};
pub use client::{NAME, client_of, parts_of};

/// Distinguishes `{}` from `[]`, so that a server's result can be encoded as the original JSON.
const EMPTY: EmptyObject = EmptyObject::StdClass;

pub fn register() -> ZendResult<()> {
    let class = methods!(
        client_hooks::methods::<Client>(Class::new(NAME)),
        "__construct(#[SensitiveParameter] string|array $server, \
         #[SensitiveParameter] array $options = [])" => construct_client,
        "request(string $method, array $params = []): mixed" => request,
        "notify(string $method, array $params = []): void" => notify,
        "getServerInfo(): array" => get_server_info,
        "ping(): void" => ping,
        "isAvailable(): bool" => is_available,
        "disconnect(): void" => disconnect,
        "setLoggingLevel(string $level): void" => set_logging_level,
    );
    CLASS.register(callbacks::methods(listing::methods(calls::methods(class))))
}

/// Creates a client, and validates its configuration. The first call opens the connection.
fn construct_client(call: &mut MethodCall<'_>) -> Outcome {
    let mut server = match call.value(0) {
        Some(server) if server.is_array() => to_value(server)?,
        _ => Value::String(call.string(0)?.to_owned()),
    };
    let mut options = call.optional_array(1)?.map_or(Ok(json!({})), to_value)?;
    // Roots are a property of the PHP object, not of the server's configuration.
    let take = |array: &mut Value| array.as_object_mut()?.shift_remove("roots");
    let roots = match (take(&mut server), take(&mut options)) {
        (Some(_), Some(_)) => return Err(Server::duplicate_option("roots")),
        (roots, more) => roots.or(more),
    };
    let parsed_roots = roots.map(|roots| callbacks::roots(&roots)).transpose()?;
    let link = ServerLink::mcp(Server::from_client_arguments(server, options)?);
    if let Some(roots) = parsed_roots {
        link.change_capabilities(|capabilities| capabilities.roots = roots);
    }
    construct(call.this(), Client { link })?;
    Ok(Zval::new())
}

/// Sends a request and returns the result as the server sent it.
fn request_method(call: &MethodCall<'_>, method: &str, params: Box<RawValue>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let name = method.to_owned();
    let result = link.send(hooks, method, move |client| async move {
        client.request(&name, &params).await
    })?;
    decode_message(&result, EMPTY)
}

fn request(call: &mut MethodCall<'_>) -> Outcome {
    let params = arguments(call, 1)?;
    request_method(call, call.string(0)?, params)
}

fn notify(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let method = call.string(0)?.to_owned();
    let params = arguments(call, 1)?;
    let name = method.clone();
    link.send(hooks, &name, move |client| async move {
        client.notify(&method, &params).await
    })?;
    Ok(Zval::new())
}

fn get_server_info(call: &mut MethodCall<'_>) -> Outcome {
    #[derive(Default, Deserialize)]
    struct InitializeResult<'a> {
        #[serde(borrow, default)]
        capabilities: Option<&'a RawValue>,
        #[serde(default)]
        instructions: Value,
    }
    let (link, hooks) = parts(call)?;
    let connect = |client: McpClient| async move { client.connection().await };
    let info = link.send(hooks, "initialize", connect)?;
    let hello = info.server.as_deref().map_or("{}", RawValue::get);
    let hello: InitializeResult<'_> = serde_json::from_str(hello).unwrap_or_default();
    let text = |text: Option<&str>| text.map_or_else(Zval::new, string_of);
    let name = info.server_name();
    let transport = json!(info.transport);
    Ok(array_of([
        ("name", text(name.as_ref().map(|(name, _)| name.as_str()))),
        (
            "version",
            text(name.as_ref().map(|(_, version)| version.as_str())),
        ),
        (
            "protocol_version",
            text(info.protocol_version.map(|version| version.as_str())),
        ),
        ("transport", text(transport.as_str())),
        (
            "capabilities",
            match hello.capabilities {
                Some(capabilities) => decode_message(capabilities, EMPTY)?,
                None => empty_array(),
            },
        ),
        ("instructions", text(hello.instructions.as_str())),
    ]))
}

fn ping(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    link.send(hooks, "ping", |client| async move { client.ping().await })?;
    Ok(Zval::new())
}

fn is_available(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    link.is_available(hooks).map(bool_of)
}

fn disconnect(call: &mut MethodCall<'_>) -> Outcome {
    parts(call)?.0.disconnect()?;
    Ok(Zval::new())
}

fn set_logging_level(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let level = call.string(0)?;
    let level: McpLogLevel = serde_json::from_value(json!(level)).map_err(|_| {
        exception::invalid_input(
            "$level must be one of debug, info, notice, warning, error, critical, alert, emergency",
        )
    })?;
    link.send(hooks, "logging/setLevel", move |client| async move {
        client.set_log_level(level).await
    })?;
    Ok(Zval::new())
}
