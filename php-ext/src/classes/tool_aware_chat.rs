//! `ToolAwareChat`: a language model that calls tools until the model gives its final response.

use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolDefinition;
use serde_json::Value;

use super::chat_answer;
use super::chat_stream::{RunningChat, new_stream};
use super::sidecar;
use crate::chat::{
    ChatSettings, ChatStep, ChatValues, FinishedChat, LocalChat, LocalChatRequest, ModelSettings,
    SidecarChatRequest, parse_messages, read_model, read_options,
};
use crate::context::context_argument;
use crate::exception;
use crate::execution::tool_executor;
use crate::execution::tool_executor::is_executor;
use crate::runtime;
use crate::tools::registry::read_registry;
use crate::values::tool_definition::to_tool_definition;
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, Result, State, StateClass, construct,
    entries, member, methods, new_array, read_state,
};

pub const NAME: &str = "Pillion\\ToolAwareChat";
static CLASS: StateClass<Chat> = StateClass::new();

/// The property with the executor or the sidecar.
const TOOLS_PROPERTY: &str = "tools";
const TOOLS_TYPE: &str = "Pillion\\ToolExecutor|Pillion\\Sidecar";
/// The key under which the object's `HiddenValue` contains the callable that returns the provider's
/// API key.
const HIDDEN_KEY_CALLABLE: &str = "key";
/// The key under which the object's `HiddenValue` contains the model array without credentials. The
/// array is passed to the tools' `isEnabledForModel()`.
const HIDDEN_MODEL: &str = "model";

struct Chat {
    settings: ChatSettings,
    tool_loop: ToolLoop,
}

/// Where the tool loop of a chat runs, which is either this process or the sidecar.
enum ToolLoop {
    Local(Box<ModelSettings>),
    /// The loop runs in the sidecar, with the model of this name; `None` for the default model.
    Sidecar(Option<String>),
}

impl State for Chat {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

pub(super) fn register() -> ZendResult<()> {
    let class = methods!(
        Class::new(NAME).property("private object $tools"),
        "__construct(Pillion\\ToolExecutor|Pillion\\Sidecar $tools, \
         #[SensitiveParameter] string|array|null $model = null, \
         array $options = [])" => construct_chat,
        "send(string|array|null $message = null, ?string $state = null, \
         array $context = []): Pillion\\ChatAnswer" => send,
        "stream(string|array|null $message = null, ?string $state = null, \
         array $context = []): Pillion\\ChatStream" => stream,
    );
    CLASS.register(class)
}

/// Creates a chat without any I/O.
fn construct_chat(call: &mut MethodCall<'_>) -> Outcome {
    let tools = call
        .value(0)
        .and_then(Object::from_value)
        .filter(|tools| is_executor(*tools) || sidecar::is_sidecar(*tools))
        .ok_or_else(|| call.type_error(0, TOOLS_TYPE))?;
    let options = call.optional_array(2)?;
    let settings = read_options(options, !is_executor(tools))?;
    let model_argument = match call.non_null_value(1) {
        Some(model) if model.is_array() => Some(None),
        Some(_) => Some(Some(call.string(1)?)),
        None => None,
    };
    let this = call.this();
    let (tool_loop, hidden_values) = match (is_executor(tools), model_argument) {
        (true, Some(None)) => {
            let parsed_model = call.value(1).map_or(Err(Failure::Pending), read_model)?;
            let hidden_values = new_array([
                (HIDDEN_KEY_CALLABLE, parsed_model.key_callable),
                (HIDDEN_MODEL, parsed_model.model_without_credentials),
            ]);
            (
                ToolLoop::Local(Box::new(parsed_model.settings)),
                hidden_values,
            )
        }
        (true, _) => {
            return Err(exception::invalid_input(
                "$model must be an array with the keys 'model' and either 'provider' or \
                 'base_url', and optionally 'api_key'",
            ));
        }
        (false, Some(None)) => {
            return Err(exception::invalid_input(
                "$model must be the name of a model of the sidecar, or null for the default model",
            ));
        }
        (false, model_name) => (
            ToolLoop::Sidecar(model_name.flatten().map(str::to_owned)),
            Zval::new(),
        ),
    };
    let chat = Chat {
        settings,
        tool_loop,
    };
    construct(this, chat)?;
    this.set(CLASS.get(), TOOLS_PROPERTY, tools.to_value());
    HiddenValue::for_object::<Chat>(this)?.set(hidden_values);
    Ok(Zval::new())
}

fn send(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let chat = read_state::<Chat>(this)?;
    let finished_chat = match &chat.tool_loop {
        ToolLoop::Sidecar(model) => {
            let client = find_client(this, chat)?;
            new_sidecar_request(call, chat, model.as_deref())?.send(&client)?
        }
        ToolLoop::Local(model) => {
            let values = read_chat_values(call)?;
            let local_chat = start_local_chat(call, chat, model, &values, false)?;
            run_to_end(this, &local_chat, &values)?
        }
    };
    chat_answer::new(&finished_chat)
}

fn stream(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let chat = read_state::<Chat>(this)?;
    match &chat.tool_loop {
        ToolLoop::Sidecar(model) => {
            let client = find_client(this, chat)?;
            let sidecar_chat =
                new_sidecar_request(call, chat, model.as_deref())?.stream(&client)?;
            new_stream(this, RunningChat::Sidecar(Box::new(sidecar_chat)), None)
        }
        ToolLoop::Local(model) => {
            let values = read_chat_values(call)?;
            let local_chat = start_local_chat(call, chat, model, &values, true)?;
            new_stream(this, RunningChat::Local(local_chat), Some(&values))
        }
    }
}

fn run_to_end(this: Object<'_>, chat: &LocalChat, values: &ChatValues) -> Result<FinishedChat> {
    loop {
        if let ChatStep::Done(finished_chat) = next_step(this, chat, values)? {
            return Ok(finished_chat);
        }
    }
}

/// Waits for the next step of a chat that this `ToolAwareChat` started.
///
/// # Errors
/// A failure that ends the whole chat; see [`LocalChat::next`].
pub fn next_step(this: Object<'_>, chat: &LocalChat, values: &ChatValues) -> Result<ChatStep> {
    let executor_value = read_tools(this)?;
    let executor = Object::from_value(&executor_value).ok_or(Failure::Pending)?;
    chat.next(executor, values)
}

/// Dispatches the end events of a chat's calls that were started and then cancelled.
///
/// # Errors
/// An exception from a listener or from the logger.
pub fn dispatch_cancelled(this: Object<'_>, local_chat: &LocalChat) -> Result<()> {
    let executor_value = read_tools(this)?;
    let executor = Object::from_value(&executor_value).ok_or(Failure::Pending)?;
    local_chat.dispatch_cancelled(executor)
}

fn read_tools(this: Object<'_>) -> Outcome {
    this.get(CLASS.get(), TOOLS_PROPERTY)
}

fn read_hidden_value(this: Object<'_>, name: &str) -> Outcome {
    let hidden_values = HiddenValue::for_object::<Chat>(this)?.get();
    Ok(member(&hidden_values, name).unwrap_or_default())
}

/// Reads the new messages and the state of the chat from the arguments `$message` and `$state`.
fn read_messages<'a>(call: &MethodCall<'a>) -> Result<(Vec<Value>, Option<&'a str>)> {
    if let Some(message) = call.non_null_value(0)
        && !message.is_array()
    {
        call.string(0)?;
    }
    let messages = parse_messages(call.non_null_value(0))?;
    let state = call.optional_string(1)?;
    if state == Some("") {
        return Err(exception::invalid_input(
            "$state must not be empty: pass the state of an earlier answer, or null for a new chat",
        ));
    }
    if messages.is_empty() && state.is_none() {
        return Err(exception::invalid_input(
            "A new chat needs a $message; null continues the chat of $state",
        ));
    }
    Ok((messages, state))
}

fn find_client(this: Object<'_>, chat: &Chat) -> Result<Arc<pillion_client::Client>> {
    let sidecar = read_tools(this)?;
    let path = sidecar::read_socket_path(Object::from_value(&sidecar).ok_or(Failure::Pending)?)?;
    Ok(runtime::sidecar_client(path, chat.settings.timeout))
}

fn new_sidecar_request<'a>(
    call: &MethodCall<'a>,
    chat: &'a Chat,
    model: Option<&'a str>,
) -> Result<SidecarChatRequest<'a>> {
    let (messages, id) = read_messages(call)?;
    Ok(SidecarChatRequest {
        settings: &chat.settings,
        model,
        id,
        messages,
        caller: sidecar::caller_argument(call, 2)?,
    })
}

/// Returns the PHP values that a chat of this `ToolAwareChat` uses, except the executor.
fn read_chat_values(call: &MethodCall<'_>) -> Result<ChatValues> {
    let this = call.this();
    let executor_value = read_tools(this)?;
    let executor = Object::from_value(&executor_value).ok_or(Failure::Pending)?;
    let registry_value = tool_executor::registry_value(executor)?;
    let (registry_object, registry) = read_registry(&registry_value)?;
    Ok(ChatValues {
        clients: registry.clients(registry_object)?,
        context: call.value_or_null(2),
        key_callable: read_hidden_value(this, HIDDEN_KEY_CALLABLE)?,
    })
}

fn start_local_chat(
    call: &MethodCall<'_>,
    chat: &Chat,
    model: &ModelSettings,
    values: &ChatValues,
    is_streamed: bool,
) -> Result<LocalChat> {
    let this = call.this();
    let (messages, state) = read_messages(call)?;
    let context = context_argument(call, 2)?;
    let executor_value = read_tools(this)?;
    let executor = Object::from_value(&executor_value).ok_or(Failure::Pending)?;
    let tools = if chat.settings.can_use_tools {
        list_definitions(this, executor)?
    } else {
        Vec::new()
    };
    let request = LocalChatRequest {
        settings: &chat.settings,
        model,
        tools,
        state,
        messages,
        context,
        is_streamed,
    };
    request.start(executor, &values.clients)
}

/// Returns the tools that the model may see; calls `isEnabledForModel()` of each tool.
fn list_definitions(this: Object<'_>, executor: Object<'_>) -> Result<Vec<Arc<ToolDefinition>>> {
    let registry_value = tool_executor::registry_value(executor)?;
    let registry = Object::from_value(&registry_value).ok_or(Failure::Pending)?;
    let model = read_hidden_value(this, HIDDEN_MODEL)?;
    let definitions = registry.call("getDefinitionsForModel", [model])?;
    let mut tools = Vec::new();
    for (_, definition) in entries(&definitions) {
        tools.extend(to_tool_definition(&definition)?.map(Arc::new));
    }
    Ok(tools)
}
