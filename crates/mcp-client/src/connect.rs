//! Detects the transport and protocol revision of a server, and opens a session.

mod channel;
mod discovered;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::callbacks::empty_object;
use super::dialect::{ServerDialect, SessionStart};
use super::http::{HttpLink, has_status};
use super::peer::Peer;
use super::probe::{ProbeStep, ProbeSteps};
use super::session::{IdStyle, Session};
use super::transport::{EndpointRule, EventStreamTransport, PostTransport};
use super::{McpErrorKind, ProtocolVersion, ServerConfig, TransportKind};
use pillion_egress::MAX_REPEATS;

pub(super) use channel::{ChannelConnector, ChannelLink};
use discovered::{DiscoverOutcome, find_stateless_version, interpret_response, rpc_error};
pub(super) use discovered::{HEADER_MISMATCH, UNSUPPORTED_VERSION, find_newest_common_revision};

/// Opens sessions over HTTP, and detects the server's transport and revision.
pub(super) struct HttpConnector {
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

impl ProbeSteps {
    fn into_opened_session(self, session: Session, dialect: ServerDialect) -> OpenedSession {
        OpenedSession {
            session,
            dialect,
            steps: self.snapshot(),
        }
    }
}

/// The HTTP statuses that a server returns if its URL does not support Streamable HTTP.
const NOT_STREAMABLE_STATUSES: [StatusCode; 3] = [
    StatusCode::BAD_REQUEST,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
];

const METHOD_NOT_FOUND: i64 = -32601;

impl HttpConnector {
    /// Opens a session with the configured or cached transport and revision, or else detects them.
    pub(super) async fn open(&self, mut steps: ProbeSteps) -> Result<OpenedSession, McpErrorKind> {
        if let Some(dialect) = self.configured_dialect() {
            let session = self.open_configured(dialect, &mut steps).await?;
            return Ok(steps.into_opened_session(session, dialect));
        }
        let uses_cache = self.config.protocol_version.is_none();
        if let Some(dialect) = ServerDialect::find_cached(&self.config).filter(|_| uses_cache) {
            match self.try_dialect(dialect, &mut steps).await {
                Ok(session) => return Ok(steps.into_opened_session(session, dialect)),
                // A failed connection, egress check or authorization does not depend on the
                // transport and the revision, so detecting another transport or revision would not
                // help.
                Err(
                    error @ (McpErrorKind::ConnectionFailed(_)
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
        let (opened_session, is_certain) = self.detect(steps).await?;
        if uses_cache && is_certain {
            opened_session.dialect.remember(&self.config);
        }
        Ok(opened_session)
    }

    /// Returns the transport and session start according to the configuration; `None` if the client
    /// must detect the transport.
    fn configured_dialect(&self) -> Option<ServerDialect> {
        let dialect = |transport, start| Some(ServerDialect::new(transport, start));
        let configured_start = SessionStart::from_config(&self.config);
        let session_start =
            configured_start.unwrap_or(SessionStart::Handshake(self.requested_version()));
        match (self.config.transport, session_start) {
            (TransportKind::Auto, SessionStart::None) | (TransportKind::PostSse, _) => {
                dialect(TransportKind::PostSse, SessionStart::None)
            }
            (TransportKind::Auto, SessionStart::Stateless(_)) => {
                dialect(TransportKind::StreamableHttp, session_start)
            }
            (TransportKind::Auto, SessionStart::Handshake(_)) => None,
            (transport, _) => dialect(transport, session_start),
        }
    }

    /// Returns the revision that a handshake requests: the configured revision, or else the newest
    /// one.
    fn requested_version(&self) -> ProtocolVersion {
        let configured_version = self.config.protocol_version;
        configured_version.unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE)
    }

    /// Opens a session as configured. A server that no longer has a handshake rejects `initialize`
    /// and lists its revisions. The session then uses one of the listed revisions, unless a
    /// revision is configured.
    async fn open_configured(
        &self,
        dialect: ServerDialect,
        steps: &mut ProbeSteps,
    ) -> Result<Session, McpErrorKind> {
        let outcome = self.try_open(dialect, steps).await;
        let is_default = matches!(dialect.session_start, SessionStart::Handshake(_))
            && self.config.protocol_version.is_none();
        let error = outcome.as_ref().err().filter(|_| is_default);
        match error.and_then(rpc_error).and_then(find_stateless_version) {
            Some(version) => {
                let start = SessionStart::Stateless(version);
                let stateless = ServerDialect::new(dialect.transport, start);
                self.try_open(stateless, steps).await
            }
            None => outcome,
        }
    }

    /// Detects the transport and revision:
    ///
    /// 1. POST `server/discover`. If it returns a result, or an error that exists only since
    ///    revision 2026-07-28, the server has no handshake.
    /// 2. Otherwise POST `initialize`. If it returns a result, the server uses Streamable HTTP.
    /// 3. If the server does not know `initialize`, the server has no handshake. If step 1 timed
    ///    out, repeat step 1 once. If the repetition returns no revision, or step 1 did not time
    ///    out, use POST-SSE.
    /// 4. If step 2 returned HTTP 400, 404 or 405, open a GET stream, which must start with an
    ///    `endpoint` event (HTTP+SSE). If step 2 returned an empty response, open a GET stream that
    ///    may start with any event.
    ///
    /// The returned flag is `false` if the outcome is a guess that must not be cached.
    async fn detect(&self, mut steps: ProbeSteps) -> Result<(OpenedSession, bool), McpErrorKind> {
        let mut requested_version = self.requested_version();
        let mut has_timed_out = false;
        if self.config.protocol_version.is_none() {
            let (discover_outcome, session) = self.discover(&mut steps).await?;
            match discover_outcome {
                DiscoverOutcome::Stateless(version) => {
                    let stateless = stateless_dialect(version);
                    return Ok((steps.into_opened_session(session, stateless), true));
                }
                DiscoverOutcome::Handshake(version) => requested_version = version,
                DiscoverOutcome::OtherRevision(_) | DiscoverOutcome::Unsupported => {}
                DiscoverOutcome::NoResponse => has_timed_out = true,
            }
        }
        let start = SessionStart::Handshake(requested_version);
        let dialect = |transport| ServerDialect::new(transport, start);
        let streamable_http = dialect(TransportKind::StreamableHttp);
        let error = match self.try_dialect(streamable_http, &mut steps).await {
            Ok(session) => return Ok((steps.into_opened_session(session, streamable_http), true)),
            Err(error) => error,
        };
        let mut is_certain = true;
        if let Some(response_error) = rpc_error(&error).filter(|_| has_timed_out) {
            if let Some(version) = find_stateless_version(response_error) {
                let stateless = stateless_dialect(version);
                let session = self.try_open(stateless, &mut steps).await?;
                return Ok((steps.into_opened_session(session, stateless), true));
            }
            // `server/discover` is sent again, because the server may have no handshake, and may
            // have been too slow for the first request.
            match self.discover(&mut steps).await? {
                (DiscoverOutcome::Stateless(version), session) => {
                    let stateless = stateless_dialect(version);
                    return Ok((steps.into_opened_session(session, stateless), true));
                }
                (DiscoverOutcome::NoResponse, _) => is_certain = false,
                _ => {}
            }
        }
        let post_sse = ServerDialect::new(TransportKind::PostSse, SessionStart::None);
        let fallback = match &error {
            McpErrorKind::Rpc(_) => post_sse,
            _ if rpc_error(&error).is_some_and(|error| error.code == METHOD_NOT_FOUND) => post_sse,
            McpErrorKind::NoResponse => dialect(TransportKind::GetSse),
            _ if has_status(&error, &NOT_STREAMABLE_STATUSES) => dialect(TransportKind::LegacySse),
            _ => return Err(error),
        };
        match self.try_open(fallback, &mut steps).await {
            Ok(session) => Ok((steps.into_opened_session(session, fallback), is_certain)),
            // The error of `initialize` is returned, because it explains more than the missing GET
            // stream.
            Err(fallback_error) if has_status(&fallback_error, &NOT_STREAMABLE_STATUSES) => {
                Err(error)
            }
            Err(McpErrorKind::ContentType { .. }) => Err(error),
            Err(fallback_error) => Err(fallback_error),
        }
    }

    /// Sends `server/discover` in the newest supported revision. If the server rejects that
    /// revision and lists another supported revision without a handshake, sends `server/discover`
    /// once more in the listed revision.
    async fn discover(
        &self,
        steps: &mut ProbeSteps,
    ) -> Result<(DiscoverOutcome, Session), McpErrorKind> {
        let mut version = ProtocolVersion::LATEST;
        for _ in 0..2 {
            match self.discover_in_revision(version, steps).await? {
                (DiscoverOutcome::OtherRevision(other), _) => version = other,
                outcome => return Ok(outcome),
            }
        }
        let supported_versions = version.to_string();
        Err(McpErrorKind::NoCommonVersion { supported_versions })
    }

    async fn discover_in_revision(
        &self,
        version: ProtocolVersion,
        steps: &mut ProbeSteps,
    ) -> Result<(DiscoverOutcome, Session), McpErrorKind> {
        const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
        let mut session = self.new_post_session(IdStyle::Number);
        session.set_version(version);
        let timeout = DISCOVER_TIMEOUT.min(self.config.timeout / 4);
        let params = empty_object();
        let request = session.send_opening_request("server/discover", &params);
        let response = self.link.run_in_time(timeout, request).await;
        let outcome = response.unwrap_or(Err(McpErrorKind::timeout(timeout)));
        let discover_outcome = interpret_response(outcome, &mut session);
        let attempt = format!("POST server/discover ({version})");
        let description = discover_outcome.as_ref().map(DiscoverOutcome::describe);
        steps.record(attempt, description);
        Ok((discover_outcome?, session))
    }

    /// Tries to open a session with a transport and revision, in at most half of the remaining
    /// time, so that another attempt is possible.
    async fn try_dialect(
        &self,
        dialect: ServerDialect,
        steps: &mut ProbeSteps,
    ) -> Result<Session, McpErrorKind> {
        let timeout = self.config.timeout / 2;
        let open_operation = self.try_open(dialect, steps);
        if let Some(outcome) = self.link.run_in_time(timeout, open_operation).await {
            return outcome;
        }
        let error = McpErrorKind::timeout(timeout);
        steps.record(dialect.describe(), Err(&error));
        Err(error)
    }

    /// Opens a session with a transport and revision, and records the outcome in `steps`.
    async fn try_open(
        &self,
        dialect: ServerDialect,
        steps: &mut ProbeSteps,
    ) -> Result<Session, McpErrorKind> {
        let mut outcome = self.open_with_dialect(dialect).await;
        // If the stream for responses closes during the handshake, the handshake starts again,
        // which is harmless.
        for _ in 0..MAX_REPEATS {
            if !matches!(outcome, Err(McpErrorKind::StreamClosed)) {
                break;
            }
            outcome = self.open_with_dialect(dialect).await;
        }
        let description = outcome.as_ref().map(Session::describe_version);
        steps.record(dialect.describe(), description);
        outcome
    }

    async fn open_with_dialect(&self, dialect: ServerDialect) -> Result<Session, McpErrorKind> {
        let mut session = match dialect.transport {
            TransportKind::LegacySse => {
                self.open_stream_session(EndpointRule::AnnouncedUrl).await?
            }
            TransportKind::GetSse => self.open_stream_session(EndpointRule::SameUrl).await?,
            TransportKind::PostSse => self.new_post_session(IdStyle::RandomText),
            TransportKind::Auto
            | TransportKind::StreamableHttp
            | TransportKind::Http
            | TransportKind::WebSocket
            | TransportKind::Stdio => self.new_post_session(IdStyle::Number),
        };
        match dialect.session_start {
            SessionStart::Stateless(version) => session.set_version(version),
            SessionStart::Handshake(version) => session.initialize(version).await?,
            SessionStart::None => {}
        }
        Ok(session)
    }

    fn new_post_session(&self, id_style: IdStyle) -> Session {
        let peer = Arc::clone(&self.peer);
        let transport = PostTransport::new(self.link.clone(), Arc::clone(&peer));
        Session::new(Box::new(transport), peer, id_style)
    }

    async fn open_stream_session(&self, rule: EndpointRule) -> Result<Session, McpErrorKind> {
        let peer = Arc::clone(&self.peer);
        let link = self.link.clone();
        let transport = EventStreamTransport::open(link, rule, Arc::clone(&peer)).await?;
        Ok(Session::new(Box::new(transport), peer, IdStyle::Number))
    }
}

/// Returns the transport Streamable HTTP without a handshake, with the given revision.
fn stateless_dialect(version: ProtocolVersion) -> ServerDialect {
    ServerDialect::new(
        TransportKind::StreamableHttp,
        SessionStart::Stateless(version),
    )
}
