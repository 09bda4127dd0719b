//! `MCPSSEClient`: an MCP server, called from PHP (requirements E1 to E11).

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;
use pillion_core::mcp::McpClient;
use pillion_core::tool::ErrorCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client_hooks;
use super::mcp_client::{is_error, new_id, telling};
use crate::json::{EmptyObject, to_value};
use crate::mcp::hooks::Hooks;
use crate::mcp::{Link, Server, arguments, readable, tool_list};
use crate::runtime;
use crate::settings::LogLevel;
use crate::wait::wait;
use crate::zend::{
    Call, Class, Failure, Method, Object, Outcome, Parameter, State, StateClass, Type, bool_of,
    construct, empty_array, new_with_state, state_of,
};

pub const NAME: &str = "Pillion\\MCPSSEClient";
static CLASS: StateClass<Client> = StateClass::new();

/// The class entry.
pub fn class() -> &'static ClassEntry {
    CLASS.get()
}

/// The client of an object: what it is configured to be. The connection itself is the
/// process's, so that it outlives the object and the request.
struct Client {
    link: Link,
}

impl State for Client {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub(super) fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .method(Method::new("__construct", construct_client).parameters(&[
            Parameter::required("serverUrl", Type::STRING).sensitive(),
            Parameter::optional("timeout", Type::INT.or(Type::FLOAT).nullable(), "null"),
            Parameter::optional("apiKey", Type::STRING.nullable(), "null").sensitive(),
            Parameter::optional("options", Type::ARRAY, "[]").sensitive(),
        ]))
        .method(
            Method::new("request", request)
                .parameters(&[
                    Parameter::required("method", Type::STRING),
                    Parameter::optional("params", Type::ARRAY, "[]"),
                ])
                .returns(Type::MIXED),
        )
        .method(Method::new("listTools", list_tools).returns(Type::ARRAY))
        .method(
            Method::new("callTool", call_tool)
                .parameters(&[
                    Parameter::required("name", Type::STRING),
                    Parameter::optional("arguments", Type::ARRAY, "[]"),
                ])
                .returns(Type::MIXED),
        )
        .method(Method::new("isAvailable", is_available).returns(Type::BOOL))
        .method(Method::new("disconnect", disconnect).returns(Type::VOID));
    CLASS.register(client_hooks::methods(class))
}

/// Checks the configuration; there is no I/O before the first call (E9).
fn construct_client(call: &mut Call<'_>) -> Outcome {
    let options = match call.value(3) {
        Some(options) => {
            call.array(3)?;
            to_value(options)?
        }
        None => json!({}),
    };
    let server = Server::new(
        call.string(0)?,
        call.optional_number(1)?,
        call.optional_string(2)?,
        options,
    )?;
    construct(
        call.this(),
        Client {
            link: Link::sse(server),
        },
    )?;
    Ok(Zval::new())
}

/// A client for a server entry as S4 has it: `server_url` and, where they are set,
/// `server_label`, `timeout`, `api_key` and `options`. `None` without a URL.
pub fn of_server_config(entry: &Value) -> Result<Option<Zval>, Failure> {
    let Some(server) = Server::of_entry(entry)? else {
        return Ok(None);
    };
    new_with_state(Client {
        link: Link::sse(server),
    })
    .map(Some)
}

/// A client's link and hooks; `None` when the value is no client of this class.
pub fn client_of(value: &Zval) -> Result<Option<(&Link, Hooks<'_>)>, Failure> {
    match Object::of(value) {
        Some(object) if object.instance_of(CLASS.get()) => parts_of(object).map(Some),
        _ => Ok(None),
    }
}

fn parts_of(client: Object<'_>) -> Result<(&Link, Hooks<'_>), Failure> {
    let state = state_of::<Client>(client)?;
    Ok((&state.link, hooks_of(client)?))
}

/// The hooks of a client.
pub fn hooks_of(client: Object<'_>) -> Result<Hooks<'_>, Failure> {
    Hooks::of::<Client>(client)
}

fn parts<'a>(call: &Call<'a>) -> Result<(&'a Link, Hooks<'a>), Failure> {
    parts_of(call.this())
}

/// The JSON-RPC `result` of any method, unchanged (E10).
fn request(call: &mut Call<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let method = call.string(0)?.to_owned();
    let params = arguments(call, 1)?;
    let name = method.clone();
    let request = move |client: McpClient| async move { client.request(&method, &params).await };
    let result = link.send(hooks, &name, request)?;
    readable(&result, EmptyObject::Array)
}

/// The result of a tool, unchanged: also one with `isError` (E10).
fn call_tool(call: &mut Call<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let name = call.string(0)?.to_owned();
    let arguments = arguments(call, 1)?;
    telling(link, hooks, (&new_id(), &name), || {
        let tool = name.clone();
        let request =
            move |client: McpClient| async move { client.call_tool(&tool, &arguments).await };
        let result = readable(
            &link.send(hooks, "tools/call", request)?,
            EmptyObject::Array,
        )?;
        let code = is_error(&result).then(|| ErrorCode::InternalError.as_str());
        Ok((result, code))
    })
}

/// The tools of the server, or none when it cannot be asked, which is logged (E5).
fn list_tools(call: &mut Call<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    match tool_list::list(link, hooks, EmptyObject::Array) {
        Err(Failure::Thrown(thrown)) => {
            hooks.log(
                LogLevel::Error,
                "Failed to list MCP tools",
                || json!({"url": link.server().shown_url(), "error": thrown.message}),
            )?;
            Ok(empty_array())
        }
        other => other,
    }
}

/// Whether the server answers now (E5).
fn is_available(call: &mut Call<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    link.is_available(hooks).map(bool_of)
}

fn disconnect(call: &mut Call<'_>) -> Outcome {
    parts(call)?.0.disconnect()?;
    Ok(Zval::new())
}

/// For the registry: the tools of a server as they came.
pub fn tools_of(server: &Server) -> Result<Vec<Box<RawValue>>, Failure> {
    let client = runtime::mcp_client(server)?;
    wait(async move { client.list_tools().await })?
        .map_err(|error| crate::exception::of_mcp(&error))
}
