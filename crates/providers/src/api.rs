//! Converts requests to the format of a provider, and the responses of the provider to Pillion's
//! types.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use pillion_sse::SseEvent;
use serde_json::Value;
use url::Url;

use crate::failure::ProviderFailure;
use crate::node::Node;
use crate::{
    Delta, Finish, ModelError, ModelErrorKind, ModelTurn, ProviderConversation, ProviderError,
    ToolChoice, ToolFormat, TurnOptions, TurnResponse, Usage, request,
};

/// The API of one model provider, as pure conversions between Pillion's types and the API's
/// requests, responses and errors. Only this crate implements the trait;
/// [`Provider::api`](crate::Provider::api) returns the implementations.
pub trait ProviderApi: ToolFormat {
    /// Returns the base URL of the provider's own service, as opposed to a compatible server.
    fn base_url(&self) -> &'static str;

    /// Converts messages in the format of OpenAI's Chat Completions, which applications use, to the
    /// format of the provider.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected), with the path of the invalid part, such as
    /// `messages[3].content[0]`.
    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError>;

    /// Returns the path of the endpoint for `model`, relative to the base URL, such as
    /// `chat/completions`.
    fn path(&self, model: &str, is_streamed: bool) -> String;

    /// Returns the headers of every request, including the key if there is one; headers with the
    /// key are marked as sensitive.
    ///
    /// # Errors
    /// [`Unauthorized`](ModelErrorKind::Unauthorized): the key is not a valid header value.
    fn headers(&self, key: Option<&str>) -> Result<HeaderMap, ModelError> {
        let mut headers = request::create_json_headers();
        let bearer_value = key.map(|key| format!("Bearer {key}"));
        request::put_secret(&mut headers, AUTHORIZATION, bearer_value.as_deref())?;
        Ok(headers)
    }

    /// Returns additional headers for the request of this turn.
    fn turn_headers(&self, _turn: &ModelTurn<'_>) -> HeaderMap {
        HeaderMap::new()
    }

    /// Returns the request body for a turn in the provider's format.
    fn body(&self, endpoint: &Endpoint<'_>, turn: &ModelTurn<'_>) -> Value;

    /// Returns a tool choice in the provider's format, as a member of the request body.
    fn tool_choice(&self, choice: &ToolChoice) -> Value;

    /// Returns the tokens of the thinking budget, if thinking counts toward the maximum length of
    /// a response.
    fn thinking_tokens(&self, _options: &TurnOptions) -> u64 {
        0
    }

    /// Returns the smallest maximum length of a response that the API accepts, in tokens, not
    /// counting thinking.
    fn min_output_tokens(&self) -> u64 {
        1
    }

    /// Returns the names of the parameters that Pillion forwards from a client to the provider. The
    /// client has sent them to Pillion's API in this format, such as the OpenAI-compatible API.
    fn forwarded_parameters(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads the body of an error response.
    fn parse_failure<'a>(&self, body: &'a Value) -> ProviderFailure<'a>;

    /// Returns the JSON pointer to the array that contains the calls and other parts of a complete
    /// response.
    fn parts_pointer(&self) -> &'static str;

    /// Returns why a response ended.
    fn finish(&self, body: &Value, has_calls: bool) -> Finish;

    /// Returns the token usage that a response reports.
    fn usage(&self, body: &Value) -> Usage;

    /// Returns the stop sequence that ended the response, if the provider reports it.
    fn stop_sequence(&self, _body: &Value) -> Option<String> {
        None
    }

    /// Reads a complete response that was not streamed.
    ///
    /// # Errors
    /// [`ModelError`]: the body is an error, or lacks a required part.
    fn parse_response(&self, body: Value) -> Result<TurnResponse, ModelError> {
        read_turn(self, body)
    }

    /// Returns a reader for a streamed response.
    fn stream(&self) -> Box<dyn TurnStream>;

    /// Returns the error for a response without a 2xx status, from the status and the body. The
    /// caller reads `Retry-After`.
    fn failure(&self, status: u16, body: &[u8]) -> ModelError {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let failure = ProviderFailure {
            status: Some(status),
            ..self.parse_failure(&body)
        };
        failure.into_error(self.provider())
    }

    /// Fails with the error that a response body or an event reports, if it reports an error.
    ///
    /// # Errors
    /// [`ModelError`] with the error that the provider reported.
    fn check_error(&self, body: &Value) -> Result<(), ModelError> {
        match self.error(body) {
            Some(_) => Err(self.parse_failure(body).into_error(self.provider())),
            None => Ok(()),
        }
    }

    /// Creates the error for an invalid response or stream.
    fn malformed(&self, problem: &str) -> ModelError {
        let provider = self.provider();
        let message = format!("The response of the provider '{provider}' is invalid: {problem}");
        ModelError::new(ModelErrorKind::Malformed, message)
    }
}

/// The model of a request, and the URL of the model's API.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'a> {
    /// The provider's name for the model.
    pub model: &'a str,
    /// The base URL of the endpoints.
    pub base_url: &'a Url,
    /// Whether the model is a reasoning model; `None` to detect it from the model's name.
    pub reasoning: Option<bool>,
}

/// Assembles a complete response from the events of a streamed response.
pub trait TurnStream: Send {
    /// Adds the next event and appends the event's new pieces of the response to `deltas`.
    ///
    /// # Errors
    /// [`ModelError`]: the event is invalid, or reports an error.
    fn push(&mut self, event: &SseEvent, deltas: &mut Vec<Delta>) -> Result<(), ModelError>;

    /// Returns whether the provider has marked the response as complete.
    fn is_complete(&self) -> bool;

    /// Returns whether the response counts as complete if the connection fails now.
    fn is_complete_if_broken(&self) -> bool {
        self.is_complete()
    }

    /// Returns the complete response after the end of the stream.
    ///
    /// # Errors
    /// [`Malformed`](ModelErrorKind::Malformed): the stream ended too early.
    fn finish(self: Box<Self>) -> Result<TurnResponse, ModelError>;
}

/// Reads a complete response whose calls follow the provider's format.
pub(crate) fn read_turn(
    api: &(impl ProviderApi + ?Sized),
    body: Value,
) -> Result<TurnResponse, ModelError> {
    api.check_error(&body)?;
    let parse_result = api.parse_tool_calls(&Node::root(&body));
    let calls = parse_result.map_err(|fault| ProviderError::malformed(api.provider(), fault))?;
    Ok(TurnResponse {
        finish: api.finish(&body, !calls.is_empty()),
        usage: api.usage(&body),
        body,
    })
}
