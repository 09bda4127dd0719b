//! `ChatStream`: a running chat whose events arrive as they happen.

use std::cell::RefCell;
use std::rc::Rc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;

use super::chat_answer;
use super::chat_event;
use super::tool_aware_chat;
use crate::chat::{ChatValues, LocalChat, SidecarChat, Step};
use crate::clients::stream_iterator::{
    ItemIndex, StreamState, advance, set_current, with_iteration,
};
use crate::zend::{
    Class, Failure, HiddenValue, MethodCall, Object, Outcome, State, StateClass, methods,
    new_with_state, state_of, string_of,
};

pub const NAME: &str = "Pillion\\ChatStream";
static CLASS: StateClass<Stream> = StateClass::new();

/// The properties with PHP values that the garbage collector must see, in addition to the current
/// event. The hidden value contains the [`ChatValues`].
const CHAT: &str = "chat";
const OUTCOME: &str = "answer";

/// The state of a `ChatStream`.
struct Stream {
    /// The running chat; `None` after the chat has finished. Dropping the value ends the chat.
    running: RefCell<Option<Rc<Running>>>,
    /// The state that resumes the chat, once the run has ended.
    state: RefCell<Option<String>>,
    position: ItemIndex,
}

/// A running chat, by where its tool loop runs.
pub enum Running {
    Local(LocalChat),
    Sidecar(Box<SidecarChat>),
}

impl State for Stream {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub(super) fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .property("private ?Pillion\\ToolAwareChat $chat = null");
    let class = methods!(
        with_iteration::<Stream>(class).property("private ?Pillion\\ChatAnswer $answer = null"),
        "private __construct()" => no_constructor,
        "__destruct()" => destruct,
        "getReturn(): Pillion\\ChatAnswer" => get_return,
        "getState(): ?string" => get_state,
    );
    CLASS.register(class)
}

fn no_constructor(_: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "Create a stream with ToolAwareChat::stream()",
    ))
}

/// Creates the `ChatStream` of a chat that has started.
///
/// # Errors
/// [`Failure::Pending`] if PHP cannot create the object.
pub fn new_stream(chat: Object<'_>, running: Running, values: Option<&ChatValues>) -> Outcome {
    let stream = new_with_state(Stream {
        running: RefCell::new(Some(Rc::new(running))),
        state: RefCell::default(),
        position: ItemIndex::default(),
    })?;
    if let Some(object) = Object::from_value(&stream) {
        object.set(CLASS.get(), CHAT, chat.to_value());
        if let Some(values) = values {
            HiddenValue::for_object::<Stream>(object)?.set(values.to_value());
        }
    }
    Ok(stream)
}

impl StreamState for Stream {
    const SHORT_NAME: &'static str = "ChatStream";
    const CURRENT_PROPERTY: &'static str = "private ?Pillion\\ChatEvent $current = null";
    const CURRENT_METHOD: &'static str = "current(): ?Pillion\\ChatEvent";

    fn position(&self) -> &ItemIndex {
        &self.position
    }

    /// Fails if PHP code that the chat is waiting for asks for the next step: each would wait for
    /// the other.
    fn may_advance(&self) -> Result<(), Failure> {
        let running = self.running.borrow();
        match running.as_deref() {
            Some(Running::Local(local_chat)) if local_chat.is_serving() => Err(Failure::error(
                "A tool or callable that a chat is running cannot wait for this chat",
            )),
            _ => Ok(()),
        }
    }

    fn advance(&self, this: Object<'_>) -> Result<(), Failure> {
        // The stream may end while PHP code runs during the wait, so the chat is kept here.
        let Some(running) = self.running.borrow().clone() else {
            return Ok(());
        };
        let next = step(this, &running);
        if !matches!(next, Ok(Step::Event(..))) {
            self.stop();
        }
        let event = match next? {
            Step::Event(kind, data) => chat_event::new_event(&kind, &data)?,
            Step::Done(done) => {
                self.state.replace(Some(done.state.clone()));
                let outcome = chat_answer::new(&done)?;
                this.set(CLASS.get(), OUTCOME, outcome.shallow_clone());
                chat_event::done(outcome)?
            }
        };
        set_current::<Self>(this, event);
        Ok(())
    }
}

fn step(this: Object<'_>, running: &Running) -> Result<Step, Failure> {
    match running {
        Running::Sidecar(sidecar_chat) => sidecar_chat.next(),
        Running::Local(local_chat) => {
            let chat = this.get(CLASS.get(), CHAT)?;
            let chat = Object::from_value(&chat).ok_or(Failure::Pending)?;
            let values = ChatValues::from_value(&HiddenValue::for_object::<Stream>(this)?.get());
            tool_aware_chat::step(chat, local_chat, &values)
        }
    }
}

impl Stream {
    /// Ends the run and saves the state that resumes the chat.
    fn stop(&self) -> Option<Rc<Running>> {
        let running = self.running.take()?;
        let state = match &*running {
            Running::Local(local_chat) => local_chat.end(),
            Running::Sidecar(sidecar_chat) => sidecar_chat.state(),
        };
        let mut saved = self.state.borrow_mut();
        *saved = state.or_else(|| saved.take());
        Some(running)
    }
}

/// Ends the chat if the stream was not read to its end.
fn destruct(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    if let Ok(stream) = state_of::<Stream>(this) {
        end(this, stream)?;
    }
    Ok(Zval::new())
}

/// Ends the chat's run, and dispatches the end of the run's calls.
fn end(this: Object<'_>, stream: &Stream) -> Result<(), Failure> {
    let Some(running) = stream.stop() else {
        return Ok(());
    };
    let chat = this.get(CLASS.get(), CHAT)?;
    if let (Running::Local(local_chat), Some(chat)) = (&*running, Object::from_value(&chat))
        && local_chat.is_ours()
    {
        tool_aware_chat::dispatch_cancelled(chat, local_chat)?;
    }
    Ok(())
}

/// Runs the chat to its end, discards the remaining events, and returns the outcome.
fn get_return(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    loop {
        let outcome = this.get(CLASS.get(), OUTCOME)?;
        if !outcome.is_null() {
            set_current::<Stream>(this, Zval::new());
            return Ok(outcome);
        }
        if state_of::<Stream>(this)?.running.borrow().is_none() {
            return Err(Failure::error("The chat has ended without an answer"));
        }
        advance::<Stream>(this)?;
    }
}

/// Returns the state that resumes the chat from the current point. Ends a run in this process,
/// because it would otherwise continue past this state.
fn get_state(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let stream = state_of::<Stream>(this)?;
    let running = stream.running.borrow().clone();
    let state = match running.as_deref() {
        Some(Running::Sidecar(sidecar_chat)) => sidecar_chat.state(),
        Some(Running::Local(_)) => {
            stream.may_advance()?;
            end(this, stream)?;
            stream.state.borrow().clone()
        }
        None => stream.state.borrow().clone(),
    };
    Ok(state.map_or_else(Zval::new, string_of))
}
