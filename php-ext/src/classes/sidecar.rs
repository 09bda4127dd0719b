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
use crate::duration::parse_seconds;
use crate::exception;
use crate::json::{EmptyObject, decode, to_value_as};
use crate::mcp::read_arguments;
use crate::runtime;
use crate::settings;
use crate::values::tool_call::exact_arguments;
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, Result, State, StateClass, call_callable,
    construct, entries, member, methods, new_bool, new_string, read_state, set_static_property,
    static_property, type_name,
};
use call_response::CallResponse;

const NAME: &str = "Pillion\\Sidecar";
/// The static property that contains the closure passed to `resolveSocketUsing()`.
const SOCKET_RESOLVER: &str = "socketResolver";
/// The keys that the filter of `listApprovals()` may contain.
const APPROVAL_FILTERS: [&str; 5] = ["status", "tool", "user", "limit", "after"];
/// Default timeout of a call, used if neither the constructor nor an ini setting sets a timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
static CLASS: StateClass<Sidecar> = StateClass::new();

struct Sidecar {
    path: PathBuf,
    timeout: Duration,
}

impl State for Sidecar {
    const CLASS: &'static StateClass<Self> = &CLASS;
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
    let path = match call.optional_string(0)? {
        Some(path) => PathBuf::from(path),
        None => resolve_socket_path()?,
    };
    let timeout = match call.optional_number(1)? {
        Some(timeout) => parse_seconds("timeout", timeout)?,
        None => settings::timeout().unwrap_or(DEFAULT_TIMEOUT),
    };
    construct(call.this(), Sidecar { path, timeout })?;
    Ok(Zval::new())
}

fn resolve_socket_using(call: &mut MethodCall<'_>) -> Outcome {
    let is_closure = |value: &Zval| {
        Object::from_value(value).is_some_and(|object| object.class_name() == "Closure")
    };
    let resolver = match call.non_null_value(0) {
        Some(resolver) if is_closure(resolver) => resolver.shallow_clone(),
        Some(_) => return Err(call.type_error(0, "?Closure")),
        None => Zval::new(),
    };
    set_static_property(CLASS.get(), SOCKET_RESOLVER, resolver);
    Ok(Zval::new())
}

/// Returns the socket path of a client that is constructed without a path.
fn resolve_socket_path() -> Result<PathBuf> {
    let resolver = static_property(CLASS.get(), SOCKET_RESOLVER);
    let resolved_path = if resolver.is_null() {
        Zval::new()
    } else {
        call_callable(&resolver, [])?
    };
    if !resolved_path.is_null() && !resolved_path.is_string() {
        return Err(exception::invalid_input(format!(
            "The resolver of the sidecar's socket must return a string or null, not {}",
            type_name(&resolved_path)
        )));
    }
    let path = resolved_path.zend_str().map(|path| path.as_bytes());
    Ok(match path.filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(OsStr::from_bytes(path)),
        None => settings::socket_path().unwrap_or_else(pillion_client::default_socket_path),
    })
}

fn get_socket_path(call: &mut MethodCall<'_>) -> Outcome {
    let sidecar = read_state::<Sidecar>(call.this())?;
    Ok(new_string(sidecar.path.as_os_str().as_encoded_bytes()))
}

/// Returns whether a sidecar responds. Throws no exception if the request fails.
fn is_available(call: &mut MethodCall<'_>) -> Outcome {
    match send_request(call, |client| client.request(route::HEALTH, []).send()) {
        Ok(_) => Ok(new_bool(true)),
        Err(Failure::Exception(_)) => Ok(new_bool(false)),
        Err(failure) => Err(failure),
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
    empty_object: EmptyObject,
) -> Outcome {
    let category = call.optional_string(0)?;
    let caller = caller_argument(call, 1)?;
    let response = send_request(call, |client| {
        let filter = category.map(|category| ("category", category));
        let request = client.request(route, []).query(filter);
        request.caller(&caller).send()
    })?;
    decode_list(response.body(), field, empty_object)
}

/// Calls a tool and returns its data. A failed tool throws the exception for its error code.
fn call_tool(call: &mut MethodCall<'_>) -> Outcome {
    let name = call.string(0)?;
    let body = read_arguments(call, 1)?;
    let caller = caller_argument(call, 2)?;
    let response = send_request(call, |client| {
        let request = client.request(route::EXECUTE_TOOL, [name]).tools([name]);
        request.caller(&caller).send_bytes(body.get().as_bytes())
    })?;
    let call_response =
        CallResponse::from_value(&decode_body(response.body(), EmptyObject::Array)?);
    if call_response.success {
        return Ok(call_response.data);
    }
    let exact_arguments = decode_approval_arguments(response.body())?
        .into_iter()
        .next()
        .flatten();
    Err(call_response
        .with_arguments(exact_arguments)
        .into_failure(name.to_owned()))
}

fn unknown_filter(name: &str) -> Failure {
    let expected = APPROVAL_FILTERS.join(", ");
    exception::invalid_input(format!(
        "Unknown filter '{name}': expected one of {expected}"
    ))
}

/// Returns pending and decided approvals, newest first.
fn list_approvals(call: &mut MethodCall<'_>) -> Outcome {
    let filter = match call.optional_array(0)? {
        Some(filter) => to_value_as("argument $filter", filter)?,
        None => Value::Null,
    };
    // A list is rejected, because a filter must have string keys.
    if filter.as_array().is_some_and(|list| !list.is_empty()) {
        return Err(unknown_filter("0"));
    }
    let mut query = Vec::new();
    for (name, value) in filter.as_object().into_iter().flatten() {
        let key = APPROVAL_FILTERS
            .into_iter()
            .find(|filter_key| filter_key == name)
            .ok_or_else(|| unknown_filter(name))?;
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
    decode_list(response.body(), "approvals", EmptyObject::Array)
}

fn approve(call: &mut MethodCall<'_>) -> Outcome {
    decide(call, true)
}

fn deny(call: &mut MethodCall<'_>) -> Outcome {
    decide(call, false)
}

/// Approves or denies a call, and returns the updated approval.
fn decide(call: &MethodCall<'_>, is_approval: bool) -> Outcome {
    let id = call.string(0)?;
    let reason = call.optional_string(1)?;
    let (route, arguments) = if is_approval {
        (route::APPROVE, read_edited_arguments(call)?)
    } else {
        (route::DENY, None)
    };
    let request = DecisionRequest {
        reason: reason.map(str::to_owned),
        arguments,
    };
    let response = send_request(call, |client| {
        client.request(route, [id]).send_json(&request)
    })?;
    let body = decode_body(response.body(), EmptyObject::Array)?;
    member(&body, "approval")
        .filter(Zval::is_array)
        .ok_or_else(|| exception::transport_failure("The sidecar's response has no approval"))
}

/// Returns the arguments that the approver sets in place of the call's original arguments.
fn read_edited_arguments(call: &MethodCall<'_>) -> Result<Option<JsonObject>> {
    if call.non_null_value(2).is_none() {
        return Ok(None);
    }
    match to_value_as("argument $arguments", call.array(2)?)? {
        Value::Object(arguments) => Ok(Some(arguments)),
        Value::Array(items) if items.is_empty() => Ok(Some(JsonObject::new())),
        _ => Err(exception::invalid_input(
            "$arguments must be an array with string keys",
        )),
    }
}

/// Returns the exact arguments of each call in a response that needs approval, because the approver
/// needs to see the arguments that the tool would receive. The entry of any other call is `None`.
///
/// Returns an empty list if no call needs approval, so that the usual response is not parsed a
/// second time.
fn decode_approval_arguments(body: &[u8]) -> Result<Vec<Option<Zval>>> {
    let code = ErrorCode::ApprovalRequired.as_str().as_bytes();
    if !body.windows(code.len()).any(|part| part == code) {
        return Ok(Vec::new());
    }
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let results = match response["results"].as_array() {
        Some(results) => results.as_slice(),
        // If the body is not a list, it is the response to a single call.
        None => std::slice::from_ref(&response),
    };
    let arguments_of_calls = results.iter().map(|result| {
        let nested_result = result.get("result").filter(|nested| nested.is_object());
        let outcome = nested_result.unwrap_or(result);
        let needs_approval = outcome["error_code"] == ErrorCode::ApprovalRequired.as_str();
        let arguments = outcome["metadata"]
            .get("arguments")
            .filter(|_| needs_approval);
        arguments.map(exact_arguments).transpose()
    });
    arguments_of_calls.collect()
}

/// Returns the caller of a request, as specified in the `$context` array.
///
/// # Errors
/// An `InvalidInputException` that names the invalid key.
pub fn caller_argument(call: &MethodCall<'_>, index: usize) -> Result<Caller> {
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
    if let Some(id) = read_context_text(&context.extra, "approval")? {
        caller = caller.approval(id);
    }
    if let Some(key) = read_context_text(&context.extra, "idempotency_key")? {
        caller = caller.idempotency_key(key);
    }
    match context.extra.get("approval_wait") {
        None | Some(Value::Null) => {}
        Some(seconds) => {
            let Some(Ok(approval_wait)) = seconds.as_f64().map(Duration::try_from_secs_f64) else {
                return Err(exception::invalid_input(
                    "The context's 'approval_wait' must be a number of seconds",
                ));
            };
            caller = caller.wait_for_approval(approval_wait);
        }
    }
    Ok(caller)
}

fn read_context_text<'a>(context: &'a JsonObject, key: &str) -> Result<Option<&'a str>> {
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
    send: impl FnOnce(&Client) -> Result<R, ClientError>,
) -> Result<R> {
    let sidecar = read_state::<Sidecar>(call.this())?;
    let client = runtime::sidecar_client(&sidecar.path, sidecar.timeout);
    send(&client).map_err(|error| exception::for_client_error(&error))
}

/// Returns whether an object is a `Sidecar`.
pub fn is_sidecar(object: Object<'_>) -> bool {
    object.instance_of(CLASS.get())
}

/// Returns the socket path of a sidecar.
///
/// # Errors
/// An `Error` if the object's constructor has not run.
pub fn read_socket_path(sidecar: Object<'_>) -> Result<&Path> {
    Ok(&read_state::<Sidecar>(sidecar)?.path)
}

fn decode_body(body: &[u8], empty_object: EmptyObject) -> Outcome {
    let text = std::str::from_utf8(body)
        .map_err(|_| exception::transport_failure("The sidecar's response is not valid UTF-8"))?;
    decode(text, empty_object)?.map_err(|error| {
        exception::transport_failure(format!("The sidecar's response cannot be read: {error}"))
    })
}

/// Returns a list of objects from a field of the sidecar's response.
fn decode_list(body: &[u8], field: &str, empty_object: EmptyObject) -> Outcome {
    let response = decode_body(body, empty_object)?;
    let list = member(&response, field)
        .filter(|list| list.array().is_some_and(|list| list.has_sequential_keys()))
        .ok_or_else(|| {
            exception::transport_failure(format!("The sidecar's response has no list '{field}'"))
        })?;
    let is_object = |entry: &Zval| entry.is_array() || entry.is_object();
    if !entries(&list).all(|(_, entry)| is_object(&entry)) {
        return Err(exception::transport_failure(format!(
            "The sidecar's list '{field}' has an entry that is not an object"
        )));
    }
    Ok(list)
}
