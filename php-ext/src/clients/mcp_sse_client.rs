//! `MCPSSEClient`: a client for an MCP server, with the interface of HAWKI's class `MCPSSEClient`.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::McpClient;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client_hooks;
use super::mcp_client;
use super::mcp_client::{is_error, new_id, with_call_events};
use crate::json::{EmptyObject, to_value};
use crate::log::LogLevel;
use crate::mcp::hooks::Hooks;
use crate::mcp::{Server, ServerLink, decode_message, read_arguments, sessions, tool_list};
use crate::wait::wait;
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, Result, State, StateClass, construct, empty_array,
    methods, new_bool, new_with_state, read_state,
};

pub const NAME: &str = "Pillion\\MCPSSEClient";
static CLASS: StateClass<Client> = StateClass::new();

/// The state of an `MCPSSEClient` object. The process owns the connection behind the link, so that
/// the connection outlives the PHP object and the PHP request.
struct Client {
    link: ServerLink,
}

impl State for Client {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

pub fn register() -> ZendResult<()> {
    let class = methods!(
        client_hooks::add_client_methods::<Client>(Class::new(NAME)),
        "__construct(#[SensitiveParameter] string $serverUrl, int|float|null $timeout = null, \
         #[SensitiveParameter] ?string $apiKey = null, \
         #[SensitiveParameter] array $options = [])" => construct_client,
        "request(string $method, array $params = []): mixed" => request,
        "listTools(): array" => list_tools,
        "callTool(string $name, array $arguments = []): mixed" => call_tool,
        "isAvailable(): bool" => is_available,
        "disconnect(): void" => disconnect,
    );
    CLASS.register(class)
}

/// Creates a client, and validates its configuration. The first call opens the connection.
fn construct_client(call: &mut MethodCall<'_>) -> Outcome {
    let options = call.optional_array(3)?.map_or(Ok(json!({})), to_value)?;
    let url = call.string(0)?;
    let timeout = call.optional_number(1)?;
    let server = Server::new(url, timeout, call.optional_string(2)?, options)?;
    let link = ServerLink::for_sse_client(server);
    construct(call.this(), Client { link })?;
    Ok(Zval::new())
}

/// Creates a client from a server entry in HAWKI's format: `server_url` and optionally
/// `server_label`, `timeout`, `api_key` and `options`. Returns `None` for an entry without a URL.
pub fn new_client(entry: &Value) -> Result<Option<Zval>> {
    let Some(server) = Server::from_entry(entry)? else {
        return Ok(None);
    };
    let link = ServerLink::for_sse_client(server);
    new_with_state(Client { link }).map(Some)
}

/// Returns the link and the hooks of an `McpClient` or `MCPSSEClient`; `None` if the value is
/// neither.
///
/// # Errors
/// An `Error` if the client's constructor has not run.
pub fn find_any_client(value: &Zval) -> Result<Option<(&ServerLink, Hooks<'_>)>> {
    match Object::from_instance(value, CLASS.get()) {
        Some(object) => read_link_and_hooks(object).map(Some),
        None => mcp_client::find_client(value),
    }
}

fn read_link_and_hooks(client: Object<'_>) -> Result<(&ServerLink, Hooks<'_>)> {
    let state = read_state::<Client>(client)?;
    Ok((&state.link, Hooks::for_object::<Client>(client)?))
}

fn link_and_hooks<'a>(call: &MethodCall<'a>) -> Result<(&'a ServerLink, Hooks<'a>)> {
    read_link_and_hooks(call.this())
}

/// Sends a request with any method, and returns the JSON-RPC `result` unchanged.
fn request(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let method = call.string(0)?.to_owned();
    let params = read_arguments(call, 1)?;
    let name = method.clone();
    let request = move |client: McpClient| async move { client.request(&method, &params).await };
    let result = link.send(hooks, &name, request)?;
    decode_message(&result, EmptyObject::Array)
}

/// Calls a tool and returns the result unchanged, even if the result has `isError`.
fn call_tool(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let name = call.string(0)?.to_owned();
    let arguments = read_arguments(call, 1)?;
    with_call_events(link, hooks, (&new_id(), &name), || {
        let tool = name.clone();
        let request =
            move |client: McpClient| async move { client.call_tool(&tool, &arguments).await };
        let response = link.send(hooks, "tools/call", request)?;
        let result = decode_message(&response, EmptyObject::Array)?;
        let code = is_error(&result).then(|| ErrorCode::InternalError.as_str());
        Ok((result, code))
    })
}

/// Returns the server's tools. If the request fails, logs an error and returns an empty list.
fn list_tools(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    match tool_list::list(link, hooks, EmptyObject::Array) {
        Err(Failure::Exception(exception)) => {
            hooks.log(
                LogLevel::Error,
                "Failed to list MCP tools",
                || json!({"url": link.server().display_url(), "error": exception.message}),
            )?;
            Ok(empty_array())
        }
        outcome => outcome,
    }
}

/// Returns whether the server responds to a request now.
fn is_available(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    link.is_available(hooks).map(new_bool)
}

fn disconnect(call: &mut MethodCall<'_>) -> Outcome {
    link_and_hooks(call)?.0.disconnect()?;
    Ok(Zval::new())
}

/// Requests the tools of a server, and returns them unmodified, for the registry.
pub fn fetch_tools(server: &Server) -> Result<Vec<Box<RawValue>>> {
    let client = sessions::client_for(server)?;
    wait(async move { client.list_tools().await })?
        .map_err(|error| crate::exception::for_mcp_error(&error))
}
