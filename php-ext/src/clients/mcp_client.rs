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
use crate::mcp::{Server, ServerLink, decode_message, read_arguments};
use crate::zend::{
    Class, MethodCall, Outcome, construct, empty_array, methods, new_array, new_bool, new_string,
};
pub use calls::{
    CallOutcome, ToolCallSpec, call_with_cancellation, dispatch_end, dispatch_failure, is_error,
    new_id, result_of_call, with_call_events,
};
use client::{CLASS, Client, link_and_hooks};
pub use client::{NAME, find_client, read_link_and_hooks};

/// Decodes `{}` and `[]` to different values, so that PHP code can encode a server's result as the
/// original JSON.
const EMPTY_OBJECT: EmptyObject = EmptyObject::StdClass;

pub fn register() -> ZendResult<()> {
    let class = methods!(
        client_hooks::add_client_methods::<Client>(Class::new(NAME)),
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
    CLASS.register(callbacks::add_methods(listing::add_methods(
        calls::add_methods(class),
    )))
}

/// Creates a client, and validates its configuration. The first call opens the connection.
fn construct_client(call: &mut MethodCall<'_>) -> Outcome {
    let mut server = match call.value(0) {
        Some(server) if server.is_array() => to_value(server)?,
        _ => Value::String(call.string(0)?.to_owned()),
    };
    let mut options = call.optional_array(1)?.map_or(Ok(json!({})), to_value)?;
    // Roots are removed from the server's configuration, because they are stored as a capability of
    // the client object.
    let take_roots = |array: &mut Value| array.as_object_mut()?.shift_remove("roots");
    let roots = match (take_roots(&mut server), take_roots(&mut options)) {
        (Some(_), Some(_)) => return Err(Server::duplicate_option("roots")),
        (server_roots, option_roots) => server_roots.or(option_roots),
    };
    let parsed_roots = roots
        .map(|roots| callbacks::parse_roots(&roots))
        .transpose()?;
    let link = ServerLink::for_mcp_client(Server::from_client_arguments(server, options)?);
    if let Some(roots) = parsed_roots {
        link.change_capabilities(|capabilities| capabilities.roots = roots);
    }
    construct(call.this(), Client { link })?;
    Ok(Zval::new())
}

/// Sends a request and returns the result as the server sent it.
fn request_method(call: &MethodCall<'_>, method: &str, params: Box<RawValue>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let name = method.to_owned();
    let result = link.send(hooks, method, move |client| async move {
        client.request(&name, &params).await
    })?;
    decode_message(&result, EMPTY_OBJECT)
}

fn request(call: &mut MethodCall<'_>) -> Outcome {
    let params = read_arguments(call, 1)?;
    request_method(call, call.string(0)?, params)
}

fn notify(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let method = call.string(0)?.to_owned();
    let params = read_arguments(call, 1)?;
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
    let (link, hooks) = link_and_hooks(call)?;
    let connect = |client: McpClient| async move { client.connection().await };
    let connection = link.send(hooks, "initialize", connect)?;
    let result_json = connection.server.as_deref().map_or("{}", RawValue::get);
    let initialize_result: InitializeResult<'_> =
        serde_json::from_str(result_json).unwrap_or_default();
    let text = |text: Option<&str>| text.map_or_else(Zval::new, new_string);
    let (name, version) = connection.server_name().unzip();
    let protocol_version = connection.protocol_version.map(|version| version.as_str());
    let transport = json!(connection.transport);
    Ok(new_array([
        ("name", text(name.as_deref())),
        ("version", text(version.as_deref())),
        ("protocol_version", text(protocol_version)),
        ("transport", text(transport.as_str())),
        (
            "capabilities",
            match initialize_result.capabilities {
                Some(capabilities) => decode_message(capabilities, EMPTY_OBJECT)?,
                None => empty_array(),
            },
        ),
        (
            "instructions",
            text(initialize_result.instructions.as_str()),
        ),
    ]))
}

fn ping(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    link.send(hooks, "ping", |client| async move { client.ping().await })?;
    Ok(Zval::new())
}

fn is_available(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    link.is_available(hooks).map(new_bool)
}

fn disconnect(call: &mut MethodCall<'_>) -> Outcome {
    link_and_hooks(call)?.0.disconnect()?;
    Ok(Zval::new())
}

fn set_logging_level(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let level_name = call.string(0)?;
    let level: McpLogLevel = serde_json::from_value(json!(level_name)).map_err(|_| {
        exception::invalid_input(
            "$level must be one of debug, info, notice, warning, error, critical, alert, emergency",
        )
    })?;
    link.send(hooks, "logging/setLevel", move |client| async move {
        client.set_log_level(level).await
    })?;
    Ok(Zval::new())
}
