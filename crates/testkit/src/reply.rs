use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

/// What a fake server answers to one JSON-RPC request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `"result":...` or `"error":...`, put into the response as it is.
    payload: String,
    /// How long the server takes.
    pub(crate) delay: Duration,
    /// Messages that come before it, in an event stream.
    pub(crate) before: Vec<String>,
    /// Whether every event stream ends with it.
    pub(crate) is_last: bool,
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
            before: Vec::new(),
            is_last: false,
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
            before: Vec::new(),
            is_last: false,
        }
    }

    /// The same, after a while.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The same, in an event stream after other messages. (Of [`Stateless`] servers.)
    ///
    /// [`Stateless`]: crate::Dialect::Stateless
    #[must_use]
    pub fn preceded_by(mut self, message: &Value) -> Self {
        self.before.push(message.to_string());
        self
    }

    /// The same, and the end of every event stream right behind it. (Of servers that answer
    /// on a stream.)
    #[must_use]
    pub fn last(self) -> Self {
        Self {
            is_last: true,
            ..self
        }
    }

    /// The HTTP status that goes with it.
    pub(crate) fn status(&self) -> StatusCode {
        if self.payload.contains("\"code\":-32601") {
            StatusCode::NOT_FOUND
        } else if self.payload.starts_with("\"error\"") {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::OK
        }
    }

    /// The whole response to the request with this id (as JSON text).
    #[must_use]
    pub fn response(&self, id: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{}}}", self.payload)
    }
}
