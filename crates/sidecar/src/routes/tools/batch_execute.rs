use std::iter::repeat_n;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pillion_core::compute;
use pillion_core::executor::{CompletedCall, RESPONSE_ALLOWANCE, ResolvedCall};
use pillion_core::store::CallId;
use pillion_core::tool::{CallContext, ToolCall};
use pillion_wire::{
    BatchCall, BatchMode, BatchRequest, BatchResponse, BatchResult, ExecuteResponse, MAX_ID_BYTES,
    route,
};
use serde_json::{Value, json};

use super::answer;
use super::once::{self, Executed, Key, Request};
use crate::app::App;
use crate::routes::body::{Body, BodyError};
use crate::routes::caller::Caller;
use crate::routes::error::{INVALID_INPUT, RequestError, route_error};
use pillion_gateway::{NameScope, Resolution};

route_error! {
    /// Why a batch is rejected.
    #[derive(Debug, thiserror::Error)]
    enum BatchError {
        #[error("The request body is not a valid batch: {0}")]
        Invalid(#[source] serde_json::Error) => INVALID_INPUT,
        #[error("The batch has {calls} calls; the limit is {limit}")]
        TooManyCalls { calls: usize, limit: usize } => INVALID_INPUT,
    }
}

/// Runs several calls, in parallel or sequentially. The results have the order of the calls, and
/// each is the result that the call alone would have.
#[utoipa::path(
    post,
    path = route::EXECUTE_BATCH.path,
    tag = "tools",
    summary = "Call several tools",
    description = "The calls run in parallel or in sequence. The results have the order of the calls; each result is the same as for a single call.",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the calls run"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the calls come from"),
        ("x-request-id" = Option<String>, Header, description = "The client's ID for the request"),
        ("idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = r#"^([!#-\[\]-~]+|"([!#-\[\]-~]|\\["\\])+")$"#, description = "Identifies the batch: a retry with the same key does not run the calls again, but returns the first response with the header `idempotency-replayed: true`"),
        ("x-pillion-approval" = Option<String>, Header, description = "The ID of the approval to use"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval, in milliseconds; the header `x-pillion-approval-wait-ms` sets the same"),
    ),
    request_body(content = BatchRequest, content_type = "application/json"),
    responses(
        (status = 200, description = "One result per call", body = BatchResponse),
        (status = 400, description = "The request body is invalid, or has too many calls"),
        (status = 409, description = "A batch with this Idempotency-Key is still running"),
        (status = 413, description = "The request body is too large"),
        (status = 422, description = "The Idempotency-Key was used for a different request"),
        (status = 429, description = "Too many requests with an Idempotency-Key are still running after their clients disconnected"),
        (status = 503, description = "The request has an Idempotency-Key, and the store is not available"),
    )
)]
pub(in crate::routes) async fn batch_execute(
    State(app): State<App>,
    key: Option<Key>,
    caller: Caller,
    Body(body): Body,
) -> Result<Response, RequestError> {
    let (limit, bytes) = (app.http().max_batch_calls.get(), body.len());
    let account = caller.context.principal.as_deref().unwrap_or_default();
    let batch = compute::run(account, bytes, move || parse(&body, limit)).await?;
    let mut caller = caller;
    if batch.calls.len() > 1 {
        let memory = caller.context.result_memory.take();
        caller.context.result_memory = memory.map(|memory| memory.shared());
    }
    match key {
        Some(key) => once::run(app, key, batch, caller).await,
        None => {
            let contexts = repeat_n(caller.context.clone(), batch.calls.len());
            // Boxed: the future is as large as a call and its contexts.
            let ran = Box::pin(run(&app, batch, &caller, Duration::ZERO, contexts)).await;
            Ok(Json(ran.answer).into_response())
        }
    }
}

/// Runs a batch that has waited for `waited` before, each call with its own context.
async fn run(
    app: &App,
    batch: BatchRequest,
    caller: &Caller,
    waited: Duration,
    contexts: impl Iterator<Item = CallContext> + Send,
) -> Executed<BatchResponse> {
    let Caller {
        context,
        visibility,
        ..
    } = caller;
    let names: Vec<_> = batch.calls.iter().map(|call| call.name.as_str()).collect();
    let resolution = app.resolve(context, visibility, NameScope::Registered, &names);
    let resolution = resolution.await;
    let executor = resolution.executor(app);
    let Resolution {
        tools,
        own,
        unavailable_servers,
        took,
    } = resolution;
    let waited = waited + took;

    // Calls of unknown tools are answered here and do not reach the executor.
    let ids: Vec<_> = batch.calls.iter().map(|call| call.id.clone()).collect();
    let mut answers = Vec::with_capacity(ids.len());
    let mut calls = Vec::with_capacity(ids.len());
    for ((call, context), tool) in batch.calls.into_iter().zip(contexts).zip(tools) {
        answers.push(match tool {
            Ok(tool) => {
                let (call, tool) = (to_core(call), Some(tool));
                calls.push((ResolvedCall { call, tool, waited }, context));
                None
            }
            Err(missing) => {
                let (own, unavailable) = (own.as_ref(), &unavailable_servers);
                let failure =
                    answer::unknown(app, visibility, own, &call.name, missing, unavailable);
                Some(ExecuteResponse::NotFound(failure))
            }
        });
    }
    let all = match batch.mode {
        BatchMode::Parallel => executor.execute_parallel_resolved(calls).await,
        BatchMode::Sequential => {
            let mut all = Vec::with_capacity(calls.len());
            for (call, context) in calls {
                all.push(executor.execute_resolved(call, &context).await);
            }
            all
        }
    };
    let is_final = all.iter().any(CompletedCall::is_final);
    let respond_by = all.iter().map(|ended| ended.respond_by).max();
    let open = answers.iter_mut().filter(|answer| answer.is_none());
    for (answer, ended) in open.zip(all) {
        *answer = Some(answer::ran(ended.result));
    }
    let answers = answers.into_iter().flatten();
    Executed {
        answer: answer_of(ids.into_iter().zip(answers)),
        is_final,
        respond_by: respond_by.unwrap_or_else(|| Instant::now() + RESPONSE_ALLOWANCE),
    }
}

/// Combines the results with the IDs of their calls.
fn answer_of(answers: impl Iterator<Item = (String, ExecuteResponse)>) -> BatchResponse {
    let results: Vec<_> = answers
        .map(|(id, answer)| BatchResult { id, answer })
        .collect();
    BatchResponse {
        success: true,
        total: results.len(),
        results,
    }
}

impl Request for BatchRequest {
    type Response = BatchResponse;

    fn content(&self) -> Value {
        json!({"batch": self})
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.name.as_str())
    }

    async fn run(
        self,
        app: App,
        caller: Caller,
        waited: Duration,
        records: impl Iterator<Item = CallId> + Send,
    ) -> Executed<BatchResponse> {
        let contexts = records.map(|id| CallContext {
            record: Some(id),
            ..caller.context.clone()
        });
        run(&app, self, &caller, waited, contexts).await
    }

    fn not_stored(answer: &BatchResponse, records: impl Iterator<Item = CallId>) -> BatchResponse {
        let results = answer.results.iter().zip(records);
        answer_of(results.map(|(result, record)| {
            let stands = once::not_stored(&result.answer, Some(record));
            (result.id.clone(), stands)
        }))
    }

    fn cut_off(self, begun: Vec<Option<CallId>>) -> BatchResponse {
        let calls = self.calls.into_iter().zip(begun);
        answer_of(calls.map(|(call, begun)| (call.id.clone(), once::cut_off(to_core(call), begun))))
    }
}

/// Parses the body, with different errors for malformed JSON and for JSON of another form.
fn parse(body: &[u8], limit: usize) -> Result<BatchRequest, RequestError> {
    let request: BatchRequest = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            RequestError::from(BatchError::Invalid(error))
        } else {
            RequestError::from(BodyError::MalformedJson(error))
        }
    })?;
    let calls = request.calls.len();
    if calls > limit {
        return Err(BatchError::TooManyCalls { calls, limit }.into());
    }
    if request
        .calls
        .iter()
        .any(|call| call.id.len() > MAX_ID_BYTES)
    {
        let expected = format!("at most {MAX_ID_BYTES} bytes");
        return Err(RequestError::parameter("id", expected));
    }
    Ok(request)
}

fn to_core(call: BatchCall) -> ToolCall {
    ToolCall::new(call.id, call.name, call.arguments)
}
