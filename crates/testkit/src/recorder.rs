use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The HTTP method: `GET`, `POST` or `DELETE`.
    pub method: String,
    /// The path of the request with its query.
    pub path: String,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The body of the request.
    pub body: Bytes,
}

/// The requests that a server has received, in order. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl Recorded {
    /// Returns the body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the JSON-RPC method in the body, or an empty string if there is none.
    #[must_use]
    pub fn rpc_method(&self) -> String {
        let json = self.json();
        json["method"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the JSON-RPC ID in the body as JSON text, such as `1` or `"mcp_1"`.
    #[must_use]
    pub fn rpc_id(&self) -> String {
        self.json()["id"].to_string()
    }

    /// Returns a header's value, or an empty string if there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

impl Recorder {
    pub(crate) fn add(&self, request: Recorded) {
        self.0.lock().unwrap().push(request);
    }

    /// Returns all requests.
    #[must_use]
    pub fn all(&self) -> Vec<Recorded> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the requests with this JSON-RPC method.
    #[must_use]
    pub fn calls(&self, rpc_method: &str) -> Vec<Recorded> {
        let mut requests = self.all();
        requests.retain(|request| request.rpc_method() == rpc_method);
        requests
    }

    /// Returns the number of requests with this JSON-RPC method.
    #[must_use]
    pub fn count(&self, rpc_method: &str) -> usize {
        self.calls(rpc_method).len()
    }

    /// Returns the body of the first request with this JSON-RPC method.
    ///
    /// # Panics
    /// If no request has this JSON-RPC method.
    #[must_use]
    pub fn first(&self, rpc_method: &str) -> Value {
        self.calls(rpc_method).remove(0).json()
    }

    /// Returns `METHOD rpc-method` for each request, such as `POST tools/call` or `GET `.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let requests = self.all();
        let lines = requests
            .iter()
            .map(|request| format!("{} {}", request.method, request.rpc_method()));
        lines.collect()
    }
}
