//! The methods `callTool`, `callTools` and `streamTool` of the class `McpClient`.

mod call_events;
mod call_tools;
mod results;
mod spec;

use std::time::Duration;

use super::link_and_hooks;
use super::options::CallOptions;
use crate::clients::tool_stream;
use crate::mcp::read_arguments;
use crate::zend::{Class, MethodCall, Outcome, Result, methods};

use call_events::dispatch_start;
pub use call_events::{dispatch_end, dispatch_failure, with_call_events};
use call_tools::call_tools;
pub use results::{is_error, result_of_call};
pub use spec::{CallOutcome, ToolCallSpec, call_with_cancellation, new_id};

pub(super) fn add_methods(class: Class) -> Class {
    methods!(
        class,
        "callTool(string $name, array $arguments = [], array $options = []): Pillion\\ToolResult"
            => call_tool,
        "callTools(array $calls, array $options = []): array" => call_tools,
        "streamTool(string $name, array $arguments = [], \
         array $options = []): Pillion\\ToolStream" => stream_tool,
    )
}

fn call_tool(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let supported_options = ["timeout", "on_progress", "cancellation", "meta", "id"];
    let options = CallOptions::from_argument(call, 2, &supported_options)?;
    let spec = read_spec(call, &options)?;
    let (ids, name) = ([spec.id.clone()], spec.name.clone());
    let progress_receiver = options.progress_receiver(&ids);
    with_call_events(link, hooks, (&ids[0], &name), || {
        let outcome = link.run(
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
        match outcome {
            Ok(call_result) => result_of_call(&ids[0], &name, &call_result),
            Err(error) => Err(error.into_failure(link, hooks)?),
        }
    })
}

fn stream_tool(call: &mut MethodCall<'_>) -> Outcome {
    let (link, hooks) = link_and_hooks(call)?;
    let supported_options = ["timeout", "cancellation", "meta", "id"];
    let options = CallOptions::from_argument(call, 2, &supported_options)?;
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

fn read_spec(call: &MethodCall<'_>, options: &CallOptions) -> Result<ToolCallSpec> {
    Ok(ToolCallSpec {
        id: options.id.clone().unwrap_or_else(new_id),
        name: call.string(0)?.to_owned(),
        arguments: read_arguments(call, 1)?,
    })
}
