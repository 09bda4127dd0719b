use std::sync::Arc;
use std::time::Duration;

use super::connect::{ChannelConnector, ChannelLink, HttpConnector, OpenedSession};
use super::dialect::ServerDialect;
use super::http::{HttpLink, not_oauth_error};
use super::peer::Peer;
use super::probe::ProbeSteps;
use super::secrets::Secrets;
use super::transport::StdioLink;
use super::{
    AuthorizationResponse, Endpoint, McpErrorKind, PendingAuthorization, ServerConfig,
    ServerConfigError, TransportKind,
};

/// Opens the connections of one client, depending on its transport.
pub(super) enum ConnectionOpener {
    /// Opens connections over HTTP, and detects the transport and the revision if they are not
    /// configured.
    Http(Box<HttpConnector>),
    /// Opens connections over stdio or WebSocket, and detects the revision if it is not configured.
    Channel(ChannelConnector),
}

impl ConnectionOpener {
    pub(super) fn new(
        config: &Arc<ServerConfig>,
        secrets: &Arc<Secrets>,
        peer: &Arc<Peer>,
    ) -> Result<Self, McpErrorKind> {
        config.validate().map_err(|error| match error {
            ServerConfigError::Egress(error) => McpErrorKind::Egress(error),
            error => McpErrorKind::Config(error),
        })?;
        let link = match &config.endpoint {
            Endpoint::Url(_) => {
                let link = HttpLink::new(config, secrets)?;
                if config.transport_kind() != TransportKind::WebSocket {
                    return Ok(Self::Http(Box::new(HttpConnector {
                        config: Arc::clone(config),
                        link,
                        peer: Arc::clone(peer),
                    })));
                }
                ChannelLink::WebSocket(Box::new(link))
            }
            Endpoint::Command(command) => {
                let link = StdioLink::new(command.clone(), &config.label, config.limits);
                ChannelLink::Stdio(link)
            }
        };
        let (config, peer) = (Arc::clone(config), Arc::clone(peer));
        Ok(Self::Channel(ChannelConnector::new(config, link, peer)))
    }

    /// Opens a session with the configured or cached transport and revision, or else detects them.
    /// Fails if that takes longer than `timeout`.
    pub(super) async fn open(
        &self,
        steps: ProbeSteps,
        timeout: Duration,
    ) -> Result<OpenedSession, McpErrorKind> {
        let outcome_in_time = match self {
            Self::Http(connector) => {
                let open_operation = Box::pin(connector.open(steps));
                connector.link.run_in_time(timeout, open_operation).await
            }
            Self::Channel(connector) => connector.open_with_timeout(steps, timeout).await,
        };
        outcome_in_time.unwrap_or(Err(McpErrorKind::timeout(timeout)))
    }

    /// Completes an authorization that another client started.
    pub(super) async fn finish_authorization(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        let link = match self {
            Self::Http(connector) => Some(&connector.link),
            Self::Channel(connector) => connector.http_link(),
        };
        match link {
            Some(link) => link.finish_authorization(pending, response).await,
            None => Err(not_oauth_error()),
        }
    }

    /// Removes the cached transport and revision, so that the next connection detects them.
    pub(super) fn forget_dialect(&self) {
        match self {
            Self::Http(connector) => ServerDialect::forget(&connector.config),
            Self::Channel(connector) => connector.forget_dialect(),
        }
    }
}
