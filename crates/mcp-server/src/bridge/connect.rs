use std::io;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONNECTION, HOST, InvalidHeaderValue, UPGRADE};
use axum::http::{HeaderValue, Request, StatusCode};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use pillion_client::is_non_socket_file;
use pillion_wire::{CHANNEL_HEADER, Failure, USER_HEADER, route};
use tokio::net::UnixStream;
use tokio::time::timeout;
use url::form_urlencoded;

use crate::stdio::PROTOCOL;

/// Maximum time for connecting to a sidecar.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of an error response that is read, in bytes.
const MAX_REJECTION_BYTES: usize = 64 * 1024;

/// An upgraded connection that carries a client's messages.
pub type Connection = TokioIo<Upgraded>;

/// The address of the sidecar, and the user, channel and model of the client.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path of the sidecar's socket.
    pub socket: PathBuf,
    /// The user on whose behalf calls run.
    pub user: Option<String>,
    /// The channel from which the calls come.
    pub channel: Option<String>,
    /// The model whose tools the client sees.
    pub model: Option<String>,
}

/// Why the bridge could not connect to a sidecar.
#[derive(Debug, thiserror::Error)]
pub enum BridgeConnectError {
    /// No process listens on the socket.
    #[error("no sidecar listens on {}", socket.display())]
    NotListening {
        /// The path of the socket.
        socket: PathBuf,
    },
    /// The operating system denied access to the socket.
    #[error(
        "permission denied for the sidecar's socket {}: only the sidecar's user, root and the \
         members of socket.group can connect",
        socket.display()
    )]
    NoPermission {
        /// The path of the socket.
        socket: PathBuf,
    },
    /// Connecting to the socket failed.
    #[error("cannot connect to the sidecar at {}: {source}", socket.display())]
    Socket {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The sidecar rejected the connection.
    #[error("the sidecar at {} rejected the connection: {}", socket.display(), failure.error)]
    Rejected {
        /// The path of the socket.
        socket: PathBuf,
        /// The HTTP status of the response.
        status: StatusCode,
        /// The problem details (RFC 9457) in the response body, which state why the sidecar
        /// rejected the connection.
        failure: Box<Failure>,
    },
    /// The sidecar did not respond in time.
    #[error(
        "the sidecar at {} did not respond within {:.0}s",
        socket.display(),
        CONNECT_TIMEOUT.as_secs_f64()
    )]
    TooSlow {
        /// The path of the socket.
        socket: PathBuf,
    },
    /// The process that listens is not a sidecar of this version.
    #[error(
        "the process that listens on {} is not a sidecar of this version: it responded with HTTP \
         status {status}",
        socket.display()
    )]
    NoSidecar {
        /// The path of the socket.
        socket: PathBuf,
        /// The HTTP status of the response.
        status: StatusCode,
    },
    /// The connection failed before the sidecar accepted the upgrade.
    #[error("the connection to the sidecar was lost: {0}")]
    Http(#[from] hyper::Error),
    /// The user or the channel cannot be sent in a header.
    #[error("the user or channel is not a valid HTTP header value: {0}")]
    User(#[from] InvalidHeaderValue),
    /// The HTTP request to the sidecar cannot be created.
    #[error("cannot create the HTTP request: {0}")]
    Request(#[from] axum::http::Error),
}

impl BridgeConnectError {
    /// Returns whether no sidecar is listening.
    pub fn is_not_listening(&self) -> bool {
        matches!(self, Self::NotListening { .. })
    }

    /// Returns whether the sidecar rejected the request as invalid.
    pub fn is_bad_request(&self) -> bool {
        let bad_request = StatusCode::BAD_REQUEST;
        matches!(self, Self::Rejected { status, .. } if *status == bad_request)
    }
}

impl Target {
    /// Connects to the sidecar, and upgrades the connection.
    pub async fn connect(&self) -> Result<Connection, BridgeConnectError> {
        let socket = self.socket.clone();
        let connect_result = timeout(CONNECT_TIMEOUT, self.open()).await;
        connect_result.unwrap_or(Err(BridgeConnectError::TooSlow { socket }))
    }

    async fn open(&self) -> Result<Connection, BridgeConnectError> {
        let connect_result = UnixStream::connect(&self.socket).await;
        let stream = connect_result.map_err(|source| {
            let socket = self.socket.clone();
            match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                    if !is_non_socket_file(&socket) =>
                {
                    BridgeConnectError::NotListening { socket }
                }
                io::ErrorKind::PermissionDenied => BridgeConnectError::NoPermission { socket },
                _ if is_non_socket_file(&socket) => BridgeConnectError::Socket {
                    socket,
                    source: io::Error::other("the file is not a socket"),
                },
                _ => BridgeConnectError::Socket { socket, source },
            }
        })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // This background task ends when the connection is closed or upgraded.
        tokio::spawn(connection.with_upgrades());
        let response = sender.send_request(self.build_upgrade_request()?).await?;
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(TokioIo::new(hyper::upgrade::on(response).await?));
        }
        let body = to_bytes(Body::new(response.into_body()), MAX_REJECTION_BYTES).await;
        let failure = serde_json::from_slice::<Failure>(&body.unwrap_or_default()).ok();
        let socket = self.socket.clone();
        Err(match failure {
            Some(failure) if status != StatusCode::NOT_FOUND => BridgeConnectError::Rejected {
                socket,
                status,
                failure: Box::new(failure),
            },
            _ => BridgeConnectError::NoSidecar { socket, status },
        })
    }

    fn build_upgrade_request(&self) -> Result<Request<Body>, BridgeConnectError> {
        let mut path = route::MCP_STDIO.path.to_owned();
        if let Some(model) = &self.model {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("model", model);
            path = format!("{path}?{}", query.finish());
        }
        let mut request = Request::post(path)
            .header(HOST, "pillion")
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, PROTOCOL)
            .body(Body::empty())?;
        for (header, text) in [(USER_HEADER, &self.user), (CHANNEL_HEADER, &self.channel)] {
            if let Some(text) = text {
                let value = HeaderValue::from_bytes(text.as_bytes())?;
                request.headers_mut().insert(header, value);
            }
        }
        Ok(request)
    }
}
