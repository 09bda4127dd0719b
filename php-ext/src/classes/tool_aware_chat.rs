//! `ToolAwareChat`: a language model that calls tools until it has a final answer.

use std::sync::Arc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use pillion_core::tool::ToolDefinition;
use serde_json::Value;

use super::chat_answer;
use super::chat_stream::{Running, new_stream};
use super::sidecar;
use crate::chat::{
    ChatSettings, ChatValues, FinishedChat, LocalChat, LocalChatRequest, ModelSettings,
    SidecarChatRequest, Step, parse_messages, read_model, read_options,
};
use crate::context::context_argument;
use crate::exception;
use crate::execution::tool_executor;
use crate::execution::tool_executor::is_executor;
use crate::runtime;
use crate::tools::registry::registry_of;
use crate::values::tool_definition::definition_of;
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, State, StateClass, array_of,
    construct, entries, member, methods, state_of,
};

pub const NAME: &str = "Pillion\\ToolAwareChat";
static CLASS: StateClass<Chat> = StateClass::new();

/// The property with the executor or the sidecar.
const TOOLS: &str = "tools";
const TOOLS_TYPE: &str = "Pillion\\ToolExecutor|Pillion\\Sidecar";
/// The key of the hidden value under which the callable for the provider's key is stored.
const KEY: &str = "key";
/// The key of the hidden value under which the model without credentials is stored, for the tools'
/// `isEnabledForModel()`.
const MODEL: &str = "model";

struct Chat {
    settings: ChatSettings,
    tool_loop: ToolLoop,
}

/// Where the tool loop of a chat runs.
enum ToolLoop {
    Local(Box<ModelSettings>),
    /// The loop runs in the sidecar, with the model of this name; `None` for the default model.
    Sidecar(Option<String>),
}

impl State for Chat {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
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
    let name = match call.non_null(1) {
        Some(model) if model.is_array() => Some(None),
        Some(_) => Some(Some(call.string(1)?)),
        None => None,
    };
    let this = call.this();
    let (tool_loop, hidden) = match (is_executor(tools), name) {
        (true, Some(None)) => {
            let parsed = call.value(1).map_or(Err(Failure::Pending), read_model)?;
            let hidden = array_of([(KEY, parsed.callable), (MODEL, parsed.shown)]);
            (ToolLoop::Local(Box::new(parsed.settings)), hidden)
        }
        (true, _) => {
            return Err(exception::invalid_input(
                "$model must be an array that specifies the model: 'provider' or 'base_url', 'model', 'api_key'",
            ));
        }
        (false, Some(None)) => {
            return Err(exception::invalid_input(
                "$model must be the name of a model of the sidecar, or null for the default model",
            ));
        }
        (false, name) => (
            ToolLoop::Sidecar(name.flatten().map(str::to_owned)),
            Zval::new(),
        ),
    };
    construct(
        this,
        Chat {
            settings,
            tool_loop,
        },
    )?;
    this.set(CLASS.get(), TOOLS, tools.to_value());
    HiddenValue::for_object::<Chat>(this)?.set(hidden);
    Ok(Zval::new())
}

fn send(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let chat = state_of::<Chat>(this)?;
    let done = match &chat.tool_loop {
        ToolLoop::Sidecar(model) => {
            let client = client_of(this, chat)?;
            sidecar_request(call, chat, model.as_deref())?.send(&client)?
        }
        ToolLoop::Local(model) => {
            let values = chat_values(call)?;
            let local_chat = start_local(call, chat, model, &values, false)?;
            run_to_end(this, &local_chat, &values)?
        }
    };
    chat_answer::new(&done)
}

fn stream(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let chat = state_of::<Chat>(this)?;
    match &chat.tool_loop {
        ToolLoop::Sidecar(model) => {
            let client = client_of(this, chat)?;
            let sidecar_chat = sidecar_request(call, chat, model.as_deref())?.stream(&client)?;
            new_stream(this, Running::Sidecar(Box::new(sidecar_chat)), None)
        }
        ToolLoop::Local(model) => {
            let values = chat_values(call)?;
            let local_chat = start_local(call, chat, model, &values, true)?;
            new_stream(this, Running::Local(local_chat), Some(&values))
        }
    }
}

fn run_to_end(
    this: Object<'_>,
    local_chat: &LocalChat,
    values: &ChatValues,
) -> Result<FinishedChat, Failure> {
    loop {
        if let Step::Done(done) = step(this, local_chat, values)? {
            return Ok(done);
        }
    }
}

/// Waits for the next step of a chat that this `ToolAwareChat` started.
///
/// # Errors
/// The failure of [`LocalChat::next`].
pub fn step(
    this: Object<'_>,
    local_chat: &LocalChat,
    values: &ChatValues,
) -> Result<Step, Failure> {
    let executor = tools_of(this)?;
    let executor = Object::from_value(&executor).ok_or(Failure::Pending)?;
    local_chat.next(executor, values)
}

/// Dispatches the end of those calls of a chat that were started and then cancelled.
///
/// # Errors
/// An exception from a listener or from the logger.
pub fn dispatch_cancelled(this: Object<'_>, local_chat: &LocalChat) -> Result<(), Failure> {
    let executor = tools_of(this)?;
    let executor = Object::from_value(&executor).ok_or(Failure::Pending)?;
    local_chat.dispatch_cancelled(executor)
}

fn tools_of(this: Object<'_>) -> Outcome {
    this.get(CLASS.get(), TOOLS)
}

fn hidden_value(this: Object<'_>, name: &str) -> Outcome {
    let hidden = HiddenValue::for_object::<Chat>(this)?.get();
    Ok(member(&hidden, name).unwrap_or_default())
}

/// Returns the new messages and the state of the chat.
fn read_messages<'a>(call: &MethodCall<'a>) -> Result<(Vec<Value>, Option<&'a str>), Failure> {
    if let Some(message) = call.non_null(0)
        && !message.is_array()
    {
        call.string(0)?;
    }
    let messages = parse_messages(call.non_null(0))?;
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

fn client_of(this: Object<'_>, chat: &Chat) -> Result<Arc<pillion_client::Client>, Failure> {
    let sidecar = tools_of(this)?;
    let socket = sidecar::socket_of(Object::from_value(&sidecar).ok_or(Failure::Pending)?)?;
    Ok(runtime::sidecar(socket, chat.settings.timeout))
}

fn sidecar_request<'a>(
    call: &MethodCall<'a>,
    chat: &'a Chat,
    model: Option<&'a str>,
) -> Result<SidecarChatRequest<'a>, Failure> {
    let (messages, id) = read_messages(call)?;
    Ok(SidecarChatRequest {
        settings: &chat.settings,
        model,
        id,
        messages,
        caller: sidecar::caller_argument(call, 2)?,
    })
}

/// Returns the PHP values that take part in a chat of this `ToolAwareChat`.
fn chat_values(call: &MethodCall<'_>) -> Result<ChatValues, Failure> {
    let this = call.this();
    let executor = tools_of(this)?;
    let executor = Object::from_value(&executor).ok_or(Failure::Pending)?;
    let registry = tool_executor::registry_value(executor)?;
    let (object, registry) = registry_of(&registry)?;
    Ok(ChatValues {
        clients: registry.clients(object)?,
        context: call.value_or_null(2),
        key: hidden_value(this, KEY)?,
    })
}

fn start_local(
    call: &MethodCall<'_>,
    chat: &Chat,
    model: &ModelSettings,
    values: &ChatValues,
    streamed: bool,
) -> Result<LocalChat, Failure> {
    let this = call.this();
    let (messages, state) = read_messages(call)?;
    let context = context_argument(call, 2)?;
    let executor = tools_of(this)?;
    let executor = Object::from_value(&executor).ok_or(Failure::Pending)?;
    let tools = if chat.settings.with_tools {
        definitions_for_model(this, executor)?
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
        streamed,
    };
    request.start(executor, &values.clients)
}

/// Returns the tools that the model may see; calls `isEnabledForModel()` of each tool.
fn definitions_for_model(
    this: Object<'_>,
    executor: Object<'_>,
) -> Result<Vec<Arc<ToolDefinition>>, Failure> {
    let registry = tool_executor::registry_value(executor)?;
    let registry = Object::from_value(&registry).ok_or(Failure::Pending)?;
    let definitions = registry.call("getDefinitionsForModel", [hidden_value(this, MODEL)?])?;
    let mut tools = Vec::new();
    for (_, definition) in entries(&definitions) {
        tools.extend(definition_of(&definition)?.map(Arc::new));
    }
    Ok(tools)
}
