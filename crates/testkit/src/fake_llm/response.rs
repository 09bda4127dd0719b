use std::time::Duration;

use serde_json::{Value, json};

use super::LlmDialect;
use super::chat_request::ChatRequest;

/// The response of a fake language model to one request.
#[derive(Debug, Clone, Default)]
pub struct LlmResponse {
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) items: Vec<Value>,
    pub(super) calls: Vec<LlmCall>,
    pub(super) usage: Option<(u64, u64)>,
    pub(super) finish: Option<String>,
    pub(super) delay: Duration,
    pub(super) fault: Option<LlmFault>,
    pub(super) rejection: Option<ErrorResponse>,
}

/// An HTTP error that the server sends instead of a model's response.
#[derive(Debug, Clone)]
pub(super) struct ErrorResponse {
    pub(super) status: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// A tool call in a model's response.
#[derive(Debug, Clone)]
pub(super) struct LlmCall {
    /// The ID of the call; `None` to omit the ID, as some servers do.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// The text of the call's arguments, valid JSON or not.
    pub(super) arguments: String,
}

/// A fault in a model's response.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmFault {
    /// The response ends in the middle, as if it were complete.
    Truncated,
    /// The connection closes in the middle of the response.
    Broken,
    /// The response never ends.
    Endless,
    /// The response is sent byte by byte, with this pause after each byte.
    Trickling(Duration),
    /// An error with status 200, instead of a response or in the middle of a stream.
    Error(Value),
    /// The response is not streamed, although the request asked for a stream.
    NotStreamed,
    /// The stream ends without marking the response as complete.
    NotDone,
    /// The stream does not mark the response as complete, and the connection closes.
    BrokenAtEnd,
}

impl LlmResponse {
    /// Creates a response with text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// Creates the response to a request of the Chat Completions API that follows the user's last
    /// message; see [`FakeLlm::obedient`](crate::FakeLlm::obedient).
    #[must_use]
    pub fn obedient(request: &Value) -> Self {
        super::obedient::respond(&ChatRequest::from_body(LlmDialect::OpenAiChat, request))
    }

    /// Creates a response with one tool call.
    #[must_use]
    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::default().and_call(name, &arguments.to_string())
    }

    /// Creates a response with `count` calls of one tool, without arguments.
    #[must_use]
    pub fn calls(count: usize, name: &str) -> Self {
        (0..count).fold(Self::default(), |response, _| response.and_call(name, "{}"))
    }

    /// Adds a tool call to the response. `arguments` may be invalid JSON.
    #[must_use]
    pub fn and_call(mut self, name: &str, arguments: &str) -> Self {
        let id = Some(format!("call_{}", self.calls.len() + 1));
        self.calls.push(LlmCall {
            id,
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        });
        self
    }

    /// Adds an item of OpenAI's Responses, or a block of Anthropic's Messages, such as a native
    /// call, before the other content.
    #[must_use]
    pub fn with_item(mut self, item: Value) -> Self {
        self.items.push(item);
        self
    }

    /// Removes the IDs of the response's tool calls.
    #[must_use]
    pub fn without_ids(mut self) -> Self {
        self.calls.iter_mut().for_each(|call| call.id = None);
        self
    }

    /// Adds the model's visible thinking to the response.
    #[must_use]
    pub fn thinking(self, thought: &str) -> Self {
        Self {
            thought: thought.to_owned(),
            ..self
        }
    }

    /// Sets the numbers of input and output tokens that the response reports.
    #[must_use]
    pub fn costing(self, input: u64, output: u64) -> Self {
        Self {
            usage: Some((input, output)),
            ..self
        }
    }

    /// Sets the finish reason of the response, in the API's format.
    #[must_use]
    pub fn with_finish_reason(self, reason: &str) -> Self {
        Self {
            finish: Some(reason.to_owned()),
            ..self
        }
    }

    /// Delays the response.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Adds a fault to the response.
    #[must_use]
    pub fn with(self, fault: LlmFault) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    /// Creates an error response in OpenAI's format, with a status such as
    /// `500 Internal Server Error`.
    #[must_use]
    pub fn rejection(status: &str, code: &str, message: &str) -> Self {
        let error =
            json!({"error": {"message": message, "type": code, "param": null, "code": code}});
        Self::error_response(status, &error.to_string())
    }

    /// Creates an error response with a status and any body.
    #[must_use]
    pub fn error_response(status: &str, body: &str) -> Self {
        let rejection = ErrorResponse {
            status: status.to_owned(),
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: body.to_owned(),
        };
        Self {
            rejection: Some(rejection),
            ..Self::default()
        }
    }

    /// Adds a header to an error response.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Some(rejection) = &mut self.rejection {
            rejection.headers.push((name, value.to_owned()));
        }
        self
    }
}

impl LlmCall {
    /// Returns the call's arguments as an object; `{}` if they are not an object.
    pub(super) fn object(&self) -> Value {
        let arguments = serde_json::from_str(&self.arguments).ok();
        arguments
            .filter(Value::is_object)
            .unwrap_or_else(|| json!({}))
    }
}
