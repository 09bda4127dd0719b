use std::fmt;
use std::marker::PhantomData;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pillion_wire::route::Route;
use serde::Serialize;

use crate::{Caller, Client, ClientError, Response, Stream};

/// The characters that are percent-encoded in a query value.
const QUERY_ESCAPES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'&')
    .add(b'+')
    .add(b'=')
    .add(b'%');

/// A request to one route, whose response body is an `R`. Created by [`Client::request`].
///
/// Each `send` method returns a [`ClientError`] if the sidecar is not running, the deadline passed
/// or the connection broke. A response whose status is not 2xx is a [`ClientError::Status`], or a
/// [`ClientError::Decode`] if the body of the response is not a [`Failure`](pillion_wire::Failure).
#[must_use = "only the `send` methods send the request"]
pub struct Request<'a, R> {
    client: &'a Client,
    method: &'static str,
    target: String,
    caller: Option<&'a Caller>,
    tools: Vec<&'a str>,
    response: PhantomData<fn() -> R>,
}

impl<'a, R> Request<'a, R> {
    pub(crate) fn new<const N: usize>(
        client: &'a Client,
        route: Route<R, N>,
        parameters: [&str; N],
    ) -> Self {
        Self {
            client,
            method: route.method,
            target: route.path_with(parameters),
            caller: None,
            tools: Vec::new(),
            response: PhantomData,
        }
    }

    /// Adds parameters to the query.
    pub fn query<'q>(
        mut self,
        parameters: impl IntoIterator<Item = (&'q str, impl AsRef<str>)>,
    ) -> Self {
        for (name, value) in parameters {
            let separator = if self.target.contains('?') { '&' } else { '?' };
            self.target.push(separator);
            self.target.push_str(name);
            self.target.push('=');
            let value = utf8_percent_encode(value.as_ref(), QUERY_ESCAPES);
            self.target.extend(value);
        }
        self
    }

    /// Sets the identity and options of the caller.
    pub fn caller(mut self, caller: &'a Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Sets the tools that the request runs. If the request times out, its error is a
    /// [`ClientError::ToolTimeout`], which names these tools.
    pub fn tools(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.tools = names.into_iter().collect();
        self
    }

    /// Sends the request without a body, or with an empty body if the method requires a body.
    ///
    /// # Errors
    /// The errors that [`Request`] lists.
    pub fn send(self) -> Result<Response<R>, ClientError> {
        let has_body = !matches!(self.method, "GET" | "DELETE");
        self.exchange(has_body.then_some(b""))
    }

    /// Sends the request with a body that is already JSON.
    ///
    /// # Errors
    /// The errors that [`Request`] lists.
    pub fn send_bytes(self, body: &[u8]) -> Result<Response<R>, ClientError> {
        self.exchange(Some(body))
    }

    /// Sends the request with `body` as JSON.
    ///
    /// # Errors
    /// The errors that [`Request`] lists; [`ClientError::Encode`] if the body cannot be encoded.
    pub fn send_json<B: Serialize + ?Sized>(self, body: &B) -> Result<Response<R>, ClientError> {
        let body = serde_json::to_vec(body).map_err(|source| ClientError::Encode { source })?;
        self.exchange(Some(&body))
    }

    /// Sends the request with a body that is already JSON. Returns when the head of the response
    /// has arrived.
    ///
    /// # Errors
    /// The errors that [`Request`] lists.
    pub fn send_for_stream(self, body: &[u8]) -> Result<Stream, ClientError> {
        let client = self.client;
        let (status, mut stream) =
            client.open_stream(self.method, &self.target, body, self.caller)?;
        if is_success(status) {
            return Ok(stream);
        }
        let mut failure_body = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Err(ClientError::from_response(status, &failure_body)),
                byte_count => failure_body.extend_from_slice(&buffer[..byte_count]),
            }
        }
    }

    fn exchange(self, body: Option<&[u8]>) -> Result<Response<R>, ClientError> {
        let client = self.client;
        let (status, body) = client
            .exchange(self.method, &self.target, body, self.caller)
            .map_err(|error| error.into_tool_timeout(self.tools))?;
        if is_success(status) {
            return Ok(Response::new(status, body));
        }
        Err(ClientError::from_response(status, &body))
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

impl<R> fmt::Debug for Request<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pillion_wire::route;

    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        let client = Client::new("/nowhere");
        let request = client
            .request(route::LIST_TOOLS, [])
            .query(Some(("category", "a&b")))
            .query([("x", "+")]);
        assert_eq!(request.target, "/api/v1/tools/?category=a%26b&x=%2B");
    }
}
