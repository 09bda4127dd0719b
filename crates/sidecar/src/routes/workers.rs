use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use pillion_core::compute;
use pillion_wire::{WorkerEntry, WorkerList, route};

use super::etag::EntityTags;
use super::extract::Body;
use super::upgrade::{Upgrade, UpgradeError};
use crate::app::App;
use pillion_gateway::access::Peer;
use pillion_gateway::workers::{self, Registration, WorkerRejection};
use pillion_management::error::{INVALID_INPUT, Result, route_error};

/// The protocol of a worker's connection after the upgrade.
const PROTOCOL: &str = "pillion-worker";

/// The response header with the worker's ID.
const WORKER_ID_HEADER: &str = "pillion-worker";

route_error! {
    /// The request body is not the registration of a worker.
    #[derive(Debug, thiserror::Error)]
    #[error("The request body is not a valid registration of a worker: {0}")]
    struct InvalidRegistration(#[source] serde_json::Error) => INVALID_INPUT
}

/// Register a worker and its tools.
///
/// The request must come over the Unix socket, with the headers `Connection: Upgrade` and `Upgrade:
/// pillion-worker`. After the response, the connection carries newline-delimited JSON-RPC: tool
/// calls from the sidecar, and the worker's responses.
#[utoipa::path(
    post,
    path = route::CONNECT_WORKER.path,
    request_body(content = Registration, content_type = "application/json"),
    responses(
        (status = 101, description = "The worker is registered, and the connection carries its JSON-RPC messages"),
        (status = 400, description = "A tool definition is invalid"),
        (status = 403, description = "The request did not come over the Unix socket, or the sidecar does not accept workers"),
        (status = 409, description = "A tool name is in use by a tool that no worker offers"),
        (status = 426, description = "The header `Upgrade: pillion-worker` is missing"),
    )
)]
pub(super) async fn connect(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    mut request: Request,
) -> Result<Response> {
    let Some(Extension(peer @ Peer::Process { pid, .. })) = peer else {
        let action = "be a worker";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    };
    let upgrade = Upgrade::begin(&app, &mut request, PROTOCOL)?;
    let Body(body) = Body::from_request(request, &app).await?;
    let registration: Registration = serde_json::from_slice(&body).map_err(InvalidRegistration)?;
    let account = format!("worker {pid:?}");
    // The size of the work is `usize::MAX`, so that the check always runs on another thread,
    // because checking even a small schema may take a long time.
    let check_registration = compute::run(&account, usize::MAX, move || registration.check());
    let checked_registration = check_registration
        .await
        .map_err(WorkerRejection::Registration)?;
    let worker = app.workers().admit(checked_registration, pid)?;
    let id = worker.id();
    let (shutdown, process_end) = (
        app.process().wait_for_draining(),
        workers::wait_for_process_end(pid),
    );
    let admission = app.process().watch_admission(Some(peer));
    let mut response = upgrade.response();
    tokio::spawn(async move {
        if let Some(stream) = upgrade.stream().await {
            worker
                .serve_calls(stream, shutdown, process_end, admission)
                .await;
        }
    });
    response
        .headers_mut()
        .insert(WORKER_ID_HEADER, HeaderValue::from(id));
    Ok(response)
}

/// List the connected workers.
#[utoipa::path(
    get,
    path = route::LIST_WORKERS.path,
    params(("if-none-match" = Option<String>, Header, description = "The `ETag` of the client's copy of the list")),
    responses(
        (status = 200, description = "The workers, oldest first", body = WorkerList),
        (status = 304, description = "The list has not changed"),
    )
)]
pub(super) async fn list(State(app): State<App>, client_tags: EntityTags) -> Result<Response> {
    let reports = app.workers().reports().into_iter();
    let workers = reports.map(|worker| WorkerEntry {
        id: worker.id,
        name: worker.name,
        pid: worker.pid,
        tools: worker.tools,
        busy: worker.is_busy,
        calls: worker.calls,
    });
    client_tags.respond(&WorkerList {
        success: true,
        workers: workers.collect(),
    })
}
