//! `ToolStream`: a running tool call whose progress PHP code reads.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::Zval;
use pillion_core::tool::ErrorCode;
use pillion_mcp_client::RequestOptions;

use super::cancellation_token::Cancellation;
use super::mcp_client;
use super::mcp_client::{
    CallOutcome, ToolCallSpec, call_with_cancellation, dispatch_end, dispatch_failure,
    result_of_call,
};
use super::stream_iterator::{ItemIndex, StreamState, advance, set_current, with_iteration};
use crate::mcp::hooks::Hooks;
use crate::mcp::{CallHandle, McpConnection, ServerJob, ServerLink};
use crate::runtime::Bound;
use crate::values::progress::new_progress;
use crate::wait::{Event, WorkHandle};
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, State, StateClass, methods, new_with_state,
    state_of,
};

pub const NAME: &str = "Pillion\\ToolStream";
static CLASS: StateClass<Stream> = StateClass::new();

/// The properties with PHP values that the garbage collector must see, in addition to the current
/// progress report.
const CLIENT: &str = "client";
const RESULT: &str = "result";

/// The state of a `ToolStream`.
struct Stream {
    id: String,
    tool: String,
    connection: Bound<Arc<McpConnection>>,
    /// The running call; `None` after the call has finished. Dropping the value cancels the call.
    running: RefCell<Option<Rc<Running>>>,
    started: Instant,
    /// Whether the end of the call has been dispatched.
    has_dispatched_end: Cell<bool>,
    position: ItemIndex,
}

struct Running {
    work: WorkHandle<CallOutcome, ServerJob>,
    handle: Bound<CallHandle>,
}

impl State for Stream {
    fn class() -> &'static StateClass<Self> {
        &CLASS
    }
}

pub fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .property("private ?Pillion\\McpClient $client = null");
    let class = methods!(
        with_iteration::<Stream>(class).property("private ?Pillion\\ToolResult $result = null"),
        "private __construct()" => no_constructor,
        "__destruct()" => destruct,
        "getResult(): Pillion\\ToolResult" => get_result,
    );
    CLASS.register(class)
}

fn no_constructor(_: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "Create a stream with McpClient::streamTool()",
    ))
}

/// Starts a tool call, which continues while PHP does other work.
///
/// # Errors
/// A failure of [`ServerLink::connection`] or [`ServerLink::connect_for_authorization`].
pub fn start(
    client: Object<'_>,
    link: &ServerLink,
    hooks: Hooks<'_>,
    spec: ToolCallSpec,
    mut options: RequestOptions,
    cancellation: Cancellation,
) -> Outcome {
    let connection = link.connection(hooks)?;
    link.connect_for_authorization(hooks, &connection)?;
    let (id, tool) = (spec.id.clone(), spec.name.clone());
    let opened = OnceCell::new();
    let work = WorkHandle::start(|jobs| {
        let handle = link.open_call(&connection, jobs);
        options.on_progress = Some(handle.progress_callback(0));
        let call = call_with_cancellation(connection.client().clone(), spec, options, cancellation);
        let call = handle.run(call);
        let _ = opened.set(Bound::new(handle));
        call
    })?;
    let running = opened
        .into_inner()
        .map(|handle| Rc::new(Running { work, handle }));
    let stream = new_with_state(Stream {
        id,
        tool,
        connection: Bound::new(connection),
        running: RefCell::new(running),
        started: Instant::now(),
        has_dispatched_end: Cell::new(false),
        position: ItemIndex::default(),
    })?;
    if let Some(object) = Object::from_value(&stream) {
        object.set(CLASS.get(), CLIENT, client.to_value());
    }
    Ok(stream)
}

impl StreamState for Stream {
    const SHORT_NAME: &'static str = "ToolStream";
    const CURRENT_PROPERTY: &'static str = "private ?Pillion\\Progress $current = null";
    const CURRENT_METHOD: &'static str = "current(): ?Pillion\\Progress";

    fn position(&self) -> &ItemIndex {
        &self.position
    }

    fn advance(&self, this: Object<'_>) -> Result<(), Failure> {
        let client = this.get(CLASS.get(), CLIENT)?;
        let Some(client) = Object::from_value(&client) else {
            return Ok(());
        };
        let (link, hooks) = mcp_client::parts_of(client)?;
        run_until_event(this, self, link, hooks).map_err(|failure| {
            self.running.replace(None);
            fail(self, link, hooks, failure)
        })
    }
}

fn run_until_event(
    this: Object<'_>,
    stream: &Stream,
    link: &ServerLink,
    hooks: Hooks<'_>,
) -> Result<(), Failure> {
    loop {
        // The stream may end while PHP code runs during the wait, so the call is kept here.
        let Some(running) = stream.running.borrow().clone() else {
            return Ok(());
        };
        let handle = &running.handle;
        let _wait = handle.get().map(CallHandle::begin_wait);
        let event = running.work.next()?;
        let Some(connection) = stream.connection.get() else {
            return Ok(());
        };
        match event {
            Event::Job(ServerJob::Progress { progress, .. }) => {
                set_current::<Stream>(this, new_progress(&progress)?);
                return Ok(());
            }
            Event::Job(job) => link.serve(hooks, connection, handle, None, job)?,
            Event::Done(finished) => {
                stream.running.replace(None);
                link.deliver_after_call(hooks, connection)?;
                let called = match finished {
                    Ok(called) => called,
                    Err(error) => return Err(error.into_failure(link, hooks)?),
                };
                let (result, code) = result_of_call(&stream.id, &stream.tool, &called)?;
                this.set(CLASS.get(), RESULT, result);
                return end(stream, link, hooks, code);
            }
        }
    }
}

/// Dispatches the end of a call, unless its end has been dispatched already.
fn end(
    stream: &Stream,
    link: &ServerLink,
    hooks: Hooks<'_>,
    error_code: Option<&str>,
) -> Result<(), Failure> {
    if stream.has_dispatched_end.replace(true) {
        return Ok(());
    }
    let call = (stream.id.as_str(), stream.tool.as_str());
    dispatch_end(link, hooks, call, error_code, stream.started.elapsed())
}

/// Dispatches the end of a failed call, unless its end has been dispatched already.
fn fail(stream: &Stream, link: &ServerLink, hooks: Hooks<'_>, failure: Failure) -> Failure {
    // A forked child must not end its parent's calls.
    if stream.connection.get().is_none() || stream.has_dispatched_end.replace(true) {
        return failure;
    }
    let call = (stream.id.as_str(), stream.tool.as_str());
    dispatch_failure(link, hooks, call, failure, stream.started.elapsed())
}

/// Cancels the call if the stream was not read to its end.
fn destruct(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let Ok(stream) = state_of::<Stream>(this) else {
        return Ok(Zval::new());
    };
    stream.running.replace(None);
    if stream.connection.get().is_none() {
        return Ok(Zval::new());
    }
    let client = this.get(CLASS.get(), CLIENT)?;
    if let Some(client) = Object::from_value(&client) {
        let (link, hooks) = mcp_client::parts_of(client)?;
        end(stream, link, hooks, Some(ErrorCode::Cancelled.as_str()))?;
    }
    Ok(Zval::new())
}

/// Runs the call to its end, discards the remaining progress reports, and returns the result.
fn get_result(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    loop {
        let result = this.get(CLASS.get(), RESULT)?;
        if !result.is_null() {
            return Ok(result);
        }
        if state_of::<Stream>(this)?.running.borrow().is_none() {
            return Err(Failure::error("The call has ended without a result"));
        }
        advance::<Stream>(this)?;
    }
}
