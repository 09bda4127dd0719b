//! `callTool`, `callTools` and `streamTool`.

mod call_events;
mod results;
mod several;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillion_core::tool::ErrorCode;
use pillion_mcp_client::{McpClient, McpError, RequestOptions, ToolCallResult};
use serde_json::value::RawValue;

use super::options::CallOptions;
use super::parts;
use crate::classes::cancellation_token::Cancellation;
use crate::classes::tool_result::NAME as TOOL_RESULT;
use crate::classes::tool_stream;
use crate::exception;
use crate::mcp::hooks::Hooks;
use crate::mcp::{ProgressReceiver, ServerLink, arguments};
use crate::zend::{Class, Failure, Method, MethodCall, Outcome, Parameter, Type};

use call_events::dispatch_start;
pub use call_events::{dispatch_end, dispatch_failure, with_call_events};
pub use results::{is_error, result_of_call};
use several::call_tools;

/// Adds the methods.
pub(super) fn methods(class: Class) -> Class {
    let options = Parameter::optional("options", Type::ARRAY, "[]");
    let of_one = [
        Parameter::required("name", Type::STRING),
        Parameter::optional("arguments", Type::ARRAY, "[]"),
        options,
    ];
    class
        .method(
            Method::new("callTool", call_tool)
                .parameters(&of_one)
                .returns(Type::class(TOOL_RESULT)),
        )
        .method(
            Method::new("callTools", call_tools)
                .parameters(&[Parameter::required("calls", Type::ARRAY), options])
                .returns(Type::ARRAY),
        )
        .method(
            Method::new("streamTool", stream_tool)
                .parameters(&of_one)
                .returns(Type::class(tool_stream::NAME)),
        )
}

/// One tool call.
pub struct ToolCallSpec {
    /// The ID of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: Box<RawValue>,
}

/// The outcome of a call.
pub type CallOutcome = Result<ToolCallResult, CallError>;

/// The reason why a call has no result.
#[derive(Debug)]
pub enum CallError {
    /// A failure reported by the engine.
    Mcp(McpError),
    /// The token was cancelled, with this reason.
    Cancelled(String),
    /// The arguments are not a JSON object.
    Arguments(String),
}

impl CallError {
    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Mcp(error) => pillion_mcp_tools::error_code(error.class()),
            Self::Cancelled(_) => ErrorCode::Cancelled,
            Self::Arguments(_) => ErrorCode::InvalidInput,
        }
    }

    /// Returns the exception.
    ///
    /// # Errors
    /// Same as [`ServerLink::failure`].
    pub fn into_failure(self, link: &ServerLink, hooks: Hooks<'_>) -> Result<Failure, Failure> {
        match &self {
            Self::Mcp(error) => link.failure(hooks, error),
            other => Ok(exception::of_code(other.code(), other.to_string())),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mcp(error) => error.fmt(f),
            Self::Cancelled(reason) if reason.is_empty() => f.write_str("The call was cancelled"),
            Self::Cancelled(reason) => write!(f, "The call was cancelled: {reason}"),
            Self::Arguments(why) => f.write_str(why),
        }
    }
}

/// Calls a tool and waits for the result. Cancellation notifies the server.
pub async fn call_with_cancellation(
    client: McpClient,
    spec: ToolCallSpec,
    options: RequestOptions,
    cancellation: Cancellation,
) -> CallOutcome {
    let called = client.call_tool_with(&spec.name, &spec.arguments, &options);
    tokio::select! {
        biased;
        reason = cancellation.cancelled() => Err(CallError::Cancelled(reason)),
        called = called => called.map_err(CallError::Mcp),
    }
}

fn call_tool(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let allowed = ["timeout", "on_progress", "cancellation", "meta", "id"];
    let options = CallOptions::of_argument(call, 2, &allowed)?;
    let spec = read_spec(call, &options)?;
    let (ids, name) = ([spec.id.clone()], spec.name.clone());
    let progress_receiver = options
        .on_progress
        .as_ref()
        .map(|callable| ProgressReceiver {
            callable,
            ids: &ids,
        });
    with_call_events(link, hooks, (&ids[0], &name), || {
        let finished = link.run(
            hooks,
            "tools/call",
            progress_receiver.as_ref(),
            |client, handle| {
                let mut request = options.request.clone();
                request.on_progress = progress_receiver
                    .as_ref()
                    .map(|_| handle.progress_callback(0));
                call_with_cancellation(client, spec, request, options.cancellation.clone())
            },
        )?;
        match finished {
            Ok(called) => result_of_call(&ids[0], &name, &called),
            Err(error) => Err(error.into_failure(link, hooks)?),
        }
    })
}

fn stream_tool(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = parts(call)?;
    let allowed = ["timeout", "cancellation", "meta", "id"];
    let options = CallOptions::of_argument(call, 2, &allowed)?;
    let spec = read_spec(call, &options)?;
    let (id, name) = (spec.id.clone(), spec.name.clone());
    dispatch_start(link, hooks, (&id, &name))
        .and_then(|()| {
            let CallOptions {
                request,
                cancellation,
                ..
            } = options;
            tool_stream::start(call.this(), link, hooks, spec, request, cancellation)
        })
        .map_err(|failure| dispatch_failure(link, hooks, (&id, &name), failure, Duration::ZERO))
}

fn read_spec(call: &MethodCall<'_>, options: &CallOptions) -> Result<ToolCallSpec, Failure> {
    Ok(ToolCallSpec {
        id: options.id.clone().unwrap_or_else(new_id),
        name: call.string(0)?.to_owned(),
        arguments: arguments(call, 1)?,
    })
}

/// Returns an ID that is unique in this process and most likely unique across processes.
pub fn new_id() -> String {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_millis());
    let (process, count) = (std::process::id(), NEXT_ID.fetch_add(1, Ordering::Relaxed));
    format!("call_{now:x}_{process:x}_{count:x}")
}
