//! `ChatStream`: a running chat whose events arrive as they happen.

use std::cell::RefCell;
use std::rc::Rc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::{ClassFlags, PropertyFlags};
use ext_php_rs::types::Zval;

use super::chat_answer::{NAME as ANSWER, new_answer};
use super::chat_event::{self, NAME as EVENT};
use super::stream_iterator::{Position, StreamState, advance, set_current, with_iteration};
use super::tool_aware_chat;
use crate::chat::{Company, Here, Step, There};
use crate::zend::{
    Call, Class, Failure, Hidden, Method, Object, Outcome, Property, State, StateClass, Type,
    new_with_state, state_of, string_of,
};

pub const NAME: &str = "Pillion\\ChatStream";
static CLASS: StateClass<Stream> = StateClass::new();

/// The properties that PHP's garbage collector must see, in addition to the current event. The
/// hidden value is the [`Company`].
const CHAT: &str = "chat";
const ANSWERED: &str = "answer";

/// The state of a `ChatStream`.
struct Stream {
    /// `None` after the chat has finished. Dropping the value ends the chat.
    running: RefCell<Option<Rc<Running>>>,
    /// The state that resumes the chat, once the run has ended.
    state: RefCell<Option<String>>,
    position: Position,
}

/// Where the tool loop runs.
pub enum Running {
    Here(Here),
    There(Box<There>),
}

impl State for Stream {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub(super) fn register() -> ZendResult<()> {
    let private = |name, kind| Property::new(PropertyFlags::Private, name, kind, Zval::new());
    let class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .property(private(CHAT, Type::class(tool_aware_chat::NAME).nullable()));
    let class = with_iteration::<Stream>(class, Type::class(EVENT).nullable())
        .property(private(ANSWERED, Type::class(ANSWER).nullable()))
        .method(Method::new("__construct", no_constructor).make_private())
        .method(Method::new("__destruct", destruct))
        .method(Method::new("getReturn", get_return).returns(Type::class(ANSWER)))
        .method(Method::new("getState", get_state).returns(Type::STRING.nullable()));
    CLASS.register(class)
}

fn no_constructor(_: &mut Call<'_>) -> Outcome {
    Err(Failure::error("Streams come from ToolAwareChat::stream()"))
}

/// Creates the stream of a started chat.
///
/// # Errors
/// [`Failure::Pending`] if PHP cannot create the object.
pub fn new_stream(chat: Object<'_>, running: Running, company: Option<&Company>) -> Outcome {
    let stream = new_with_state(Stream {
        running: RefCell::new(Some(Rc::new(running))),
        state: RefCell::default(),
        position: Position::default(),
    })?;
    if let Some(object) = Object::of(&stream) {
        object.set(CLASS.get(), CHAT, chat.to_value());
        if let Some(company) = company {
            Hidden::of::<Stream>(object)?.set(company.to_value());
        }
    }
    Ok(stream)
}

impl StreamState for Stream {
    const SHORT_NAME: &'static str = "ChatStream";

    fn position(&self) -> &Position {
        &self.position
    }

    /// PHP code that the chat waits for must not wait for the chat.
    fn may_advance(&self) -> Result<(), Failure> {
        let running = self.running.borrow();
        match running.as_deref() {
            Some(Running::Here(here)) if here.is_serving() => Err(Failure::error(
                "A chat cannot be waited for by a tool or a callable that it waits for itself",
            )),
            _ => Ok(()),
        }
    }

    fn advance(&self, this: Object<'_>) -> Result<(), Failure> {
        // PHP code that runs during the wait may end the stream.
        let Some(running) = self.running.borrow().clone() else {
            return Ok(());
        };
        let step = step(this, &running);
        if !matches!(step, Ok(Step::Said(..))) {
            self.leave();
        }
        let event = match step? {
            Step::Said(kind, data) => chat_event::new_event(&kind, &data)?,
            Step::Done(done) => {
                self.state.replace(Some(done.state.clone()));
                let answer = new_answer(&done)?;
                this.set(CLASS.get(), ANSWERED, answer.shallow_clone());
                chat_event::done(answer)?
            }
        };
        set_current::<Self>(this, event);
        Ok(())
    }
}

fn step(this: Object<'_>, running: &Running) -> Result<Step, Failure> {
    match running {
        Running::There(there) => there.next(),
        Running::Here(here) => {
            let chat = this.get(CLASS.get(), CHAT)?;
            let chat = Object::of(&chat).ok_or(Failure::Pending)?;
            let company = Company::of(&Hidden::of::<Stream>(this)?.get());
            tool_aware_chat::step(chat, here, &company)
        }
    }
}

impl Stream {
    /// Ends the run and keeps the state that resumes the chat.
    fn leave(&self) -> Option<Rc<Running>> {
        let running = self.running.take()?;
        let state = match &*running {
            Running::Here(here) => here.end(),
            Running::There(there) => there.state(),
        };
        let mut kept = self.state.borrow_mut();
        *kept = state.or_else(|| kept.take());
        Some(running)
    }
}

/// Ends the chat of an unfinished stream.
fn destruct(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    if let Ok(stream) = state_of::<Stream>(this) {
        end(this, stream)?;
    }
    Ok(Zval::new())
}

/// Ends the run and dispatches the end of its calls.
fn end(this: Object<'_>, stream: &Stream) -> Result<(), Failure> {
    let Some(running) = stream.leave() else {
        return Ok(());
    };
    let chat = this.get(CLASS.get(), CHAT)?;
    if let (Running::Here(here), Some(chat)) = (&*running, Object::of(&chat))
        && here.is_ours()
    {
        tool_aware_chat::tell_end(chat, here)?;
    }
    Ok(())
}

/// Runs the chat to its end and discards further events.
fn get_return(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    loop {
        let answer = this.get(CLASS.get(), ANSWERED)?;
        if !answer.is_null() {
            set_current::<Stream>(this, Zval::new());
            return Ok(answer);
        }
        if state_of::<Stream>(this)?.running.borrow().is_none() {
            return Err(Failure::error("The chat has ended without an answer"));
        }
        advance::<Stream>(this)?;
    }
}

/// Returns the state that resumes the chat from the current point. Ends a run in this process,
/// which would otherwise continue past this state.
fn get_state(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let stream = state_of::<Stream>(this)?;
    let running = stream.running.borrow().clone();
    let state = match running.as_deref() {
        Some(Running::There(there)) => there.state(),
        Some(Running::Here(_)) => {
            stream.may_advance()?;
            end(this, stream)?;
            stream.state.borrow().clone()
        }
        None => stream.state.borrow().clone(),
    };
    Ok(state.map_or_else(Zval::new, string_of))
}
