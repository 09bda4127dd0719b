use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use hyper_util::rt::TokioIo;
use pillion_core::executor::OptionError;
use pillion_wire::route;

use super::body::{Body, BodyError};
use super::error::{INVALID_INPUT, RequestError, RouteError, Status};
use super::upgrade::{self, UpgradeError};
use crate::app::App;
use crate::current_app::CurrentApp;
use crate::executors::{ExecutorRequest, PhpExecutor};
use pillion_gateway::access::Peer;
use pillion_gateway::workers;

/// The protocol of an executor's connection after the upgrade.
const PROTOCOL: &str = "pillion-executor";

impl RouteError for OptionError {
    fn status(&self) -> Status {
        INVALID_INPUT
    }
}

/// Upgrades the connection to the connection of a PHP executor.
#[utoipa::path(
    post,
    path = route::OPEN_EXECUTOR.path,
    tag = "workers",
    summary = "Open the executor of a PHP process",
    description = "Only over the Unix socket, with the headers `Connection: Upgrade` and `Upgrade: pillion-executor`. After the response, the connection carries newline-delimited JSON-RPC: the calls of the PHP process, and the sidecar's requests to run PHP tools.",
    request_body(content = ExecutorRequest, content_type = "application/json"),
    responses(
        (status = 101, description = "The connection carries the JSON-RPC messages of the executor"),
        (status = 400, description = "An option is unknown or invalid"),
        (status = 403, description = "The request did not come over the Unix socket"),
        (status = 426, description = "The header `Upgrade: pillion-executor` is missing"),
        (status = 503, description = "Too many clients have upgraded their connections, or the sidecar is shutting down"),
    )
)]
pub(super) async fn open(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    mut request: Request,
) -> Result<Response, RequestError> {
    let Some(Extension(peer @ Peer::Process { pid, .. })) = peer else {
        let action = "open an executor";
        return Err(UpgradeError::NotUnixSocket { action }.into());
    };
    upgrade::check(&app, request.headers(), PROTOCOL)?;
    upgrade::check_limit(&app)?;
    let process = app.process();
    let current_app = CurrentApp::of(request.extensions(), &app, super::router);
    let upgraded = hyper::upgrade::on(&mut request);
    let Body(body) = Body::from_request(request, &app).await?;
    let request: ExecutorRequest = serde_json::from_slice(&body).map_err(BodyError::Invalid)?;
    let executor = PhpExecutor::new(request, current_app, peer)?;
    let (stopping, died) = (process.draining(), workers::ended(pid));
    let welcome = process.watch(Some(peer));
    process.clients.spawn(async move {
        match upgraded.await {
            Ok(stream) => {
                let stream = TokioIo::new(stream);
                executor.serve(stream, stopping, died, welcome).await;
            }
            Err(error) => tracing::debug!(%error, "The connection of an executor was not upgraded"),
        }
    });
    Ok(upgrade::switching(PROTOCOL))
}
