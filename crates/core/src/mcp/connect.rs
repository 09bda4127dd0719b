//! Finding out how a server wants to be spoken to.

use http::StatusCode;

use super::http::{HttpLink, is_status};
use super::session::{IdStyle, Session};
use super::transport::{EndpointRule, EventStreamTransport, PostTransport};
use super::{Handshake, McpErrorKind, ProtocolVersion, ServerConfig, TransportKind};

/// A way of speaking that has worked, remembered so that the next connection need not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    transport: TransportKind,
    handshake: bool,
}

/// Opens a session in the way that is configured or known; otherwise finds out:
///
/// 1. POST `initialize`. A result: Streamable HTTP.
/// 2. A JSON-RPC error: a server without handshake, spoken to as POST-SSE.
/// 3. HTTP 400, 404 or 405, or an empty answer: a GET stream, with its `endpoint` event or,
///    after an empty answer, without.
pub(super) async fn open(
    config: &ServerConfig,
    link: &HttpLink,
    known: Option<Dialect>,
) -> Result<(Session, Dialect), McpErrorKind> {
    let handshake = config.handshake == Handshake::Auto;
    let pinned = match (config.transport, handshake) {
        (TransportKind::Auto, true) => known,
        (TransportKind::Auto, false) => Some(Dialect {
            transport: TransportKind::PostSse,
            handshake: false,
        }),
        (TransportKind::PostSse, _) => Some(Dialect {
            transport: TransportKind::PostSse,
            handshake: false,
        }),
        (transport, handshake) => Some(Dialect {
            transport,
            handshake,
        }),
    };
    match pinned {
        Some(dialect) => Ok((open_as(config, link, dialect).await?, dialect)),
        None => find_out(config, link).await,
    }
}

async fn find_out(
    config: &ServerConfig,
    link: &HttpLink,
) -> Result<(Session, Dialect), McpErrorKind> {
    const NOT_STREAMABLE: [StatusCode; 3] = [
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
    ];
    let attempt = async |transport, handshake| {
        let dialect = Dialect {
            transport,
            handshake,
        };
        let session = open_as(config, link, dialect).await?;
        Ok::<_, McpErrorKind>((session, dialect))
    };
    match attempt(TransportKind::StreamableHttp, true).await {
        Err(McpErrorKind::Rpc(error)) => {
            tracing::debug!(%error, "No handshake with this server");
            attempt(TransportKind::PostSse, false).await
        }
        Err(McpErrorKind::NoResponse) => attempt(TransportKind::GetSse, true).await,
        // The first error says more than that there is no stream either.
        Err(error) if is_status(&error, &NOT_STREAMABLE) => {
            match attempt(TransportKind::LegacySse, true).await {
                Err(stream_error) if is_status(&stream_error, &NOT_STREAMABLE) => Err(error),
                other => other,
            }
        }
        other => other,
    }
}

async fn open_as(
    config: &ServerConfig,
    link: &HttpLink,
    dialect: Dialect,
) -> Result<Session, McpErrorKind> {
    let link = link.clone();
    let session = match dialect.transport {
        TransportKind::LegacySse => event_stream(link, EndpointRule::Announced).await?,
        TransportKind::GetSse => event_stream(link, EndpointRule::SameUrl).await?,
        TransportKind::PostSse => Session::new(Box::new(PostTransport::new(link)), IdStyle::Mcp),
        TransportKind::Auto | TransportKind::StreamableHttp | TransportKind::Http => {
            Session::new(Box::new(PostTransport::new(link)), IdStyle::Number)
        }
    };
    if dialect.handshake {
        let offered = config.protocol_version.unwrap_or(ProtocolVersion::LATEST);
        session.initialize(offered).await?;
    }
    Ok(session)
}

async fn event_stream(link: HttpLink, rule: EndpointRule) -> Result<Session, McpErrorKind> {
    let transport = EventStreamTransport::open(link, rule).await?;
    Ok(Session::new(Box::new(transport), IdStyle::Number))
}
