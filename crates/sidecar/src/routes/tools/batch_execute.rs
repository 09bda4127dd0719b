use axum::Json;
use axum::extract::State;
use pillion_core::tool::ToolCall;
use pillion_wire::{BatchAnswer, BatchCall, BatchMode, BatchRequest, BatchResult};

use super::answer;
use crate::app::App;
use crate::routes::body::Body;
use crate::routes::caller::Caller;
use crate::routes::error::RequestError;

/// Runs several calls, side by side or one after the other; the results keep the order of
/// the calls, and each is what the call alone would have had.
#[utoipa::path(
    post,
    path = "/api/v1/tools/batch-execute",
    tag = "tools",
    summary = "Run several tools",
    description = "Side by side or one after the other. The results keep the order of the calls, and each is what the call alone would have had.",
    params(
        ("x-pillion-user" = Option<String>, Header, description = "The user on whose behalf the calls run"),
        ("x-pillion-channel" = Option<String>, Header, description = "The channel the calls come from"),
        ("x-request-id" = Option<String>, Header, description = "The caller's id of the request"),
        ("x-pillion-approval" = Option<String>, Header, description = "The approval that the call is to use"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for an approval that is needed; so does the header `x-pillion-approval-wait-ms`"),
    ),
    request_body(content = BatchRequest, content_type = "application/json"),
    responses(
        (status = 200, description = "One result a call", body = BatchAnswer),
        (status = 400, description = "The body is no batch, or has too many calls"),
        (status = 413, description = "The body is too long"),
    )
)]
pub(in crate::routes) async fn batch_execute(
    State(app): State<App>,
    Caller(context): Caller,
    Body(body): Body,
) -> Result<Json<BatchAnswer>, RequestError> {
    let request = parse(&app, &body)?;
    let names: Vec<_> = request
        .calls
        .iter()
        .map(|call| call.name.as_str())
        .collect();
    let unavailable = app.look_for(&names).await;
    let own = app.own_tools(&context, &names).await;

    // Calls of tools that are not there are answered here; the executor sees the others.
    let ids: Vec<_> = request.calls.iter().map(|call| call.id.clone()).collect();
    let mut answers: Vec<_> = request
        .calls
        .iter()
        .map(|call| {
            let is_known = answer::is_known(&app, &own, &call.name);
            (!is_known).then(|| answer::unknown(&app, &own, &call.name, &unavailable))
        })
        .collect();
    let calls = request
        .calls
        .into_iter()
        .zip(&answers)
        .filter(|(_, answer)| answer.is_none())
        .map(|(call, _)| to_core(call))
        .collect();
    let executor = app.executor().with_own_tools(own.tools);
    let results = match request.mode {
        BatchMode::Parallel => executor.execute_parallel(calls, &context).await,
        BatchMode::Sequential => executor.execute(calls, &context).await,
    };
    let open = answers.iter_mut().filter(|answer| answer.is_none());
    for (answer, result) in open.zip(results) {
        *answer = Some(answer::ran(result));
    }

    let results: Vec<_> = ids
        .into_iter()
        .zip(answers.into_iter().flatten())
        .map(|(id, answer)| BatchResult { id, answer })
        .collect();
    Ok(Json(BatchAnswer {
        success: true,
        total: results.len(),
        results,
    }))
}

/// Malformed JSON and a body of another shape are told apart.
fn parse(app: &App, body: &[u8]) -> Result<BatchRequest, RequestError> {
    let request: BatchRequest = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            RequestError::NotABatch(error)
        } else {
            RequestError::MalformedJson(error)
        }
    })?;
    let (calls, limit) = (request.calls.len(), app.http().max_batch_calls.get());
    if calls > limit {
        return Err(RequestError::BatchTooLong { calls, limit });
    }
    Ok(request)
}

fn to_core(call: BatchCall) -> ToolCall {
    ToolCall::new(call.id, call.name, call.arguments)
}
