use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A request as a server saw it.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// `GET`, `POST` or `DELETE`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The requests that a server has seen, in order. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl Recorded {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The JSON-RPC method in the body, or nothing.
    #[must_use]
    pub fn rpc_method(&self) -> String {
        let json = self.json();
        json["method"].as_str().unwrap_or_default().to_owned()
    }

    /// The JSON-RPC id in the body as JSON text, such as `1` or `"mcp_1"`.
    #[must_use]
    pub fn rpc_id(&self) -> String {
        self.json()["id"].to_string()
    }

    /// A header's text, or nothing.
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

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Recorded> {
        self.0.lock().unwrap().clone()
    }

    /// Those with this JSON-RPC method.
    #[must_use]
    pub fn calls(&self, rpc_method: &str) -> Vec<Recorded> {
        let mut requests = self.all();
        requests.retain(|request| request.rpc_method() == rpc_method);
        requests
    }

    /// `METHOD rpc-method` of each, such as `POST tools/call` or `GET `.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let requests = self.all();
        let lines = requests
            .iter()
            .map(|request| format!("{} {}", request.method, request.rpc_method()));
        lines.collect()
    }
}
