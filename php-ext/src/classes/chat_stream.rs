//! `ChatStream`: a running chat whose events arrive as they happen.

use std::cell::RefCell;
use std::rc::Rc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;

use super::chat_answer;
use super::chat_event;
use super::tool_aware_chat;
use crate::chat::{ChatStep, ChatValues, LocalChat, SidecarChat};
use crate::clients::stream_iterator::{
    ItemIndex, StreamState, advance, set_current, with_iteration,
};
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, Result, State, StateClass, methods,
    new_string, new_with_state, read_state,
};

pub const NAME: &str = "Pillion\\ChatStream";
static CLASS: StateClass<ChatStreamState> = StateClass::new();

/// The property with the `ToolAwareChat` that created the stream. A property holds the object,
/// because the garbage collector traverses properties but not the Rust state. The stream's
/// `HiddenValue` contains the [`ChatValues`].
const CHAT_PROPERTY: &str = "chat";
/// The property with the `ChatAnswer`; null until PHP has received the outcome of the chat.
const OUTCOME_PROPERTY: &str = "answer";

/// The state of a `ChatStream`.
struct ChatStreamState {
    /// The running chat; `None` after the chat has finished. Dropping the value ends the chat.
    running_chat: RefCell<Option<Rc<RunningChat>>>,
    /// The state from which the chat can be resumed; `None` until the run has ended.
    state: RefCell<Option<String>>,
    item_index: ItemIndex,
}

/// A running chat, whose tool loop runs in this process or in the sidecar.
pub enum RunningChat {
    Local(LocalChat),
    Sidecar(Box<SidecarChat>),
}

impl State for ChatStreamState {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

pub(super) fn register() -> ZendResult<()> {
    let final_class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .property("private ?Pillion\\ToolAwareChat $chat = null");
    let class = methods!(
        with_iteration::<ChatStreamState>(final_class)
            .property("private ?Pillion\\ChatAnswer $answer = null"),
        "private __construct()" => reject_construction,
        "__destruct()" => destruct,
        "getReturn(): Pillion\\ChatAnswer" => get_return,
        "getState(): ?string" => get_state,
    );
    CLASS.register(class)
}

fn reject_construction(_: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "Create a stream with ToolAwareChat::stream()",
    ))
}

/// Creates the `ChatStream` of a chat that has started.
///
/// # Errors
/// [`Failure::Pending`] if PHP cannot create the object.
pub fn new_stream(chat: Object<'_>, run: RunningChat, values: Option<&ChatValues>) -> Outcome {
    let stream = new_with_state(ChatStreamState {
        running_chat: RefCell::new(Some(Rc::new(run))),
        state: RefCell::default(),
        item_index: ItemIndex::default(),
    })?;
    if let Some(object) = Object::from_value(&stream) {
        object.set(CLASS.get(), CHAT_PROPERTY, chat.to_value());
        if let Some(values) = values {
            HiddenValue::for_object::<ChatStreamState>(object)?.set(values.to_value());
        }
    }
    Ok(stream)
}

impl StreamState for ChatStreamState {
    const SHORT_NAME: &'static str = "ChatStream";
    const CURRENT_PROPERTY: &'static str = "private ?Pillion\\ChatEvent $current = null";
    const CURRENT_METHOD: &'static str = "current(): ?Pillion\\ChatEvent";

    fn item_index(&self) -> &ItemIndex {
        &self.item_index
    }

    /// Fails if PHP code that the chat is running (such as a tool) requests the chat's next step,
    /// because the code and the chat would wait for each other forever.
    fn check_can_advance(&self) -> Result<()> {
        let running_chat = self.running_chat.borrow();
        match running_chat.as_deref() {
            Some(RunningChat::Local(local_chat)) if local_chat.is_serving() => Err(Failure::error(
                "A tool or callable that a chat is running cannot read the events of the same chat",
            )),
            _ => Ok(()),
        }
    }

    fn advance(&self, this: Object<'_>) -> Result<()> {
        // The chat is taken out of the stream for the wait, because PHP code that runs during the
        // wait may end the stream.
        let Some(running_chat) = self.running_chat.borrow().clone() else {
            return Ok(());
        };
        let step = next_step(this, &running_chat);
        if !matches!(step, Ok(ChatStep::Event(..))) {
            self.stop();
        }
        let event = match step? {
            ChatStep::Event(kind, data) => chat_event::new_event(&kind, &data)?,
            ChatStep::Done(finished_chat) => {
                self.state.replace(Some(finished_chat.state.clone()));
                let outcome = chat_answer::new(&finished_chat)?;
                this.set(CLASS.get(), OUTCOME_PROPERTY, outcome.shallow_clone());
                chat_event::new_done_event(outcome)?
            }
        };
        set_current::<Self>(this, event);
        Ok(())
    }
}

fn next_step(this: Object<'_>, running_chat: &RunningChat) -> Result<ChatStep> {
    match running_chat {
        RunningChat::Sidecar(sidecar_chat) => sidecar_chat.next(),
        RunningChat::Local(local_chat) => {
            let chat_value = this.get(CLASS.get(), CHAT_PROPERTY)?;
            let chat = Object::from_value(&chat_value).ok_or(Failure::Pending)?;
            let values =
                ChatValues::from_value(&HiddenValue::for_object::<ChatStreamState>(this)?.get());
            tool_aware_chat::next_step(chat, local_chat, &values)
        }
    }
}

impl ChatStreamState {
    /// Ends the run, saves the state from which the chat can be resumed, and returns the chat;
    /// `None` if the run had already ended.
    fn stop(&self) -> Option<Rc<RunningChat>> {
        let running_chat = self.running_chat.take()?;
        let state = match &*running_chat {
            RunningChat::Local(local_chat) => local_chat.end(),
            RunningChat::Sidecar(sidecar_chat) => sidecar_chat.state(),
        };
        let mut saved_state = self.state.borrow_mut();
        *saved_state = state.or_else(|| saved_state.take());
        Some(running_chat)
    }
}

/// Ends the chat if the stream was not read to its end.
fn destruct(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    if let Ok(stream) = read_state::<ChatStreamState>(this) {
        end_run(this, stream)?;
    }
    Ok(Zval::new())
}

/// Ends the chat's run, and dispatches the end events of the run's tool calls.
fn end_run(this: Object<'_>, stream: &ChatStreamState) -> Result<()> {
    let Some(run) = stream.stop() else {
        return Ok(());
    };
    let chat = this.get(CLASS.get(), CHAT_PROPERTY)?;
    if let (RunningChat::Local(local_chat), Some(chat)) = (&*run, Object::from_value(&chat))
        && local_chat.is_of_this_process()
    {
        tool_aware_chat::dispatch_cancelled(chat, local_chat)?;
    }
    Ok(())
}

/// Runs the chat to its end, discards the remaining events, and returns the outcome.
fn get_return(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    loop {
        let outcome = this.get(CLASS.get(), OUTCOME_PROPERTY)?;
        if !outcome.is_null() {
            set_current::<ChatStreamState>(this, Zval::new());
            return Ok(outcome);
        }
        if read_state::<ChatStreamState>(this)?
            .running_chat
            .borrow()
            .is_none()
        {
            return Err(Failure::error("The chat has ended without an answer"));
        }
        advance::<ChatStreamState>(this)?;
    }
}

/// Returns the state from which a later request can resume the chat at the current point. If the
/// chat runs in this process, ends the run, because the run would otherwise continue past the
/// returned state.
fn get_state(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let stream = read_state::<ChatStreamState>(this)?;
    let running_chat = stream.running_chat.borrow().clone();
    let state = match running_chat.as_deref() {
        Some(RunningChat::Sidecar(sidecar_chat)) => sidecar_chat.state(),
        Some(RunningChat::Local(_)) => {
            stream.check_can_advance()?;
            end_run(this, stream)?;
            stream.state.borrow().clone()
        }
        None => stream.state.borrow().clone(),
    };
    Ok(state.map_or_else(Zval::new, new_string))
}
