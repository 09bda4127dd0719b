use std::time::Duration;

use serde_json::{Value, json};

/// What a fake server answers to one JSON-RPC request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `"result":...` or `"error":...`, put into the response as it is.
    payload: String,
    /// How long the server takes.
    pub(crate) delay: Duration,
}

impl Reply {
    /// A result.
    #[must_use]
    pub fn result(result: &Value) -> Self {
        Self::raw_result(&result.to_string())
    }

    /// A result as JSON text, which goes out byte for byte.
    #[must_use]
    pub fn raw_result(result: &str) -> Self {
        Self {
            payload: format!("\"result\":{result}"),
            delay: Duration::ZERO,
        }
    }

    /// An error.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::raw_error(&json!({"code": code, "message": message}))
    }

    /// An error object of any form.
    #[must_use]
    pub fn raw_error(error: &Value) -> Self {
        Self {
            payload: format!("\"error\":{error}"),
            delay: Duration::ZERO,
        }
    }

    /// The same, after a while.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The whole response to the request with this id (as JSON text).
    #[must_use]
    pub fn response(&self, id: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{}}}", self.payload)
    }
}
