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
use crate::runtime::ProcessBound;
use crate::values::progress::new_progress;
use crate::wait::{WorkEvent, WorkHandle};
use crate::zend::{
    Class, Failure, MethodCall, Object, Outcome, Result, State, StateClass, methods,
    new_with_state, read_state,
};

pub const NAME: &str = "Pillion\\ToolStream";
static CLASS: StateClass<ToolStreamState> = StateClass::new();

/// The property with the `McpClient` that created the stream. A property holds the object, because
/// the garbage collector traverses properties but not the Rust state.
const CLIENT_PROPERTY: &str = "client";
/// The property with the call's `ToolResult`; null until PHP has received the result.
const RESULT_PROPERTY: &str = "result";

/// The state of a `ToolStream`.
struct ToolStreamState {
    id: String,
    tool: String,
    connection: ProcessBound<Arc<McpConnection>>,
    /// The running call; `None` after the call has finished. Dropping the value cancels the call.
    running_call: RefCell<Option<Rc<RunningCall>>>,
    started_at: Instant,
    /// Whether the end event of the call has been dispatched.
    has_dispatched_end: Cell<bool>,
    item_index: ItemIndex,
}

struct RunningCall {
    work: WorkHandle<CallOutcome, ServerJob>,
    handle: ProcessBound<CallHandle>,
}

impl State for ToolStreamState {
    const CLASS: &'static StateClass<Self> = &CLASS;
}

pub fn register() -> ZendResult<()> {
    let final_class = Class::new(NAME)
        .flags(ClassFlags::Final)
        .property("private ?Pillion\\McpClient $client = null");
    let class = methods!(
        with_iteration::<ToolStreamState>(final_class)
            .property("private ?Pillion\\ToolResult $result = null"),
        "private __construct()" => reject_construction,
        "__destruct()" => destruct,
        "getResult(): Pillion\\ToolResult" => get_result,
    );
    CLASS.register(class)
}

fn reject_construction(_: &mut MethodCall<'_>) -> Outcome {
    Err(Failure::error(
        "Create a stream with McpClient::streamTool()",
    ))
}

/// Starts a tool call, which continues to run while PHP does other work.
///
/// # Errors
/// A failure to create the connection, an exception of the token store, or an exception of PHP code
/// that runs while the user grants an authorization.
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
    let opened_handle = OnceCell::new();
    let work = WorkHandle::start(|job_sender| {
        let handle = link.open_call(&connection, job_sender);
        options.on_progress = Some(handle.progress_callback(0));
        let call = call_with_cancellation(connection.client().clone(), spec, options, cancellation);
        let cancellable_call = handle.run(call);
        let _ = opened_handle.set(ProcessBound::new(handle));
        cancellable_call
    })?;
    let running_call = opened_handle
        .into_inner()
        .map(|handle| Rc::new(RunningCall { work, handle }));
    let stream = new_with_state(ToolStreamState {
        id,
        tool,
        connection: ProcessBound::new(connection),
        running_call: RefCell::new(running_call),
        started_at: Instant::now(),
        has_dispatched_end: Cell::new(false),
        item_index: ItemIndex::default(),
    })?;
    if let Some(object) = Object::from_value(&stream) {
        object.set(CLASS.get(), CLIENT_PROPERTY, client.to_value());
    }
    Ok(stream)
}

impl StreamState for ToolStreamState {
    const SHORT_NAME: &'static str = "ToolStream";
    const CURRENT_PROPERTY: &'static str = "private ?Pillion\\Progress $current = null";
    const CURRENT_METHOD: &'static str = "current(): ?Pillion\\Progress";

    fn item_index(&self) -> &ItemIndex {
        &self.item_index
    }

    fn advance(&self, this: Object<'_>) -> Result<()> {
        let client_value = this.get(CLASS.get(), CLIENT_PROPERTY)?;
        let Some(client) = Object::from_value(&client_value) else {
            return Ok(());
        };
        let (link, hooks) = mcp_client::read_link_and_hooks(client)?;
        run_until_event(this, self, link, hooks).map_err(|failure| {
            self.running_call.replace(None);
            dispatch_failure_once(self, link, hooks, failure)
        })
    }
}

fn run_until_event(
    this: Object<'_>,
    stream: &ToolStreamState,
    link: &ServerLink,
    hooks: Hooks<'_>,
) -> Result<()> {
    loop {
        // The call is taken out of the stream for the wait, because PHP code that runs during the
        // wait may end the stream.
        let Some(running_call) = stream.running_call.borrow().clone() else {
            return Ok(());
        };
        let handle = &running_call.handle;
        let _wait_guard = handle.get().map(CallHandle::begin_wait);
        let event = running_call.work.next()?;
        let Some(connection) = stream.connection.get() else {
            return Ok(());
        };
        match event {
            WorkEvent::Job(ServerJob::Progress { progress, .. }) => {
                set_current::<ToolStreamState>(this, new_progress(&progress)?);
                return Ok(());
            }
            WorkEvent::Job(job) => link.serve(hooks, connection, handle, None, job)?,
            WorkEvent::Done(outcome) => {
                stream.running_call.replace(None);
                link.deliver_after_call(hooks, connection)?;
                let call_result = match outcome {
                    Ok(call_result) => call_result,
                    Err(error) => return Err(error.into_failure(link, hooks)?),
                };
                let (result, code) = result_of_call(&stream.id, &stream.tool, &call_result)?;
                this.set(CLASS.get(), RESULT_PROPERTY, result);
                return dispatch_end_once(stream, link, hooks, code);
            }
        }
    }
}

/// Dispatches the end event of a call, unless the event has been dispatched already.
fn dispatch_end_once(
    stream: &ToolStreamState,
    link: &ServerLink,
    hooks: Hooks<'_>,
    error_code: Option<&str>,
) -> Result<()> {
    if stream.has_dispatched_end.replace(true) {
        return Ok(());
    }
    let call = (stream.id.as_str(), stream.tool.as_str());
    dispatch_end(link, hooks, call, error_code, stream.started_at.elapsed())
}

/// Dispatches the end event of a failed call, unless the event has been dispatched already.
fn dispatch_failure_once(
    stream: &ToolStreamState,
    link: &ServerLink,
    hooks: Hooks<'_>,
    failure: Failure,
) -> Failure {
    // A call of the parent process is ignored, because a forked child must not end its parent's
    // calls.
    if stream.connection.get().is_none() || stream.has_dispatched_end.replace(true) {
        return failure;
    }
    let call = (stream.id.as_str(), stream.tool.as_str());
    dispatch_failure(link, hooks, call, failure, stream.started_at.elapsed())
}

/// Cancels the call if the stream was not read to its end.
fn destruct(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let Ok(stream) = read_state::<ToolStreamState>(this) else {
        return Ok(Zval::new());
    };
    stream.running_call.replace(None);
    if stream.connection.get().is_none() {
        return Ok(Zval::new());
    }
    let client = this.get(CLASS.get(), CLIENT_PROPERTY)?;
    if let Some(client) = Object::from_value(&client) {
        let (link, hooks) = mcp_client::read_link_and_hooks(client)?;
        dispatch_end_once(stream, link, hooks, Some(ErrorCode::Cancelled.as_str()))?;
    }
    Ok(Zval::new())
}

/// Runs the call to its end, discards the remaining progress reports, and returns the result.
fn get_result(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    loop {
        let result = this.get(CLASS.get(), RESULT_PROPERTY)?;
        if !result.is_null() {
            return Ok(result);
        }
        if read_state::<ToolStreamState>(this)?
            .running_call
            .borrow()
            .is_none()
        {
            return Err(Failure::error("The tool call has ended without a result"));
        }
        advance::<ToolStreamState>(this)?;
    }
}
