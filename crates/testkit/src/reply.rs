use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

/// A fake server's reply to one JSON-RPC request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The member `"result":...` or `"error":...`, copied unchanged into the response.
    payload: String,
    /// How long the server waits before it sends the reply.
    pub(crate) delay: Duration,
    /// Messages that precede the reply in an event stream.
    pub(crate) before: Vec<String>,
    /// Whether the server closes all event streams after the reply.
    pub(crate) is_last: bool,
}

impl Reply {
    /// Creates a reply with a result.
    #[must_use]
    pub fn result(result: &Value) -> Self {
        Self::raw_result(&result.to_string())
    }

    /// Creates a reply with a result as JSON text, which is sent unchanged.
    #[must_use]
    pub fn raw_result(result: &str) -> Self {
        Self::new(format!("\"result\":{result}"))
    }

    /// Creates a reply with an error.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::raw_error(&json!({"code": code, "message": message}))
    }

    /// Creates a reply with an error object of any form.
    #[must_use]
    pub fn raw_error(error: &Value) -> Self {
        Self::new(format!("\"error\":{error}"))
    }

    fn new(payload: String) -> Self {
        Self {
            payload,
            delay: Duration::ZERO,
            before: Vec::new(),
            is_last: false,
        }
    }

    /// Delays the reply by `delay`.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sends a message before the reply, in an event stream. (Only [`Stateless`] servers.)
    ///
    /// [`Stateless`]: crate::Dialect::Stateless
    #[must_use]
    pub fn preceded_by(mut self, message: &Value) -> Self {
        self.before.push(message.to_string());
        self
    }

    /// Closes all event streams after the reply. (Only servers that respond on a stream.)
    #[must_use]
    pub fn last(self) -> Self {
        Self {
            is_last: true,
            ..self
        }
    }

    /// Returns the HTTP status of the reply.
    pub(crate) fn status(&self) -> StatusCode {
        if self.payload.contains("\"code\":-32601") {
            StatusCode::NOT_FOUND
        } else if self.payload.starts_with("\"error\"") {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::OK
        }
    }

    /// Returns the complete response to the request with this ID, which is JSON text.
    #[must_use]
    pub fn response(&self, id: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{}}}", self.payload)
    }
}
