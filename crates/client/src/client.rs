mod builder;
mod stream;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use pillion_wire::{
    BatchRequest, BatchResponse, ExecuteResponse, Health, SchemaList, Status, ToolList,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{HeaderValue, Request, Response};
use ureq::{Agent, Body};

pub use builder::ClientBuilder;
pub use stream::Stream;

use crate::socket_path::is_another_file;
use crate::transport::{InterruptHook, Interrupted, NoResolver, SocketConnectError, UnixConnector};
use crate::{Caller, ClientError, Raw};

/// The host of every request. HTTP requires a host; a Unix socket ignores it.
const HOST: &str = "http://pillion";

/// A client of the sidecar. See the [crate documentation](crate) for an example.
///
/// A client may be shared between threads. Creating a client does no I/O.
#[derive(Debug)]
pub struct Client {
    settings: ClientBuilder,
    /// The agent and the id of the process that created it: a forked child must not use its
    /// parent's connections.
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

    /// Returns an interface to the same calls with undecoded bodies.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw::new(self)
    }

    /// Returns the sidecar's version and its number of tools, if the sidecar is up.
    ///
    /// # Errors
    /// [`ClientError`]: the sidecar is not running, the deadline passed, the connection broke, or
    /// the response is invalid.
    pub fn health(&self) -> Result<Health, ClientError> {
        decode(&self.raw().health()?)
    }

    /// Returns the sidecar's status: its counters, MCP servers and process.
    ///
    /// # Errors
    /// As for [`health`](Self::health).
    pub fn status(&self) -> Result<Status, ClientError> {
        decode(&self.raw().status()?)
    }

    /// Returns all tools with their parameters, or the tools of one category.
    ///
    /// # Errors
    /// As for [`health`](Self::health).
    pub fn list_tools(&self, category: Option<&str>) -> Result<ToolList, ClientError> {
        decode(&self.raw().list_tools(category)?)
    }

    /// Returns the schemas of all tools in OpenAI's format, or of the tools of one category.
    ///
    /// # Errors
    /// As for [`health`](Self::health).
    pub fn schemas(&self, category: Option<&str>) -> Result<SchemaList, ClientError> {
        decode(&self.raw().schemas(category)?)
    }

    /// Runs one tool. A failed call and an unknown tool are an [`ExecuteResponse`], not an error.
    ///
    /// # Errors
    /// As for [`health`](Self::health); also [`ClientError::Encode`] for arguments that cannot be
    /// encoded as JSON, and [`ClientError::Status`] when the sidecar rejects the request: 400 for
    /// arguments that are not an object, 413 for a body over the sidecar's limit.
    pub fn execute<A: Serialize + ?Sized>(
        &self,
        tool: &str,
        arguments: &A,
        caller: &Caller,
    ) -> Result<ExecuteResponse, ClientError> {
        decode(&self.raw().execute(tool, &encode(arguments)?, caller)?)
    }

    /// Runs several calls in one request. The results have the order of the calls.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn batch(
        &self,
        request: &BatchRequest,
        caller: &Caller,
    ) -> Result<BatchResponse, ClientError> {
        decode(&self.raw().batch(&encode(request)?, caller)?)
    }

    /// Sends one request: `POST` if there is a body, else `GET`.
    pub(crate) fn send(
        &self,
        path: &str,
        body: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let method = if body.is_some() { "POST" } else { "GET" };
        self.send_as(method, path, body, caller)
    }

    /// Sends one request with the given method.
    pub(crate) fn send_as(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let mut response = self.ask(method, path, body, caller)?;
        let body = response
            .body_mut()
            .with_config()
            .limit(self.settings.max_response_bytes)
            .read_to_vec()
            .map_err(|error| self.settings.translate(error))?;
        Ok((response.status().as_u16(), body))
    }

    /// Sends a `POST` request whose response is read as a stream.
    pub(crate) fn send_for_stream(
        &self,
        path: &str,
        body: &[u8],
        caller: &Caller,
    ) -> Result<(u16, Stream), ClientError> {
        let response = self.ask("POST", path, Some(body), caller)?;
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config();
        let reader = body.limit(self.settings.max_response_bytes).reader();
        Ok((status, Stream::new(self.settings.clone(), reader)))
    }

    /// Sends one request and waits for the head of the response.
    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        caller: &Caller,
    ) -> Result<Response<Body>, ClientError> {
        let agent = self.agent();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{HOST}{path}"));
        for (header, value) in caller.headers() {
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
        let process = std::process::id();
        let mut slot = self.agent.lock();
        match &*slot {
            Some((owner, agent)) if *owner == process => agent.clone(),
            _ => {
                // Dropping the parent's agent closes this process's copies of the parent's
                // connections; the parent's own stay open.
                let agent = self.settings.agent();
                *slot = Some((process, agent.clone()));
                agent
            }
        }
    }
}

impl ClientBuilder {
    /// Translates an error of `ureq`.
    fn translate(&self, error: ureq::Error) -> ClientError {
        let path = || self.path.clone();
        match error {
            ureq::Error::Timeout(_) => ClientError::Timeout {
                after: self.timeout,
            },
            ureq::Error::BodyExceedsLimit(limit_bytes) => ClientError::TooLarge { limit_bytes },
            ureq::Error::Io(source) if is_interrupt(&source) => ClientError::Interrupted,
            ureq::Error::Io(source) => ClientError::Disconnected { source },
            ureq::Error::Other(source) => match source.downcast::<SocketConnectError>() {
                Ok(error) if is_not_listening(&error.0) && is_another_file(&self.path) => {
                    ClientError::Connect {
                        path: path(),
                        source: std::io::Error::other("it is not a socket"),
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
            other => ClientError::Protocol {
                source: Box::new(other),
            },
        }
    }
}

fn is_interrupt(error: &std::io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<Interrupted>())
}

fn is_not_listening(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error.kind(), NotFound | ConnectionRefused)
}

fn encode<A: Serialize + ?Sized>(value: &A) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(value).map_err(|source| ClientError::Encode { source })
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|source| ClientError::Decode {
        status: 200,
        source,
    })
}

#[cfg(test)]
mod tests;
