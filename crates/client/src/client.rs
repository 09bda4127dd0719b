mod builder;
mod stream;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use pillion_wire::route::{self, Route};
use pillion_wire::{BatchCall, BatchMode, ExecuteResponse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{self, HeaderValue};
use ureq::{Agent, Body};

pub use builder::ClientBuilder;
pub use stream::Stream;

use crate::socket_path::is_non_socket_file;
use crate::transport::{InterruptHook, Interrupted, NoResolver, SocketConnectError, UnixConnector};
use crate::{BatchPart, Caller, ClientError, Request, batch};

/// The base URL of every request. HTTP requires a host; a Unix socket ignores the host.
const BASE_URL: &str = "http://pillion";

/// A client of the sidecar. See the [crate documentation](crate) for an example.
///
/// A client can be shared between threads. Creating a client does no I/O.
#[derive(Debug)]
pub struct Client {
    settings: ClientBuilder,
    /// The agent, and the ID of the process that created the agent; `None` before the first
    /// request. A forked child process must not use the connections of its parent.
    agent: Mutex<Option<(u32, Agent)>>,
}

impl Client {
    /// Creates a client for the socket at `path`, with the default settings of [`ClientBuilder`].
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::builder(path).build()
    }

    /// Returns a builder for a client of the socket at `path`.
    #[must_use]
    pub fn builder(path: impl Into<PathBuf>) -> ClientBuilder {
        ClientBuilder::new(path.into())
    }

    /// Returns the socket's path.
    #[must_use]
    pub fn socket_path(&self) -> &Path {
        &self.settings.path
    }

    /// Returns a request to a route with the given path parameters. The request is sent by one of
    /// its `send` methods.
    pub fn request<R, const N: usize>(
        &self,
        route: Route<R, N>,
        parameters: [&str; N],
    ) -> Request<'_, R> {
        Request::new(self, route, parameters)
    }

    /// Sends a request to a route without parameters, and decodes the response.
    ///
    /// # Errors
    /// The errors that [`Request`] lists, and the errors of
    /// [`Response::decode`](crate::Response::decode).
    pub fn fetch<R: DeserializeOwned>(&self, route: Route<R, 0>) -> Result<R, ClientError> {
        self.request(route, []).send()?.decode()
    }

    /// Runs one tool. For a failed call and for an unknown tool, returns an [`ExecuteResponse`],
    /// not an error.
    ///
    /// # Errors
    /// The same errors as [`send_json`](Request::send_json). The status of the sidecar's response
    /// is 400 for arguments that are not an object, and 413 for a body over the sidecar's limit.
    pub fn execute<A: Serialize + ?Sized>(
        &self,
        tool: &str,
        arguments: &A,
        caller: &Caller,
    ) -> Result<ExecuteResponse, ClientError> {
        let request = self.request(route::EXECUTE_TOOL, [tool]).tools([tool]);
        request.caller(caller).send_json(arguments)?.decode()
    }

    /// Runs any number of calls in as few requests as the sidecar accepts. The requests are sent
    /// one after the other. The returned parts are in the order of the calls.
    ///
    /// When the sidecar rejects a request as too large, or for its number of calls, each half of
    /// its calls is sent in a separate request, so that a rejected call does not prevent other
    /// calls from running. When the sidecar does not respond to a request in time, or closes the
    /// connection, the remaining calls are not sent ([`ClientError::NotSent`]). When a batch takes
    /// several requests, each request has its own idempotency key, derived from the [`Caller`]'s.
    ///
    /// # Errors
    /// - [`ClientError::Encode`]: the arguments of a call cannot be encoded as JSON.
    /// - [`ClientError::Interrupted`]: the interrupt hook ended the wait.
    /// - The error of the first request: all requests failed. Not returned if the sidecar rejected
    ///   a single call as too large, because that call's [`BatchPart`] has the error.
    pub fn batch_in_parts(
        &self,
        calls: &[BatchCall],
        mode: BatchMode,
        caller: &Caller,
    ) -> Result<Vec<BatchPart>, ClientError> {
        batch::send_in_parts(self, calls, mode, caller)
    }

    /// Sends one request, and reads the response.
    pub(crate) fn exchange(
        &self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        caller: Option<&Caller>,
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let mut response = self.send(method, target, body, caller)?;
        let limit = self.settings.max_response_bytes;
        let body = response
            .body_mut()
            .with_config()
            .limit(limit)
            .read_to_vec()
            .map_err(|error| self.settings.translate(error))?;
        Ok((response.status().as_u16(), body))
    }

    /// Sends one request whose response is read as a stream.
    pub(crate) fn open_stream(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        caller: Option<&Caller>,
    ) -> Result<(u16, Stream), ClientError> {
        let response = self.send(method, target, Some(body), caller)?;
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config();
        let reader = body.limit(self.settings.max_response_bytes).reader();
        Ok((status, Stream::new(self.settings.clone(), reader)))
    }

    /// Sends one request and waits for the head of the response.
    fn send(
        &self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
        caller: Option<&Caller>,
    ) -> Result<http::Response<Body>, ClientError> {
        let agent = self.agent();
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{BASE_URL}{target}"));
        for (header, value) in caller.into_iter().flat_map(Caller::headers) {
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| ClientError::InvalidHeader { header })?;
            request = request.header(header, value);
        }
        let response = match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body)
                .map_err(ureq::Error::from)
                .and_then(|request| agent.run(request)),
            None => request
                .body(())
                .map_err(ureq::Error::from)
                .and_then(|request| agent.run(request)),
        };
        response.map_err(|error| self.settings.translate(error))
    }

    fn agent(&self) -> Agent {
        let pid = std::process::id();
        let mut agent_slot = self.agent.lock();
        match &*agent_slot {
            Some((owner_pid, agent)) if *owner_pid == pid => agent.clone(),
            _ => {
                // Dropping the parent's agent closes the copies of the parent's connections that
                // this process has inherited. The parent's own connections stay open.
                let agent = self.settings.agent();
                *agent_slot = Some((pid, agent.clone()));
                agent
            }
        }
    }
}

impl ClientBuilder {
    /// Converts an error of `ureq` to a [`ClientError`].
    fn translate(&self, error: ureq::Error) -> ClientError {
        let path = || self.path.clone();
        match error {
            ureq::Error::Timeout(_) => ClientError::Timeout {
                timeout: self.timeout,
            },
            ureq::Error::BodyExceedsLimit(limit_bytes) => ClientError::TooLarge { limit_bytes },
            ureq::Error::Io(source) if is_interrupt(&source) => ClientError::Interrupted,
            ureq::Error::Io(source) => ClientError::Disconnected { source },
            ureq::Error::Other(source) => match source.downcast::<SocketConnectError>() {
                Ok(error) if is_not_listening(&error.0) && is_non_socket_file(&self.path) => {
                    ClientError::Connect {
                        path: path(),
                        source: std::io::Error::other("the file is not a socket"),
                    }
                }
                Ok(error) if is_not_listening(&error.0) => ClientError::NotRunning {
                    path: path(),
                    source: error.0,
                },
                Ok(error) => ClientError::Connect {
                    path: path(),
                    source: error.0,
                },
                Err(source) => ClientError::Protocol { source },
            },
            ureq_error => ClientError::Protocol {
                source: Box::new(ureq_error),
            },
        }
    }
}

fn is_interrupt(error: &std::io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|source| source.is::<Interrupted>())
}

fn is_not_listening(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused)
}

#[cfg(test)]
mod tests;
