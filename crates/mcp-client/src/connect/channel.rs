//! Opens sessions over stdio and WebSocket, where only the revision has to be detected.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Discovered, METHOD_NOT_FOUND, OpenedSession, discovered, rpc_of, stateless_version};
use crate::callbacks::empty_object;
use crate::dialect::{Opening, ServerDialect};
use crate::http::HttpLink;
use crate::peer::Peer;
use crate::probe::Steps;
use crate::session::{IdStyle, Session};
use crate::transport::{StdioLink, StdioTransport, Transport, WebSocketTransport};
use crate::{McpErrorKind, ProtocolVersion, ServerConfig, TransportKind};

/// Timeout for the response to `server/discover`. Some servers never respond, and a program that
/// takes longer to start responds to the next request.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of times that a program is started again, or a WebSocket is opened again, for one
/// connection.
const MAX_STARTS: usize = 3;

/// Opens connections over stdio and WebSocket.
pub(crate) struct ChannelConnector {
    config: Arc<ServerConfig>,
    link: ChannelLink,
    peer: Arc<Peer>,
    /// The revision that the last handshake requested, so that the next connection need not detect
    /// it. For a server without a handshake, each connection detects the revision again, which
    /// takes no longer than a handshake and notices a changed server.
    known: Mutex<Option<ProtocolVersion>>,
}

/// What a stdio or WebSocket connection leads to.
pub(crate) enum ChannelLink {
    /// A local program, over its standard streams.
    Stdio(StdioLink),
    /// A URL, over a WebSocket, which starts with an HTTP request.
    WebSocket(Box<HttpLink>),
}

impl ChannelConnector {
    pub(crate) fn new(config: Arc<ServerConfig>, link: ChannelLink, peer: Arc<Peer>) -> Self {
        Self {
            config,
            link,
            peer,
            known: Mutex::new(None),
        }
    }

    /// Returns the HTTP client, if there is one.
    pub(crate) fn http_link(&self) -> Option<&HttpLink> {
        match &self.link {
            ChannelLink::Stdio(_) => None,
            ChannelLink::WebSocket(link) => Some(link),
        }
    }

    /// Opens a session; returns `None` if that takes longer than the time limit.
    pub(crate) async fn open_with_timeout(
        &self,
        steps: Steps,
        after: Duration,
    ) -> Option<Result<OpenedSession, McpErrorKind>> {
        let opened = self.open_repeatedly(steps);
        match &self.link {
            ChannelLink::Stdio(_) => pillion_deadline::timeout(after, opened).await.ok(),
            ChannelLink::WebSocket(link) => link.in_time(after, opened).await,
        }
    }

    /// Opens a session, and tries again if the server ends the connection during the handshake. A
    /// program is started again only if it has responded after an earlier start, because such a
    /// program was probably killed.
    async fn open_repeatedly(&self, steps: Steps) -> Result<OpenedSession, McpErrorKind> {
        let may_open_again = || match &self.link {
            ChannelLink::Stdio(link) => link.may_start_again(),
            ChannelLink::WebSocket(_) => true,
        };
        for _ in 0..MAX_STARTS {
            match self.open(steps.clone()).await {
                Err(error) if has_ended(&error) && may_open_again() => {
                    tracing::debug!(
                        %error,
                        "Connecting again to an MCP server that ended the connection during the \
                        handshake"
                    );
                }
                outcome => return outcome,
            }
        }
        self.open(steps).await
    }

    /// Opens a session with the configured or cached revision, or else detects it.
    async fn open(&self, mut steps: Steps) -> Result<OpenedSession, McpErrorKind> {
        if let Some(opening) = Opening::configured(&self.config) {
            let session = self.start().await?;
            return self.open_as(opening, session, steps).await;
        }
        let known = self.known.lock().take();
        if let Some(offered) = known {
            let opening = Opening::Handshake(offered);
            let session = self.start().await?;
            match self.open_as(opening, session, steps.clone()).await {
                Ok(opened) => {
                    self.remember(opening);
                    return Ok(opened);
                }
                // The cached revision is outdated.
                Err(error) if rpc_of(&error).is_some() => {
                    tracing::debug!(
                        %error,
                        "The cached protocol revision failed; detecting it again"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        let (session, opening) = self.detect(&mut steps).await?;
        self.remember(opening);
        Ok(self.opened(session, opening, steps))
    }

    fn remember(&self, opening: Opening) {
        *self.known.lock() = match opening {
            Opening::Handshake(offered) => Some(offered),
            Opening::Stateless(_) | Opening::None => None,
        };
    }

    pub(crate) fn forget_dialect(&self) {
        *self.known.lock() = None;
    }

    /// Detects the revision:
    ///
    /// 1. Send `server/discover`. If it returns a result, or an error that exists only since
    ///    revision 2026-07-28, the server has no handshake.
    /// 2. Otherwise send `initialize`, on a new connection if the server closed the first one.
    /// 3. If the server does not know the method, it has no handshake.
    async fn detect(&self, steps: &mut Steps) -> Result<(Session, Opening), McpErrorKind> {
        let mut offered = ProtocolVersion::LATEST_WITH_HANDSHAKE;
        let mut session = self.start().await?;
        match self.discover(&mut session, steps).await? {
            Discovered::Stateless(version) | Discovered::AskIn(version) => {
                session.set_version(version);
                return Ok((session, Opening::Stateless(version)));
            }
            Discovered::Older(version) => offered = version,
            Discovered::Nothing | Discovered::Silence => {}
        }
        if !session.is_open() {
            if let ChannelLink::Stdio(link) = &self.link {
                link.undo_crash();
            }
            session = self.start().await?;
        }
        session.clear_version();
        let initialized = session.initialize(offered).await;
        let tried = format!("{} initialize ({offered})", self.name());
        let negotiated = initialized.as_ref().map(|()| session.describe_version());
        steps.note(tried, negotiated);
        let Err(error) = initialized else {
            return Ok((session, Opening::Handshake(offered)));
        };
        let Some(rpc) = rpc_of(&error) else {
            return Err(error);
        };
        if let Some(version) = stateless_version(rpc) {
            session.set_version(version);
            return Ok((session, Opening::Stateless(version)));
        }
        if rpc.code != METHOD_NOT_FOUND {
            return Err(error);
        }
        // A server that was too slow to answer the first `server/discover` may have no handshake.
        let found = self.discover(&mut session, steps).await?;
        if let Discovered::Stateless(version) | Discovered::AskIn(version) = found {
            session.set_version(version);
            return Ok((session, Opening::Stateless(version)));
        }
        session.clear_version();
        Ok((session, Opening::None))
    }

    /// Requests the server's revisions (`server/discover`) in the newest supported revision, and
    /// once more in another revision if the server asks for that.
    async fn discover(
        &self,
        session: &mut Session,
        steps: &mut Steps,
    ) -> Result<Discovered, McpErrorKind> {
        let newest = ProtocolVersion::LATEST;
        match self.discover_in(newest, session, steps).await? {
            Discovered::AskIn(version) => self.discover_in(version, session, steps).await,
            found => Ok(found),
        }
    }

    async fn discover_in(
        &self,
        version: ProtocolVersion,
        session: &mut Session,
        steps: &mut Steps,
    ) -> Result<Discovered, McpErrorKind> {
        session.set_version(version);
        let timeout = DISCOVER_TIMEOUT.min(self.config.timeout / 4);
        let params = empty_object();
        let timed =
            pillion_deadline::timeout(timeout, session.ask("server/discover", &params)).await;
        let outcome = timed.unwrap_or(Err(McpErrorKind::timeout(timeout)));
        let found = discovered(outcome, session);
        let tried = format!("{} server/discover ({version})", self.name());
        steps.note(tried, found.as_ref().map(Discovered::describe));
        found
    }

    async fn open_as(
        &self,
        opening: Opening,
        mut session: Session,
        mut steps: Steps,
    ) -> Result<OpenedSession, McpErrorKind> {
        let opened = match opening {
            Opening::Stateless(version) => {
                session.set_version(version);
                Ok(())
            }
            Opening::Handshake(offered) => session.initialize(offered).await,
            Opening::None => Ok(()),
        };
        let tried = match opening {
            Opening::Stateless(version) => format!("requests of revision {version}"),
            Opening::Handshake(version) => format!("initialize ({version})"),
            Opening::None => "requests without handshake".to_owned(),
        };
        let outcome = opened.as_ref().map(|()| session.describe_version());
        steps.note(format!("{} {tried}", self.name()), outcome);
        opened?;
        Ok(self.opened(session, opening, steps))
    }

    fn opened(&self, session: Session, opening: Opening, steps: Steps) -> OpenedSession {
        let transport = match &self.link {
            ChannelLink::Stdio(_) => TransportKind::Stdio,
            ChannelLink::WebSocket(_) => TransportKind::WebSocket,
        };
        steps.opened(session, ServerDialect { transport, opening })
    }

    /// Opens a connection without sending anything.
    async fn start(&self) -> Result<Session, McpErrorKind> {
        let peer = Arc::clone(&self.peer);
        let transport: Box<dyn Transport> = match &self.link {
            ChannelLink::Stdio(link) => {
                Box::new(StdioTransport::open(link, Arc::clone(&peer)).await?)
            }
            ChannelLink::WebSocket(link) => {
                Box::new(WebSocketTransport::open(link, Arc::clone(&peer)).await?)
            }
        };
        Ok(Session::new(transport, peer, IdStyle::Number))
    }

    fn name(&self) -> &'static str {
        match &self.link {
            ChannelLink::Stdio(_) => "stdio",
            ChannelLink::WebSocket(_) => "WebSocket",
        }
    }
}

/// Returns whether an error means that the server has closed the connection.
fn has_ended(error: &McpErrorKind) -> bool {
    matches!(
        error,
        McpErrorKind::ProcessEnded { .. } | McpErrorKind::StreamClosed | McpErrorKind::Broken(_)
    )
}
