//! HTTP connections that are upgraded to another protocol.

use axum::extract::Request;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

use crate::app::App;
use pillion_management::error::{DENIED, UNAVAILABLE, UPGRADE_REQUIRED, route_error};

route_error! {
    /// The reason why a connection is not upgraded.
    #[derive(Debug, thiserror::Error)]
    pub(super) enum UpgradeError {
        #[error("Only a process that connects over the Unix socket can {action}")]
        NotUnixSocket { action: &'static str } => DENIED,
        #[error("The request needs the headers Connection: Upgrade and Upgrade: {protocol}")]
        MissingHeaders { protocol: &'static str } => UPGRADE_REQUIRED,
        #[error("The sidecar is shutting down and upgrades no more connections")]
        Draining => UNAVAILABLE,
        #[error(
            "{max_connections} clients have upgraded their connections, which is the maximum \
             (http.max_connections)"
        )]
        TooManyClients { max_connections: usize } => UNAVAILABLE,
    }
}

/// A connection that is upgraded to another protocol.
pub(super) struct Upgrade {
    protocol: &'static str,
    on_upgrade: OnUpgrade,
}

impl Upgrade {
    /// Begins the upgrade of the request's connection to `protocol`.
    ///
    /// # Errors
    /// [`UpgradeError::MissingHeaders`] if the request's headers do not request the upgrade to
    /// `protocol`; [`UpgradeError::Draining`] if the sidecar is shutting down.
    pub(super) fn begin(
        app: &App,
        request: &mut Request,
        protocol: &'static str,
    ) -> Result<Self, UpgradeError> {
        if !is_requested(request.headers(), protocol) {
            return Err(UpgradeError::MissingHeaders { protocol });
        }
        if app.process().is_draining() {
            return Err(UpgradeError::Draining);
        }
        let on_upgrade = hyper::upgrade::on(request);
        Ok(Self {
            protocol,
            on_upgrade,
        })
    }

    /// Begins the upgrade like [`begin`](Self::begin), for a connection that the caller serves with
    /// a task of [`client_tasks`](pillion_gateway::process::Process::client_tasks).
    ///
    /// # Errors
    /// The same errors as [`begin`](Self::begin), and [`UpgradeError::TooManyClients`] if too many
    /// clients have upgraded their connections.
    pub(super) fn begin_client(
        app: &App,
        request: &mut Request,
        protocol: &'static str,
    ) -> Result<Self, UpgradeError> {
        let upgrade = Self::begin(app, request, protocol)?;
        let max_connections = app.http().max_connections.get();
        if app.process().client_tasks.len() >= max_connections {
            return Err(UpgradeError::TooManyClients { max_connections });
        }
        Ok(upgrade)
    }

    /// Returns the response that completes the upgrade, after which the connection uses the new
    /// protocol.
    pub(super) fn response(&self) -> Response {
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(self.protocol));
        response
    }

    /// Returns the connection after the response was sent; `None` if the client has disconnected.
    pub(super) async fn stream(self) -> Option<TokioIo<Upgraded>> {
        match self.on_upgrade.await {
            Ok(stream) => Some(TokioIo::new(stream)),
            Err(error) => {
                let protocol = self.protocol;
                tracing::debug!(%error, protocol, "A connection was not upgraded");
                None
            }
        }
    }
}

/// Returns whether `headers` request an upgrade of the connection to `protocol`.
fn is_requested(headers: &HeaderMap, protocol: &str) -> bool {
    let has_token = |header, token: &str| {
        let values = headers.get_all(header).into_iter();
        let mut words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(token))
    };
    has_token(CONNECTION, "upgrade") && has_token(UPGRADE, protocol)
}
