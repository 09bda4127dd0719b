use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use pillion_core::compute;
use pillion_wire::{WorkerEntry, WorkerList, route};

use super::body::Body;
use super::error::{
    CONFLICT, DENIED, INVALID_INPUT, RequestError, RouteError, Status, UNAVAILABLE, route_error,
};
use super::tagged::EntityTags;
use super::upgrade::{Upgrade, UpgradeError};
use crate::app::App;
use pillion_gateway::access::Peer;
use pillion_gateway::workers::{self, Registration, WorkerRejection};

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

impl RouteError for WorkerRejection {
    fn status(&self) -> Status {
        match self {
            Self::Registration(_) => INVALID_INPUT,
            Self::NameTaken(_) => CONFLICT,
            Self::TooMany { .. } => UNAVAILABLE,
            Self::Disabled => DENIED,
        }
    }
}

/// Register a worker and its tools.
///
/// Only over the Unix socket, with the headers `Connection: Upgrade` and `Upgrade: pillion-worker`.
/// After the response, the connection carries newline-delimited JSON-RPC: tool calls from the
/// sidecar, and the worker's responses.
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
) -> Result<Response, RequestError> {
    let Some(Extension(peer @ Peer::Process { pid, .. })) = peer else {
        let action = "be a worker";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    };
    let upgrade = Upgrade::begin(&app, &mut request, PROTOCOL)?;
    let Body(body) = Body::from_request(request, &app).await?;
    let registration: Registration = serde_json::from_slice(&body).map_err(InvalidRegistration)?;
    let account = format!("worker {pid:?}");
    // The size counts as large, because small schemas may also take long.
    let checked = compute::run(&account, usize::MAX, move || registration.check());
    let registration = checked.await.map_err(WorkerRejection::Registration)?;
    let worker = app.workers().admit(registration, pid)?;
    let id = worker.id();
    let (stopping, died) = (app.process().draining(), workers::ended(pid));
    let admission = app.process().watch(Some(peer));
    let mut response = upgrade.response();
    tokio::spawn(async move {
        if let Some(stream) = upgrade.stream().await {
            worker.work(stream, stopping, died, admission).await;
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
pub(super) async fn list(
    State(app): State<App>,
    known: EntityTags,
) -> Result<Response, RequestError> {
    let reports = app.workers().reports().into_iter();
    let workers = reports.map(|worker| WorkerEntry {
        id: worker.id,
        name: worker.name,
        pid: worker.pid,
        tools: worker.tools,
        busy: worker.is_busy,
        calls: worker.calls,
    });
    known.or(&WorkerList {
        success: true,
        workers: workers.collect(),
    })
}
