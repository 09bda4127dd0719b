//! `ChatStream`: a chat that goes on, with what happens as it comes (requirement H6).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::{ClassFlags, PropertyFlags};
use ext_php_rs::types::Zval;

use super::chat_answer::{NAME as ANSWER, new_answer};
use super::chat_event::{self, NAME as EVENT};
use super::tool_aware_chat;
use crate::chat::{Company, Here, Step, There};
use crate::zend::{
    Call, Class, Failure, Hidden, Method, Object, Outcome, Property, State, StateClass, Type,
    bool_of, int_of, iterator, new_with_state, state_of, string_of,
};

pub const NAME: &str = "Pillion\\ChatStream";
static CLASS: StateClass<Stream> = StateClass::new();

/// The properties that PHP's garbage collector has to see. The [`Company`] is the hidden value.
const CHAT: &str = "chat";
const CURRENT: &str = "current";
const ANSWERED: &str = "answer";

/// A chat under way.
struct Stream {
    /// None once it has ended. Dropping it ends the chat.
    running: RefCell<Option<Rc<Running>>>,
    /// What it takes to go on, once it has ended.
    state: RefCell<Option<String>>,
    /// Which event is the current one, from 0; none before the first was asked for.
    position: Cell<Option<i64>>,
}

/// Where its loop runs.
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
    let event = Type::class(EVENT).nullable();
    let class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .implements(iterator())
        .property(private(CHAT, Type::class(tool_aware_chat::NAME).nullable()))
        .property(private(CURRENT, event))
        .property(private(ANSWERED, Type::class(ANSWER).nullable()))
        .method(Method::new("__construct", no_constructor).make_private())
        .method(Method::new("__destruct", destruct))
        .method(Method::new("current", current).returns(event))
        .method(Method::new("key", key).returns(Type::INT))
        .method(Method::new("next", next).returns(Type::VOID))
        .method(Method::new("rewind", rewind).returns(Type::VOID))
        .method(Method::new("valid", valid).returns(Type::BOOL))
        .method(Method::new("getReturn", get_return).returns(Type::class(ANSWER)))
        .method(Method::new("getState", get_state).returns(Type::STRING.nullable()));
    CLASS.register(class)
}

fn no_constructor(_: &mut Call<'_>) -> Outcome {
    Err(Failure::error("Streams come from ToolAwareChat::stream()"))
}

/// The stream of a chat that goes on from now on.
///
/// # Errors
/// [`Failure::Pending`] when the engine cannot make the object.
pub fn new_stream(chat: Object<'_>, running: Running, company: Option<&Company>) -> Outcome {
    let stream = new_with_state(Stream {
        running: RefCell::new(Some(Rc::new(running))),
        state: RefCell::default(),
        position: Cell::new(None),
    })?;
    if let Some(object) = Object::of(&stream) {
        object.set(CLASS.get(), CHAT, chat.to_value());
        if let Some(company) = company {
            Hidden::of::<Stream>(object)?.set(company.to_value());
        }
    }
    Ok(stream)
}

/// Waits for the next event, or for the end.
fn advance(this: Object<'_>) -> Result<(), Failure> {
    let stream = state_of::<Stream>(this)?;
    stream.refuse_what_it_waits_for()?;
    this.set(CLASS.get(), CURRENT, Zval::new());
    let next = stream.position.get().map_or(0, |position| position + 1);
    stream.position.set(Some(next));
    // PHP code that runs meanwhile may end the stream.
    let Some(running) = stream.running.borrow().clone() else {
        return Ok(());
    };
    let step = step(this, &running);
    if !matches!(step, Ok(Step::Said(..))) {
        stream.leave();
    }
    let event = match step? {
        Step::Said(kind, data) => chat_event::new_event(&kind, &data)?,
        Step::Done(done) => {
            stream.state.replace(Some(done.state.clone()));
            let answer = new_answer(&done)?;
            this.set(CLASS.get(), ANSWERED, answer.shallow_clone());
            chat_event::done(answer)?
        }
    };
    this.set(CLASS.get(), CURRENT, event);
    Ok(())
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
    /// PHP code that it waits for cannot wait for it.
    fn refuse_what_it_waits_for(&self) -> Result<(), Failure> {
        let running = self.running.borrow();
        match running.as_deref() {
            Some(Running::Here(here)) if here.is_serving() => Err(Failure::error(
                "A chat cannot be waited for by a tool or a callable that it waits for itself",
            )),
            _ => Ok(()),
        }
    }

    /// Gives the run up; what it takes to go on stays.
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

/// A stream that is dropped half way ends its chat.
fn destruct(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    if let Ok(stream) = state_of::<Stream>(this) {
        end(this, stream)?;
    }
    Ok(Zval::new())
}

/// Gives the run up, and tells so.
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

fn begin(this: Object<'_>) -> Result<(), Failure> {
    if state_of::<Stream>(this)?.position.get().is_none() {
        advance(this)?;
    }
    Ok(())
}

fn current(call: &mut Call<'_>) -> Outcome {
    begin(call.this())?;
    call.this().get(CLASS.get(), CURRENT)
}

fn key(call: &mut Call<'_>) -> Outcome {
    begin(call.this())?;
    let stream = state_of::<Stream>(call.this())?;
    Ok(int_of(stream.position.get().unwrap_or_default()))
}

fn next(call: &mut Call<'_>) -> Outcome {
    begin(call.this())?;
    advance(call.this())?;
    Ok(Zval::new())
}

/// What has been told is not kept: there is no way back, as in a generator.
fn rewind(call: &mut Call<'_>) -> Outcome {
    let stream = state_of::<Stream>(call.this())?;
    if stream.position.get().is_some_and(|position| position > 0) {
        return Err(Failure::error("A ChatStream cannot be rewound"));
    }
    begin(call.this())?;
    Ok(Zval::new())
}

fn valid(call: &mut Call<'_>) -> Outcome {
    begin(call.this())?;
    let current = call.this().get(CLASS.get(), CURRENT)?;
    Ok(bool_of(!current.is_null()))
}

/// Runs the chat to its end; events that come meanwhile are dropped.
fn get_return(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    loop {
        let answer = this.get(CLASS.get(), ANSWERED)?;
        if !answer.is_null() {
            this.set(CLASS.get(), CURRENT, Zval::new());
            return Ok(answer);
        }
        if state_of::<Stream>(this)?.running.borrow().is_none() {
            return Err(Failure::error("The chat has ended without an answer"));
        }
        advance(this)?;
    }
}

/// What it takes to go on, as far as the chat has come. A run in this process ends: it would go on
/// past its state.
fn get_state(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let stream = state_of::<Stream>(this)?;
    let running = stream.running.borrow().clone();
    let state = match running.as_deref() {
        Some(Running::There(there)) => there.state(),
        Some(Running::Here(_)) => {
            stream.refuse_what_it_waits_for()?;
            end(this, stream)?;
            stream.state.borrow().clone()
        }
        None => stream.state.borrow().clone(),
    };
    Ok(state.map_or_else(Zval::new, string_of))
}
