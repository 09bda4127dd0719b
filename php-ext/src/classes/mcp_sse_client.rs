//! `MCPSSEClient`: an MCP server, called from PHP (requirements E1 to E11).

mod config;

use std::sync::Arc;
use std::time::Instant;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::mcp::{McpClient, McpError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::exception;
use crate::json::{EmptyObject, decode, encode_arguments, to_value};
use crate::log::log;
use crate::runtime;
use crate::settings::LogLevel;
use crate::wait::wait;
use crate::zend::{
    Call, Class, Failure, Method, Object, Outcome, Parameter, State, StateClass, Type, bool_of,
    construct, empty_array, list_of, new_with_state, state_of,
};
pub use config::Server;

pub const NAME: &str = "Pillion\\MCPSSEClient";
static CLASS: StateClass<Client> = StateClass::new();

/// The client of an object: what it is configured to be. The connection itself is the
/// process's, so that it outlives the object and the request.
struct Client {
    server: Arc<Server>,
}

impl State for Client {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub(super) fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .method(Method::new("__construct", construct_client).parameters(&[
            Parameter::required("serverUrl", Type::STRING),
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
        .method(Method::new("isAvailable", is_available).returns(Type::BOOL));
    CLASS.register(class)
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
            server: Arc::new(server),
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
        server: Arc::new(server),
    })
    .map(Some)
}

/// The server behind a client; `None` when the value is no client.
pub fn server_of(value: &Zval) -> Result<Option<Arc<Server>>, Failure> {
    match Object::of(value) {
        Some(object) if object.instance_of(CLASS.get()) => {
            Ok(Some(Arc::clone(&state_of::<Client>(object)?.server)))
        }
        _ => Ok(None),
    }
}

/// The JSON-RPC `result` of any method, unchanged (E10).
fn request(call: &mut Call<'_>) -> Outcome {
    let method = call.string(0)?.to_owned();
    let params = arguments(call, 1)?;
    let name = method.clone();
    let request = move |client: McpClient| async move { client.request(&method, &params).await };
    send(call, &name, request).and_then(|result| readable(&result))
}

/// The result of a tool, unchanged: also one with `isError` (E10).
fn call_tool(call: &mut Call<'_>) -> Outcome {
    let name = call.string(0)?.to_owned();
    let arguments = arguments(call, 1)?;
    let request = move |client: McpClient| async move { client.call_tool(&name, &arguments).await };
    send(call, "tools/call", request).and_then(|result| readable(&result))
}

/// The tools of the server, or none when it cannot be asked, which is logged (E5).
fn list_tools(call: &mut Call<'_>) -> Outcome {
    match send(call, "tools/list", |client| async move {
        client.list_tools().await
    }) {
        Ok(tools) => tools
            .iter()
            .map(|tool| readable(tool))
            .collect::<Result<Vec<_>, _>>()
            .map(list_of),
        Err(Failure::Thrown(thrown)) => {
            let server = &state_of::<Client>(call.this())?.server;
            log(
                LogLevel::Error,
                "Failed to list MCP tools",
                || json!({"url": server.shown_url(), "error": thrown.message}),
            );
            Ok(empty_array())
        }
        Err(other) => Err(other),
    }
}

/// Whether the server answers now (E5).
fn is_available(call: &mut Call<'_>) -> Outcome {
    let server = &state_of::<Client>(call.this())?.server;
    let client = runtime::mcp_client(server)?;
    wait(async move { client.is_available().await }).map(bool_of)
}

/// What the server sent, as a PHP value.
fn readable(json: &RawValue) -> Outcome {
    decode(json.get(), EmptyObject::Array)?.map_err(|error| {
        exception::transport(format!(
            "MCP SSE request failed: the answer cannot be read: {error}"
        ))
    })
}

/// An array as a JSON object; nothing at all is `{}` (E11).
fn arguments(call: &Call<'_>, index: usize) -> Result<Box<RawValue>, Failure> {
    let Some(arguments) = call.value(index) else {
        return encode_arguments(&empty_array());
    };
    call.array(index)?;
    encode_arguments(arguments)
}

/// Sends one request and waits for the answer, with the log lines of M2 around it.
fn send<T, F>(
    call: &Call<'_>,
    method: &str,
    request: impl FnOnce(McpClient) -> F,
) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, McpError>> + Send + 'static,
{
    let server = &state_of::<Client>(call.this())?.server;
    let work = request(runtime::mcp_client(server)?);
    log(
        LogLevel::Debug,
        "MCP SSE Request",
        || json!({"url": server.shown_url(), "method": method}),
    );
    let started = Instant::now();
    let outcome = wait(work)?;
    log(LogLevel::Debug, "MCP SSE Response", || {
        let error = outcome.as_ref().err().map(ToString::to_string);
        json!({"method": method, "duration_ms": started.elapsed().as_millis() as u64, "error": error})
    });
    outcome.map_err(|error| exception::of_mcp(&error))
}

/// For the registry: the tools of a server as they came.
pub fn tools_of(server: &Server) -> Result<Vec<Box<RawValue>>, Failure> {
    let client = runtime::mcp_client(server)?;
    wait(async move { client.list_tools().await })?.map_err(|error| exception::of_mcp(&error))
}
