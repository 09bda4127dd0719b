//! Runs a tool from its page, or saves the call.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pillion_core::executor::{Executor, ResolvedCall};
use pillion_core::registry::RegisteredTool;
use pillion_core::store::CallId;
use pillion_core::tool::{CallContext, JsonObject, ToolCall, ToolResult};
use pillion_gateway::access::{MAX_USER_BYTES, Scope};
use pillion_gateway::accounts::{AccountReservation, Usage, json_memory};
use pillion_gateway::process::Process;
use pillion_gateway::visibility::Visibility;
use pillion_management::calls;
use pillion_management::saved_calls::{self, NewSavedCall, ReusableArguments};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::page::{ToolPage, TryOut};
use super::{call_context, find_tool};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::pages::redirect_to;
use crate::schema_form::SchemaForm;
use crate::visitor::Visitor;

/// The time after which the browser is redirected to the page of the call, which shows the result
/// when the call has ended.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Returns the arguments that the visitor has sent: as JSON, or in the controls of the form.
fn read_arguments(schema: &Value, fields: &FormFields) -> (TryOut, Option<JsonObject>) {
    let Some(json) = fields.get("json") else {
        let form = SchemaForm::read(schema, fields);
        let is_complete = form.is_valid() && !form.adds_item();
        let arguments = is_complete.then(|| form.arguments.clone());
        return (
            TryOut {
                form,
                ..TryOut::default()
            },
            arguments,
        );
    };
    let mut try_out = TryOut {
        json: Some(json.to_owned()),
        ..TryOut::default()
    };
    match serde_json::from_str::<JsonObject>(json) {
        Ok(arguments) => {
            try_out.form = SchemaForm::new(arguments.clone());
            (try_out, Some(arguments))
        }
        Err(error) => {
            try_out.fault = Some(format!("The arguments are not a JSON object: {error}"));
            (try_out, None)
        }
    }
}

/// Sets the user that the form names. Returns why the user is rejected, if so.
fn set_user(
    visitor: &Visitor,
    caller: &mut (CallContext, Visibility),
    user: &str,
) -> Option<String> {
    if user.is_empty() {
        return None;
    }
    if user.len() > MAX_USER_BYTES {
        return Some(format!("The name may have at most {MAX_USER_BYTES} bytes"));
    }
    match visitor.grant().resolve_user(Some(user.to_owned())) {
        Ok((user, is_verified)) => {
            (caller.0.user, caller.0.is_user_verified) = (user, is_verified);
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

pub(in crate::pages) async fn run(
    State(console): State<Console>,
    visitor: Visitor,
    Path(tool_name): Path<String>,
    fields: FormFields,
) -> Result<Response> {
    visitor.require(Scope::Execute)?;
    if let Some(name) = fields.text("saved") {
        return run_saved(&console, &visitor, &tool_name, name).await;
    }
    let (user_field, name_field) = match fields.get("json") {
        Some(_) => ("json-user", "json-saved-name"),
        None => ("user", "saved-name"),
    };
    let user = fields.text(user_field).unwrap_or_default();
    let mut caller = call_context(&visitor);
    let user_fault = set_user(&visitor, &mut caller, user);
    let (tool, resolution) = find_tool(&console, &caller, &tool_name).await?;
    let (mut try_out, arguments) = read_arguments(tool.definition().input_schema(), &fields);
    let has_fault = user_fault.is_some() || (arguments.is_none() && !try_out.form.adds_item());
    user.clone_into(&mut try_out.user);
    fields
        .get(name_field)
        .unwrap_or_default()
        .clone_into(&mut try_out.saved_name);
    try_out.user_fault = user_fault;
    let page = ToolPage {
        console: &console,
        visitor: &visitor,
        tool: &tool,
        caller_tools: resolution.caller_tools.as_ref(),
    };
    let Some(arguments) = arguments.filter(|_| !has_fault) else {
        let status = if has_fault {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::OK
        };
        return Ok((status, page.render(&try_out).await).into_response());
    };
    if fields.get("action") == Some("save") {
        let call = NewSavedCall {
            name: &try_out.saved_name,
            tool: tool.name().as_str(),
            user: Some(user).filter(|user| !user.is_empty()),
            arguments,
        };
        let outcome =
            saved_calls::save(&console.gateway, visitor.grant(), visitor.user(), call).await;
        return match outcome {
            Ok(()) => Ok(redirect_to(&visitor.href("saved-calls"))),
            Err(error) if error.status().is_client_error() => {
                try_out.save_fault = Some(error.to_string());
                Ok((error.status(), page.render(&try_out).await).into_response())
            }
            Err(error) => Err(error.into()),
        };
    }
    let call = PageCall {
        executor: resolution.executor(&console.gateway),
        tool: Arc::clone(&tool),
        arguments,
        context: caller.0,
        lookup_time: resolution.duration,
    };
    match call.run(&console, &visitor).await? {
        CallOutcome::Ended(result) => {
            try_out.result = Some(*result);
            Ok(page.render(&try_out).await.into_response())
        }
        CallOutcome::Running(id) => Ok(redirect_to(&visitor.href(&format!("calls/{id}")))),
    }
}

/// Runs a saved call, and shows its result on the page of the tool.
async fn run_saved(
    console: &Console,
    visitor: &Visitor,
    tool_name: &str,
    saved_name: &str,
) -> Result<Response> {
    let saved_call = saved_calls::find(
        &console.gateway,
        visitor.grant(),
        visitor.user(),
        saved_name,
    )
    .await?;
    if saved_call.tool != tool_name {
        return Err(PageError::NotFound(
            "The saved call is a call of another tool.",
        ));
    }
    let reusable = ReusableArguments::read(&saved_call.arguments);
    if !reusable.is_complete {
        return Err(PageError::InvalidForm(
            "the saved call lacks secret values: open the call, and fill them in",
        ));
    }
    let user = saved_call.user.unwrap_or_default();
    let mut caller = call_context(visitor);
    if let Some(message) = set_user(visitor, &mut caller, &user) {
        return Err(PageError::Rejected {
            status: StatusCode::FORBIDDEN,
            message,
        });
    }
    let (tool, resolution) = find_tool(console, &caller, tool_name).await?;
    let call = PageCall {
        executor: resolution.executor(&console.gateway),
        tool: Arc::clone(&tool),
        arguments: reusable.arguments.clone(),
        context: caller.0,
        lookup_time: resolution.duration,
    };
    let result = match call.run(console, visitor).await? {
        CallOutcome::Ended(result) => *result,
        CallOutcome::Running(id) => {
            return Ok(redirect_to(&visitor.href(&format!("calls/{id}"))));
        }
    };
    let try_out = TryOut {
        form: SchemaForm::new(reusable.arguments),
        user,
        saved_name: saved_call.name,
        result: Some(result),
        ..TryOut::default()
    };
    let page = ToolPage {
        console,
        visitor,
        tool: &tool,
        caller_tools: resolution.caller_tools.as_ref(),
    };
    Ok(page.render(&try_out).await.into_response())
}

/// A call that the page of a tool makes.
struct PageCall {
    executor: Executor,
    tool: Arc<RegisteredTool>,
    arguments: JsonObject,
    context: CallContext,
    /// How long the lookup of the tool has taken.
    lookup_time: Duration,
}

enum CallOutcome {
    Ended(Box<ToolResult>),
    /// The call continues without the browser; its page shows the result.
    Running(CallId),
}

impl PageCall {
    /// Runs the call. If the call takes longer than [`MAX_WAIT`] and has a page, the call continues
    /// in the background, unless the principal has too many requests in the background.
    async fn run(self, console: &Console, visitor: &Visitor) -> Result<CallOutcome> {
        let Self {
            executor,
            tool,
            arguments,
            mut context,
            lookup_time,
        } = self;
        // A call that needs approval may continue the record of an earlier call. The ID of its
        // record is then unknown, so the browser waits for the call.
        let record = (!executor.requires_approval(&tool)).then(CallId::new);
        context.record = record;
        let name = tool.name().to_string();
        let arguments = Value::Object(arguments);
        let usage = Usage::for_request(json_memory(&arguments.to_string()));
        let resolved_call = ResolvedCall {
            call: ToolCall::new("console", name, arguments),
            tool: Some(tool),
            wait_time: lookup_time,
        };
        let process = console.gateway.process();
        let principal = visitor.grant().principal();
        let task = process.call_tasks.spawn(async move {
            let run = Box::pin(executor.execute_resolved(resolved_call, &context));
            run.await.result
        });
        let mut task = CallTask(Some(task));
        loop {
            if let Some(outcome) = task.wait().await {
                return outcome.map(|result| CallOutcome::Ended(Box::new(result)));
            }
            let Some(id) = record else {
                continue;
            };
            let servers = console.servers.as_deref();
            let recorded_call =
                calls::find(&console.gateway, servers, visitor.grant(), &id.to_string()).await;
            let accounts = &process.detached_requests;
            if recorded_call.is_ok()
                && let Some(reservation) = accounts.try_reserve(Some(&principal), usage)
            {
                task.detach(process, reservation);
                return Ok(CallOutcome::Running(id));
            }
        }
    }
}

/// The task of a call. The call is cancelled if the value is dropped.
struct CallTask(Option<JoinHandle<ToolResult>>);

impl CallTask {
    /// Waits at most [`MAX_WAIT`] for the end of the call.
    async fn wait(&mut self) -> Option<Result<ToolResult>> {
        let panicked = || PageError::Rejected {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: "The call failed unexpectedly: see the log of the sidecar".to_owned(),
        };
        let Some(handle) = &mut self.0 else {
            return Some(Err(panicked()));
        };
        let outcome = timeout(MAX_WAIT, handle).await.ok()?;
        Some(outcome.map_err(|_| panicked()))
    }

    /// Lets the call continue. Its reservation is released when the call has ended.
    fn detach(mut self, process: &Process, reservation: AccountReservation) {
        if let Some(handle) = self.0.take() {
            process.call_tasks.spawn(async move {
                drop(handle.await);
                drop(reservation);
            });
        }
    }
}

impl Drop for CallTask {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_gateway::accounts::AccountLimits;

    use super::*;

    #[tokio::test]
    async fn a_call_is_cancelled_unless_it_is_detached() {
        let process = Process::default();
        let accounts = &process.detached_requests;
        let many = Usage {
            count: 10,
            bytes: 10,
        };
        accounts.set_limits(AccountLimits {
            principal: many,
            total: many,
        });
        for is_detached in [true, false] {
            let (mut sender, receiver) = tokio::sync::oneshot::channel::<()>();
            let task = CallTask(Some(tokio::spawn(async move {
                drop(receiver.await);
                ToolResult::success("1", "tool", Value::Null)
            })));
            if is_detached {
                let reservation = accounts.try_reserve(None, Usage::for_request(1)).unwrap();
                task.detach(&process, reservation);
                assert_eq!(accounts.total().count, 1);
                assert!(sender.send(()).is_ok());
                // The process waits for the call before it ends.
                process.finish_calls(Duration::from_secs(60)).await;
                assert_eq!(accounts.total().count, 0);
            } else {
                drop(task);
                sender.closed().await;
            }
        }
    }
}
