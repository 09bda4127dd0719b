//! The shared part of the APIs that are compatible with language model providers. Each API parses a
//! request into a [`CompatibleRequest`] and writes the response in its own [`ResponseFormat`].

mod client_tools;
mod error_format;
mod error_responses;
mod failed;
mod forwarded;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use pillion_chat::{ChatEvent, TurnOptions};
use pillion_core::tool::ToolDefinition;
use pillion_deadline::timeout;
use serde_json::Value;
use tokio::sync::oneshot;

use super::event_stream::{self, EventSender};
use super::extract::Caller;
use crate::app::App;
pub(super) use client_tools::{read_client_tools, tool_definition};
pub(super) use error_format::{ErrorFormat, rewrite_errors};
pub(super) use error_responses::ErrorResponses;
pub(super) use failed::SHOULD_RETRY_HEADER;
pub(super) use forwarded::{check_unforwarded, forwarded_parameters};
use pillion_management::chat::{
    Chat, ChatCaller, ChatEventCallback, ChatInput, ChatOutcome, ClientToolTurn, NewChat,
};
use pillion_management::error::Result;

/// The header with the ID of a chat that failed or waits for an approval. Repeating the request
/// with this header continues the chat.
pub(super) const CHAT_HEADER: HeaderName = HeaderName::from_static("x-pillion-chat");

/// Maximum time that a stream waits for its first event before the status is sent. Shorter than the
/// timeouts of proxies and clients.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request of a compatible API.
pub(super) struct CompatibleRequest {
    /// The model's ID; the default model if `None`.
    pub(super) model: Option<String>,
    /// The user on whose behalf tools run, unless a header or the token names a user.
    pub(super) user: Option<String>,
    pub(super) input: ChatInput,
    /// Tools of the client. If set, the model gets only these tools, and their calls are returned
    /// to the client.
    pub(super) client_tools: Option<Vec<Arc<ToolDefinition>>>,
    /// Whether the model may use the sidecar's tools.
    pub(super) may_use_tools: bool,
    pub(super) options: TurnOptions,
    pub(super) stream: bool,
}

/// The response format of an API.
pub(super) trait ResponseFormat: Send + 'static {
    /// The error format of the API.
    const ERROR_FORMAT: ErrorFormat;

    /// The type of the writer that streams one response.
    type Writer: Writer;

    /// Returns a complete response.
    fn complete_response(&self, outcome: &ChatOutcome) -> Value;

    /// Returns the writer for a response with the ID `id` and the model `model`. `has_client_tools`
    /// is true if the model's tools are the client's, so that the client runs the calls itself.
    fn new_writer(&self, id: &str, model: &str, has_client_tools: bool) -> Self::Writer;
}

/// Writes a model's response as server-sent events.
pub(super) trait Writer: Send + 'static {
    /// Returns the first event of the stream.
    fn begin(&mut self) -> Bytes;

    /// Converts a chat event to a server-sent event, or returns `None` if the client must not get
    /// the event.
    fn convert(&mut self, event: ChatEvent) -> Option<Bytes>;

    /// Returns the remaining events of the stream after a complete response.
    fn end(&mut self, outcome: &ChatOutcome) -> Bytes;

    /// Returns the event that reports that the response failed.
    fn fail(&mut self, error: &Value) -> Bytes;
}

/// Responds to a request.
///
/// # Errors
/// [`RequestError`](pillion_management::error::RequestError): the request is rejected before a model is called.
pub(super) async fn serve<S: ResponseFormat>(
    app: &App,
    headers: &HeaderMap,
    caller: Caller,
    request: CompatibleRequest,
    format: S,
) -> Result<Response> {
    let caller = match &caller.context.user {
        // The request body cannot override the user of a token or a header.
        Some(_) => caller,
        None => caller.with_identity(request.user.as_deref(), None)?,
    };
    let chat_caller = ChatCaller {
        context: caller.context,
        visibility: caller.visibility,
    };
    let new_chat = NewChat {
        model: request.model,
        input: request.input,
        may_use_tools: request.may_use_tools,
        options: request.options,
    };
    let chat_id = headers
        .get(CHAT_HEADER)
        .map(|id| id.to_str().unwrap_or_default());
    let chat_run = match (request.client_tools, chat_id) {
        (Some(tools), _) => ChatRun::Turn(Box::new(ClientToolTurn::begin(app, new_chat, tools)?)),
        (None, Some(id)) => ChatRun::from_chat(Chat::resume(app, &chat_caller, id, &[]).await?),
        (None, None) => {
            ChatRun::from_chat(Chat::begin_stateless(app, &chat_caller, new_chat).await?)
        }
    };
    if request.stream {
        let writer = format.new_writer(
            chat_run.id(),
            chat_run.model(),
            matches!(chat_run, ChatRun::Turn(_)),
        );
        return Ok(stream_response::<S>(app, chat_run, writer).await);
    }
    let outcome = chat_run.run(None).await;
    Ok(if outcome.response.success {
        Json(format.complete_response(&outcome)).into_response()
    } else {
        failed::build_response(S::ERROR_FORMAT, &outcome)
    })
}

/// The source of the response: a chat with the sidecar's tools, or one turn with the client's
/// tools.
enum ChatRun {
    Chat(Box<Chat>),
    Turn(Box<ClientToolTurn>),
}

impl ChatRun {
    fn from_chat(chat: Chat) -> Self {
        Self::Chat(Box::new(chat))
    }

    fn id(&self) -> &str {
        match self {
            Self::Chat(chat) => chat.id(),
            Self::Turn(turn) => turn.id(),
        }
    }

    fn model(&self) -> &str {
        match self {
            Self::Chat(chat) => chat.model(),
            Self::Turn(turn) => turn.model(),
        }
    }

    async fn run(self, listener: Option<ChatEventCallback>) -> ChatOutcome {
        match self {
            // The future is boxed, because the future of a chat is large.
            Self::Chat(chat) => Box::pin(chat.run(listener)).await,
            Self::Turn(turn) => Box::pin(turn.run(listener)).await,
        }
    }
}

/// Streams the model's response. The status is sent with the first event or after
/// [`FIRST_EVENT_TIMEOUT`]; a failure before the status is sent is returned as a plain error
/// response.
async fn stream_response<S: ResponseFormat>(
    app: &App,
    chat_run: ChatRun,
    writer: S::Writer,
) -> Response {
    // The header is sent before the outcome is known: a client whose stream is interrupted can
    // continue the chat with the header.
    let chat_header = match &chat_run {
        ChatRun::Chat(chat) => HeaderValue::from_str(chat.id()).ok(),
        ChatRun::Turn(_) => None,
    };
    let (start_sender, start_receiver) = oneshot::channel();
    let max_duration = app.max_chat_duration();
    let mut response = event_stream::respond_with_job(max_duration, |events| async move {
        let chat_stream = Arc::new(Mutex::new(ChatStream {
            writer,
            events,
            start_sender: Some(start_sender),
            comments: Vec::new(),
        }));
        let listener = {
            let chat_stream = Arc::clone(&chat_stream);
            move |event| chat_stream.lock().send_event(event)
        };
        let mut run_future = pin!(chat_run.run(Some(Box::new(listener))));
        let outcome = match timeout(FIRST_EVENT_TIMEOUT, &mut run_future).await {
            Ok(outcome) => outcome,
            Err(_) => {
                chat_stream.lock().open();
                run_future.await
            }
        };
        chat_stream.lock().end::<S>(outcome);
    });
    if let Ok(Some(outcome)) = start_receiver.await {
        return failed::build_response(S::ERROR_FORMAT, &outcome);
    }
    if let Some(chat_header) = chat_header {
        response.headers_mut().insert(CHAT_HEADER, chat_header);
    }
    response
}

/// A model's response that is being streamed.
struct ChatStream<W> {
    writer: W,
    events: EventSender,
    /// Sends `None` when the stream starts, or the outcome if the chat fails before that. The
    /// sender is removed when it is used.
    start_sender: Option<oneshot::Sender<Option<ChatOutcome>>>,
    /// SSE comments that were written before the first event; they do not start the stream.
    comments: Vec<Bytes>,
}

impl<W: Writer> ChatStream<W> {
    /// Starts the stream if it has not started. After that, the status is always 200.
    fn open(&mut self) {
        if let Some(start_sender) = self.start_sender.take() {
            self.events.send(self.writer.begin());
            for comment in self.comments.drain(..) {
                self.events.send(comment);
            }
            drop(start_sender.send(None));
        }
    }

    fn send_event(&mut self, event: ChatEvent) {
        if let Some(chunk) = self.writer.convert(event) {
            if self.start_sender.is_some() && chunk.starts_with(b":") {
                self.comments.push(chunk);
                return;
            }
            self.open();
            self.events.send(chunk);
        }
    }

    fn end<S: ResponseFormat>(&mut self, outcome: ChatOutcome) {
        if outcome.response.success {
            self.open();
            self.events.send(self.writer.end(&outcome));
        } else if let Some(start_sender) = self.start_sender.take() {
            drop(start_sender.send(Some(outcome)));
        } else {
            let error = failed::body(S::ERROR_FORMAT, &outcome).1;
            self.events.send(self.writer.fail(&error));
        }
    }
}
