//! `Sidecar`: a client for the sidecar, over its Unix socket.

mod batch;
mod call_response;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_client::wire::DecisionRequest;
use pillion_client::wire::route::{self, Route};
use pillion_client::{Caller, Client, ClientError};
use pillion_core::tool::{ErrorCode, JsonObject};
use serde_json::Value;

use crate::context::context_argument;
use crate::duration::seconds;
use crate::exception;
use crate::json::{EmptyObject, decode, to_value_as};
use crate::mcp::arguments;
use crate::runtime;
use crate::settings;
use crate::values::tool_call::exact_arguments;
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, State, StateClass, bool_of, call_callable,
    construct, entries, member, methods, set_static_property, state_of, static_property, string_of,
    type_name,
};
use call_response::CallResponse;

const NAME: &str = "Pillion\\Sidecar";
/// The static property with the closure of `resolveSocketUsing()`.
const SOCKET_RESOLVER: &str = "socketResolver";
/// The keys of the filter of `listApprovals()`.
const APPROVAL_FILTERS: [&str; 5] = ["status", "tool", "user", "limit", "after"];
/// Default timeout of a call, if neither the constructor nor an ini setting sets one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
static CLASS: StateClass<Sidecar> = StateClass::new();

struct Sidecar {
    socket: PathBuf,
    timeout: Duration,
}

impl State for Sidecar {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub(super) fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new(NAME).property("private static ?Closure $socketResolver = null"),
        "static resolveSocketUsing(?Closure $resolver): void" => resolve_socket_using,
        "__construct(?string $socketPath = null, \
         int|float|null $timeout = null)" => construct_sidecar,
        "getSocketPath(): string" => get_socket_path,
        "isAvailable(): bool" => is_available,
        "listTools(?string $category = null, array $context = []): array" => list_tools,
        "getSchemas(?string $category = null, array $context = []): array" => get_schemas,
        "callTool(string $name, array $arguments = [], array $context = []): mixed" => call_tool,
        "execute(Pillion\\ToolCall|array $call, \
         array $context = []): Pillion\\ToolResult" => batch::execute,
        "executeAll(array $calls, array $context = []): array" => batch::execute_all,
        "executeParallel(array $calls, array $context = []): array" => batch::execute_parallel,
        "listApprovals(array $filter = []): array" => list_approvals,
        "approve(string $approvalId, ?string $reason = null, \
         ?array $arguments = null): array" => approve,
        "deny(string $approvalId, ?string $reason = null): array" => deny,
    );
    CLASS.register(class)
}

/// Creates the client without any I/O: the sidecar does not need to be running yet.
fn construct_sidecar(call: &mut MethodCall<'_>) -> Outcome {
    let socket = match call.optional_string(0)? {
        Some(path) => PathBuf::from(path),
        None => default_socket()?,
    };
    let timeout = match call.optional_number(1)? {
        Some(timeout) => seconds("timeout", timeout)?,
        None => settings::timeout().unwrap_or(DEFAULT_TIMEOUT),
    };
    construct(call.this(), Sidecar { socket, timeout })?;
    Ok(Zval::new())
}

fn resolve_socket_using(call: &mut MethodCall<'_>) -> Outcome {
    let is_closure = |value: &Zval| {
        Object::from_value(value).is_some_and(|object| object.class_name() == "Closure")
    };
    let resolver = match call.non_null(0) {
        Some(resolver) if is_closure(resolver) => resolver.shallow_clone(),
        Some(_) => return Err(call.type_error(0, "?Closure")),
        None => Zval::new(),
    };
    set_static_property(CLASS.get(), SOCKET_RESOLVER, resolver);
    Ok(Zval::new())
}

/// Returns the socket for a client that is constructed without one.
fn default_socket() -> Result<PathBuf, Failure> {
    let resolver = static_property(CLASS.get(), SOCKET_RESOLVER);
    let resolved = if resolver.is_null() {
        Zval::new()
    } else {
        call_callable(&resolver, [])?
    };
    if !resolved.is_null() && !resolved.is_string() {
        return Err(exception::invalid_input(format!(
            "The resolver of the sidecar's socket must return a string or null, not {}",
            type_name(&resolved)
        )));
    }
    let path = resolved.zend_str().map(|path| path.as_bytes());
    Ok(match path.filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(OsStr::from_bytes(path)),
        None => settings::socket().unwrap_or_else(pillion_client::default_socket_path),
    })
}

fn get_socket_path(call: &mut MethodCall<'_>) -> Outcome {
    let sidecar = state_of::<Sidecar>(call.this())?;
    Ok(string_of(sidecar.socket.as_os_str().as_encoded_bytes()))
}

/// Returns whether a sidecar responds. Does not throw an exception if none does.
fn is_available(call: &mut MethodCall<'_>) -> Outcome {
    match send_request(call, |client| client.request(route::HEALTH, []).send()) {
        Ok(_) => Ok(bool_of(true)),
        Err(Failure::Thrown(_)) => Ok(bool_of(false)),
        Err(other) => Err(other),
    }
}

fn list_tools(call: &mut MethodCall<'_>) -> Outcome {
    list_by_category(call, route::LIST_TOOLS, "tools", EmptyObject::Array)
}

fn get_schemas(call: &mut MethodCall<'_>) -> Outcome {
    list_by_category(call, route::LIST_SCHEMAS, "schemas", EmptyObject::StdClass)
}

fn list_by_category<R>(
    call: &MethodCall<'_>,
    route: Route<R, 0>,
    field: &str,
    empty: EmptyObject,
) -> Outcome {
    let category = call.optional_string(0)?;
    let caller = caller_argument(call, 1)?;
    let response = send_request(call, |client| {
        let filter = category.map(|category| ("category", category));
        let request = client.request(route, []).query(filter);
        request.caller(&caller).send()
    })?;
    list_in(response.body(), field, empty)
}

/// Calls a tool and returns its data. A failed tool throws the exception for its error code.
fn call_tool(call: &mut MethodCall<'_>) -> Outcome {
    let name = call.string(0)?;
    let arguments = arguments(call, 1)?;
    let caller = caller_argument(call, 2)?;
    let response = send_request(call, |client| {
        let request = client.request(route::EXECUTE_TOOL, [name]).tools([name]);
        request
            .caller(&caller)
            .send_bytes(arguments.get().as_bytes())
    })?;
    let call_response =
        CallResponse::from_value(&decode_body(response.body(), EmptyObject::Array)?);
    if call_response.success {
        return Ok(call_response.data);
    }
    let exact_arguments = approval_arguments(response.body())?
        .into_iter()
        .next()
        .flatten();
    Err(call_response
        .with_arguments(exact_arguments)
        .into_failure(name.to_owned()))
}

/// Returns pending and decided approvals, newest first.
fn list_approvals(call: &mut MethodCall<'_>) -> Outcome {
    let filter = match call.optional_array(0)? {
        Some(filter) => to_value_as("argument $filter", filter)?,
        None => Value::Null,
    };
    // A list is not a filter: its keys are numbers.
    if filter.as_array().is_some_and(|list| !list.is_empty()) {
        return Err(exception::invalid_input("There is no filter '0'"));
    }
    let mut query = Vec::new();
    for (key, value) in filter.as_object().into_iter().flatten() {
        let key = APPROVAL_FILTERS
            .into_iter()
            .find(|known| known == key)
            .ok_or_else(|| exception::invalid_input(format!("There is no filter '{key}'")))?;
        match value {
            Value::String(text) => query.push((key, text.clone())),
            Value::Number(number) => query.push((key, number.to_string())),
            _ => {
                let message = format!("The filter '{key}' must be a string");
                return Err(exception::invalid_input(message));
            }
        }
    }
    let response = send_request(call, |client| {
        let request = client.request(route::LIST_APPROVALS, []);
        request.query(query).send()
    })?;
    list_in(response.body(), "approvals", EmptyObject::Array)
}

fn approve(call: &mut MethodCall<'_>) -> Outcome {
    decide(call, true)
}

fn deny(call: &mut MethodCall<'_>) -> Outcome {
    decide(call, false)
}

/// Approves or denies a call, and returns the updated approval.
fn decide(call: &MethodCall<'_>, approve: bool) -> Outcome {
    let id = call.string(0)?;
    let reason = call.optional_string(1)?;
    let request = DecisionRequest {
        reason: reason.map(str::to_owned),
        arguments: if approve {
            edited_arguments(call)?
        } else {
            None
        },
    };
    let route = if approve { route::APPROVE } else { route::DENY };
    let response = send_request(call, |client| {
        client.request(route, [id]).send_json(&request)
    })?;
    let body = decode_body(response.body(), EmptyObject::Array)?;
    member(&body, "approval")
        .filter(Zval::is_array)
        .ok_or_else(|| exception::transport("The sidecar's response has no approval"))
}

/// Returns the arguments that the approver sets instead of the call's own.
fn edited_arguments(call: &MethodCall<'_>) -> Result<Option<JsonObject>, Failure> {
    if call.non_null(2).is_none() {
        return Ok(None);
    }
    match to_value_as("argument $arguments", call.array(2)?)? {
        Value::Object(arguments) => Ok(Some(arguments)),
        Value::Array(items) if items.is_empty() => Ok(Some(JsonObject::new())),
        _ => Err(exception::invalid_input(
            "The arguments must be an array with names as keys",
        )),
    }
}

/// Returns the exact arguments of each call that needs approval, because the approver needs to see
/// the arguments that the tool would receive. Most batches contain no such calls and are not parsed
/// twice.
fn approval_arguments(body: &[u8]) -> Result<Vec<Option<Zval>>, Failure> {
    let code = ErrorCode::ApprovalRequired.as_str().as_bytes();
    if !body.windows(code.len()).any(|part| part == code) {
        return Ok(Vec::new());
    }
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let results = match response["results"].as_array() {
        Some(results) => results.as_slice(),
        // The body is the response to a single call, not to a batch.
        None => std::slice::from_ref(&response),
    };
    let arguments = results.iter().map(|result| {
        let inner = result.get("result").filter(|inner| inner.is_object());
        let outcome = inner.unwrap_or(result);
        let needs_approval = outcome["error_code"] == ErrorCode::ApprovalRequired.as_str();
        let arguments = outcome["metadata"]
            .get("arguments")
            .filter(|_| needs_approval);
        arguments.map(exact_arguments).transpose()
    });
    arguments.collect()
}

/// Returns the caller of a request, as specified in the `$context` array.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn caller_argument(call: &MethodCall<'_>, index: usize) -> Result<Caller, Failure> {
    let context = context_argument(call, index)?;
    let mut caller = Caller::default();
    if let Some(user) = context.user {
        caller = caller.user(user);
    }
    if let Some(channel) = context.channel {
        caller = caller.channel(channel);
    }
    if let Some(id) = context.extra.get("request_id").and_then(Value::as_str) {
        caller = caller.request_id(id);
    }
    if let Some(id) = context_text(&context.extra, "approval")? {
        caller = caller.approval(id);
    }
    if let Some(key) = context_text(&context.extra, "idempotency_key")? {
        caller = caller.idempotency_key(key);
    }
    match context.extra.get("approval_wait") {
        None | Some(Value::Null) => {}
        Some(wait) => {
            let wait = wait.as_f64().map(Duration::try_from_secs_f64);
            let Some(Ok(wait)) = wait else {
                return Err(exception::invalid_input(
                    "The context's 'approval_wait' must be a number of seconds",
                ));
            };
            caller = caller.wait_for_approval(wait);
        }
    }
    Ok(caller)
}

fn context_text<'a>(context: &'a JsonObject, key: &str) -> Result<Option<&'a str>, Failure> {
    match context.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(exception::invalid_input(format!(
            "The context's '{key}' must be a string"
        ))),
    }
}

fn send_request<R>(
    call: &MethodCall<'_>,
    request: impl FnOnce(&Client) -> Result<R, ClientError>,
) -> Result<R, Failure> {
    let sidecar = state_of::<Sidecar>(call.this())?;
    let client = runtime::sidecar(&sidecar.socket, sidecar.timeout);
    request(&client).map_err(|error| exception::for_client_error(&error))
}

/// Returns whether an object is a `Sidecar`.
pub fn is_sidecar(object: Object<'_>) -> bool {
    object.instance_of(CLASS.get())
}

/// Returns the socket path of a sidecar.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn socket_of(sidecar: Object<'_>) -> Result<&Path, Failure> {
    Ok(&state_of::<Sidecar>(sidecar)?.socket)
}

fn decode_body(body: &[u8], empty: EmptyObject) -> Outcome {
    let text = std::str::from_utf8(body)
        .map_err(|_| exception::transport("The sidecar's response is not valid UTF-8"))?;
    decode(text, empty)?.map_err(|error| {
        exception::transport(format!("The sidecar's response cannot be read: {error}"))
    })
}

/// Returns a list of objects from a field of the sidecar's response.
fn list_in(body: &[u8], field: &str, empty: EmptyObject) -> Outcome {
    let response = decode_body(body, empty)?;
    let list = member(&response, field)
        .filter(|list| list.array().is_some_and(|list| list.has_sequential_keys()))
        .ok_or_else(|| {
            exception::transport(format!("The sidecar's response has no list '{field}'"))
        })?;
    let is_object = |entry: &Zval| entry.is_array() || entry.is_object();
    if !entries(&list).all(|(_, entry)| is_object(&entry)) {
        return Err(exception::transport(format!(
            "The sidecar's list '{field}' has an entry that is not an object"
        )));
    }
    Ok(list)
}
