//! Detects the transport and protocol revision of a server, and opens a session.

mod channel;
mod discovered;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::callbacks::empty_object;
use super::dialect::{Opening, ServerDialect};
use super::http::{HttpLink, is_status};
use super::peer::Peer;
use super::probe::{ProbeStep, Steps};
use super::session::{IdStyle, Session};
use super::transport::{EndpointRule, EventStreamTransport, PostTransport};
use super::{McpErrorKind, ProtocolVersion, ServerConfig, TransportKind};
use pillion_egress::MAX_REPEATS;

pub(super) use channel::{ChannelConnector, ChannelLink};
use discovered::{Discovered, discovered, rpc_of, stateless_version};
pub(super) use discovered::{HEADER_MISMATCH, UNSUPPORTED_VERSION, newest_common_revision};

/// Opens sessions over HTTP, and detects the server's transport and revision.
pub(super) struct Connector {
    pub(super) config: Arc<ServerConfig>,
    pub(super) link: HttpLink,
    pub(super) peer: Arc<Peer>,
}

/// A new session, its transport and revision, and the steps of opening it.
pub(super) struct OpenedSession {
    pub(super) session: Session,
    pub(super) dialect: ServerDialect,
    pub(super) steps: Vec<ProbeStep>,
}

impl Steps {
    fn opened(self, session: Session, dialect: ServerDialect) -> OpenedSession {
        OpenedSession {
            session,
            dialect,
            steps: self.snapshot(),
        }
    }
}

/// Statuses that a server without Streamable HTTP at this URL returns.
const NOT_STREAMABLE: [StatusCode; 3] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
];

const METHOD_NOT_FOUND: i64 = -32601;

impl Connector {
    /// Opens a session with the configured or cached transport and revision, or else detects them.
    pub(super) async fn open(&self, mut steps: Steps) -> Result<OpenedSession, McpErrorKind> {
        if let Some(dialect) = self.pinned() {
            let session = self.open_pinned(dialect, &mut steps).await?;
            return Ok(steps.opened(session, dialect));
        }
        let remembers = self.config.protocol_version.is_none();
        if let Some(dialect) = ServerDialect::known(&self.config).filter(|_| remembers) {
            match self.try_dialect(dialect, &mut steps).await {
                Ok(session) => return Ok(steps.opened(session, dialect)),
                // The cached transport and revision may be outdated.
                Err(
                    error @ (McpErrorKind::Connect(_)
                    | McpErrorKind::Egress(_)
                    | McpErrorKind::Authorization(_)),
                ) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::debug!(
                        %error,
                        "The cached transport and protocol revision failed; detecting them again"
                    );
                    ServerDialect::forget(&self.config);
                }
            }
        }
        let (opened, is_certain) = self.detect(steps).await?;
        if remembers && is_certain {
            opened.dialect.remember(&self.config);
        }
        Ok(opened)
    }

    /// Returns the configured transport and revision, if both are configured and nothing has to be
    /// detected.
    fn pinned(&self) -> Option<ServerDialect> {
        let dialect = |transport, opening| Some(ServerDialect { transport, opening });
        let configured = Opening::configured(&self.config);
        let opening = configured.unwrap_or(Opening::Handshake(self.offered()));
        match (self.config.transport, opening) {
            (TransportKind::Auto, Opening::None) | (TransportKind::PostSse, _) => {
                dialect(TransportKind::PostSse, Opening::None)
            }
            (TransportKind::Auto, Opening::Stateless(_)) => {
                dialect(TransportKind::StreamableHttp, opening)
            }
            (TransportKind::Auto, Opening::Handshake(_)) => None,
            (transport, _) => dialect(transport, opening),
        }
    }

    /// Returns the revision that a handshake requests.
    fn offered(&self) -> ProtocolVersion {
        let pinned = self.config.protocol_version;
        pinned.unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE)
    }

    /// Opens a session as configured. If the server has no handshake anymore, it rejects
    /// `initialize` and lists its revisions; unless a revision is configured, the session then uses
    /// one of those.
    async fn open_pinned(
        &self,
        dialect: ServerDialect,
        steps: &mut Steps,
    ) -> Result<Session, McpErrorKind> {
        let opened = self.step(dialect, steps).await;
        let (Err(error), Opening::Handshake(_), None) =
            (&opened, dialect.opening, self.config.protocol_version)
        else {
            return opened;
        };
        match rpc_of(error).and_then(stateless_version) {
            Some(version) => {
                let opening = Opening::Stateless(version);
                self.step(ServerDialect { opening, ..dialect }, steps).await
            }
            None => opened,
        }
    }

    /// Detects the transport and revision:
    ///
    /// 1. POST `server/discover`. If it returns a result, or an error that exists only since
    ///    revision 2026-07-28, the server has no handshake.
    /// 2. Otherwise POST `initialize`. If it returns a result, the server uses Streamable HTTP.
    /// 3. If the server does not know the method, it has no handshake. If step 1 timed out, repeat
    ///    it once; otherwise use POST-SSE.
    /// 4. After HTTP 400, 404 or 405, or an empty response, open a GET stream. After a status, the
    ///    stream must start with an `endpoint` event; after an empty response, it need not.
    ///
    /// The returned flag is `false` if the outcome is a guess that must not be cached.
    async fn detect(&self, mut steps: Steps) -> Result<(OpenedSession, bool), McpErrorKind> {
        let mut offered = self.offered();
        let mut was_silent = false;
        if self.config.protocol_version.is_none() {
            let (discovered, session) = self.discover(&mut steps).await?;
            match discovered {
                Discovered::Stateless(version) => {
                    return Ok((steps.opened(session, stateless(version)), true));
                }
                Discovered::Older(version) => offered = version,
                Discovered::AskIn(_) | Discovered::Nothing => {}
                Discovered::Silence => was_silent = true,
            }
        }
        let dialect = |transport| ServerDialect {
            transport,
            opening: Opening::Handshake(offered),
        };
        let streamable = dialect(TransportKind::StreamableHttp);
        let error = match self.try_dialect(streamable, &mut steps).await {
            Ok(session) => return Ok((steps.opened(session, streamable), true)),
            Err(error) => error,
        };
        let mut is_certain = true;
        if let Some(rpc) = rpc_of(&error).filter(|_| was_silent) {
            if let Some(version) = stateless_version(rpc) {
                let session = self.step(stateless(version), &mut steps).await?;
                return Ok((steps.opened(session, stateless(version)), true));
            }
            // A server that was too slow to answer the first `server/discover` may have no
            // handshake.
            match self.discover(&mut steps).await? {
                (Discovered::Stateless(version), session) => {
                    return Ok((steps.opened(session, stateless(version)), true));
                }
                (Discovered::Silence, _) => is_certain = false,
                _ => {}
            }
        }
        let post_sse = ServerDialect {
            transport: TransportKind::PostSse,
            opening: Opening::None,
        };
        let next = match &error {
            McpErrorKind::Rpc(_) => post_sse,
            McpErrorKind::HttpStatus { rpc: Some(rpc), .. } if rpc.code == METHOD_NOT_FOUND => {
                post_sse
            }
            McpErrorKind::NoResponse => dialect(TransportKind::GetSse),
            error if is_status(error, &NOT_STREAMABLE) => dialect(TransportKind::LegacySse),
            _ => return Err(error),
        };
        match self.step(next, &mut steps).await {
            Ok(session) => Ok((steps.opened(session, next), is_certain)),
            // The error of `initialize` explains more than the missing GET stream.
            Err(second) if is_status(&second, &NOT_STREAMABLE) => Err(error),
            Err(McpErrorKind::ContentType { .. }) => Err(error),
            Err(second) => Err(second),
        }
    }

    /// Requests the server's revisions (`server/discover`) in the newest supported revision, and
    /// once more in another revision if the server asks for that.
    async fn discover(&self, steps: &mut Steps) -> Result<(Discovered, Session), McpErrorKind> {
        match self.discover_in(ProtocolVersion::LATEST, steps).await? {
            (Discovered::AskIn(version), _) => match self.discover_in(version, steps).await? {
                (Discovered::AskIn(version), _) => Err(McpErrorKind::NoCommonVersion {
                    supported: version.to_string(),
                }),
                found => Ok(found),
            },
            found => Ok(found),
        }
    }

    async fn discover_in(
        &self,
        version: ProtocolVersion,
        steps: &mut Steps,
    ) -> Result<(Discovered, Session), McpErrorKind> {
        const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
        let mut session = self.post_session(IdStyle::Number);
        session.set_version(version);
        let timeout = DISCOVER_TIMEOUT.min(self.config.timeout / 4);
        let params = empty_object();
        let request = session.ask("server/discover", &params);
        let response = self.link.in_time(timeout, request).await;
        let outcome = response.unwrap_or(Err(McpErrorKind::timeout(timeout)));
        let found = discovered(outcome, &mut session);
        let tried = format!("POST server/discover ({version})");
        steps.note(tried, found.as_ref().map(Discovered::describe));
        Ok((found?, session))
    }

    /// Tries to open a session with a transport and revision, in at most half of the remaining
    /// time, so that another attempt is possible.
    async fn try_dialect(
        &self,
        dialect: ServerDialect,
        steps: &mut Steps,
    ) -> Result<Session, McpErrorKind> {
        let after = self.config.timeout / 2;
        if let Some(opened) = self.link.in_time(after, self.step(dialect, steps)).await {
            return opened;
        }
        let error = McpErrorKind::timeout(after);
        steps.note(dialect.describe(), Err(&error));
        Err(error)
    }

    /// Opens a session with a transport and revision, and records the outcome in `steps`.
    async fn step(
        &self,
        dialect: ServerDialect,
        steps: &mut Steps,
    ) -> Result<Session, McpErrorKind> {
        let mut opened = self.open_as(dialect).await;
        // If the stream for responses closes during the handshake, the handshake starts again,
        // which is harmless.
        for _ in 0..MAX_REPEATS {
            if !matches!(opened, Err(McpErrorKind::StreamClosed)) {
                break;
            }
            opened = self.open_as(dialect).await;
        }
        let negotiated = opened.as_ref().map(Session::describe_version);
        steps.note(dialect.describe(), negotiated);
        opened
    }

    async fn open_as(&self, dialect: ServerDialect) -> Result<Session, McpErrorKind> {
        let mut session = match dialect.transport {
            TransportKind::LegacySse => self.stream_session(EndpointRule::Announced).await?,
            TransportKind::GetSse => self.stream_session(EndpointRule::SameUrl).await?,
            TransportKind::PostSse => self.post_session(IdStyle::Mcp),
            TransportKind::Auto
            | TransportKind::StreamableHttp
            | TransportKind::Http
            | TransportKind::WebSocket
            | TransportKind::Stdio => self.post_session(IdStyle::Number),
        };
        match dialect.opening {
            Opening::Stateless(version) => session.set_version(version),
            Opening::Handshake(offered) => session.initialize(offered).await?,
            Opening::None => {}
        }
        Ok(session)
    }

    fn post_session(&self, ids: IdStyle) -> Session {
        let peer = Arc::clone(&self.peer);
        let transport = PostTransport::new(self.link.clone(), Arc::clone(&peer));
        Session::new(Box::new(transport), peer, ids)
    }

    async fn stream_session(&self, rule: EndpointRule) -> Result<Session, McpErrorKind> {
        let peer = Arc::clone(&self.peer);
        let link = self.link.clone();
        let transport = EventStreamTransport::open(link, rule, Arc::clone(&peer)).await?;
        Ok(Session::new(Box::new(transport), peer, IdStyle::Number))
    }
}

/// Returns Streamable HTTP without a handshake, in this revision.
fn stateless(version: ProtocolVersion) -> ServerDialect {
    ServerDialect {
        transport: TransportKind::StreamableHttp,
        opening: Opening::Stateless(version),
    }
}
