//! The shared part of the APIs that are compatible with language model providers. Each API parses a
//! request into a [`CompatibleRequest`] and writes the response in its own [`Shape`].

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

use super::caller::Caller;
use super::error::RequestError;
use super::event_stream::{self, EventSender};
use crate::app::App;
use crate::chat::{Chat, ChatCaller, ChatInput, ChatOutcome, ClientToolTurn, Listener, NewChat};
pub(super) use client_tools::{read_client_tools, tool_definition};
pub(super) use error_format::{ErrorFormat, rewrite_errors};
pub(super) use error_responses::ErrorResponses;
pub(super) use failed::SHOULD_RETRY_HEADER;
pub(super) use forwarded::{check_unforwarded, forwarded};

/// The header with the id of a chat that failed or waits for an approval. Repeating the request
/// with this header continues the chat.
pub(super) const CHAT_HEADER: HeaderName = HeaderName::from_static("x-pillion-chat");

/// How long a stream waits for its first event before it sends a status. Shorter than the timeouts
/// of proxies and clients.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request of a compatible API.
pub(super) struct CompatibleRequest {
    /// The model's ID; the default model if `None`.
    pub(super) model: Option<String>,
    /// The user on whose behalf tools run, unless a header or the token names one.
    pub(super) user: Option<String>,
    pub(super) input: ChatInput,
    /// Tools of the client. The model gets only these, and their calls are returned to the client.
    pub(super) own_tools: Option<Vec<Arc<ToolDefinition>>>,
    /// Whether the model may use the sidecar's tools.
    pub(super) may_use_tools: bool,
    pub(super) options: TurnOptions,
    pub(super) stream: bool,
}

/// The response format of an API.
pub(super) trait Shape: Send + 'static {
    /// The error format of the API.
    const ERROR_FORMAT: ErrorFormat;

    /// Writes one answer as a stream.
    type Writer: Writer;

    /// Returns a complete response.
    fn whole(&self, ended: &ChatOutcome) -> Value;

    /// Returns the writer for an answer with the id `id` and the model `model`. `has_own_tools` is
    /// true if the client runs the calls itself.
    fn writer(&self, id: &str, model: &str, has_own_tools: bool) -> Self::Writer;
}

/// Writes an answer as server-sent events.
pub(super) trait Writer: Send + 'static {
    /// Returns the first event.
    fn begin(&mut self) -> Bytes;

    /// Converts a chat event; `None` if the event is not for the client.
    fn convert(&mut self, event: ChatEvent) -> Option<Bytes>;

    /// Returns the remaining events of the answer.
    fn end(&mut self, ended: &ChatOutcome) -> Bytes;

    /// Returns the event for a failed answer.
    fn fail(&mut self, error: &Value) -> Bytes;
}

/// Responds to a request.
///
/// # Errors
/// [`RequestError`]: the request is rejected before a model is called.
pub(super) async fn serve<S: Shape>(
    app: &App,
    headers: &HeaderMap,
    caller: Caller,
    request: CompatibleRequest,
    shape: S,
) -> Result<Response, RequestError> {
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
        tools: request.may_use_tools,
        options: request.options,
    };
    let named = headers
        .get(CHAT_HEADER)
        .map(|id| id.to_str().unwrap_or_default());
    let run = match (request.own_tools, named) {
        (Some(tools), _) => ChatRun::Turn(Box::new(ClientToolTurn::begin(app, new_chat, tools)?)),
        (None, Some(id)) => ChatRun::from_chat(Chat::resume(app, &chat_caller, id, &[]).await?),
        (None, None) => {
            ChatRun::from_chat(Chat::begin_stateless(app, &chat_caller, new_chat).await?)
        }
    };
    if request.stream {
        let writer = shape.writer(run.id(), run.model(), matches!(run, ChatRun::Turn(_)));
        return Ok(streamed::<S>(app, run, writer).await);
    }
    let ended = run.run(None).await;
    Ok(if ended.response.success {
        Json(shape.whole(&ended)).into_response()
    } else {
        failed::response(S::ERROR_FORMAT, &ended)
    })
}

/// The source of the answer: a chat with the sidecar's tools, or one turn with the client's tools.
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

    async fn run(self, listener: Option<Listener>) -> ChatOutcome {
        match self {
            // The future of a chat is large.
            Self::Chat(chat) => Box::pin(chat.run(listener)).await,
            Self::Turn(turn) => Box::pin(turn.run(listener)).await,
        }
    }
}

/// Streams the answer. The status is sent with the first event or after [`FIRST_EVENT_TIMEOUT`]; a
/// failure before that is returned as a plain error response.
async fn streamed<S: Shape>(app: &App, run: ChatRun, writer: S::Writer) -> Response {
    // The header is sent before the outcome is known: a client whose stream breaks off can continue
    // the chat with it.
    let chat = match &run {
        ChatRun::Chat(chat) => HeaderValue::from_str(chat.id()).ok(),
        ChatRun::Turn(_) => None,
    };
    let (unopened, failure) = oneshot::channel();
    let max_duration = app.max_chat_duration();
    let mut response = event_stream::response(max_duration, |events| async move {
        let streaming = Arc::new(Mutex::new(ChatStream {
            writer,
            events,
            unopened: Some(unopened),
            comments: Vec::new(),
        }));
        let listener = {
            let streaming = Arc::clone(&streaming);
            move |event| streaming.lock().send_event(event)
        };
        let mut run = pin!(run.run(Some(Box::new(listener))));
        let ended = match timeout(FIRST_EVENT_TIMEOUT, &mut run).await {
            Ok(ended) => ended,
            Err(_) => {
                streaming.lock().open();
                run.await
            }
        };
        streaming.lock().end::<S>(ended);
    });
    if let Ok(Some(ended)) = failure.await {
        return failed::response(S::ERROR_FORMAT, &ended);
    }
    if let Some(chat) = chat {
        response.headers_mut().insert(CHAT_HEADER, chat);
    }
    response
}

/// An answer that is being streamed.
struct ChatStream<W> {
    writer: W,
    events: EventSender,
    /// Sends the failure, or `None` when the stream starts, and is then `None` itself.
    unopened: Option<oneshot::Sender<Option<ChatOutcome>>>,
    /// SSE comments from before the first event. They do not start the stream.
    comments: Vec<Bytes>,
}

impl<W: Writer> ChatStream<W> {
    /// Starts the stream, once. The status is 200 from then on.
    fn open(&mut self) {
        if let Some(unopened) = self.unopened.take() {
            self.events.send(self.writer.begin());
            for comment in self.comments.drain(..) {
                self.events.send(comment);
            }
            drop(unopened.send(None));
        }
    }

    fn send_event(&mut self, event: ChatEvent) {
        if let Some(chunk) = self.writer.convert(event) {
            if self.unopened.is_some() && chunk.starts_with(b":") {
                self.comments.push(chunk);
                return;
            }
            self.open();
            self.events.send(chunk);
        }
    }

    fn end<S: Shape>(&mut self, ended: ChatOutcome) {
        if ended.response.success {
            self.open();
            self.events.send(self.writer.end(&ended));
        } else if let Some(unopened) = self.unopened.take() {
            drop(unopened.send(Some(ended)));
        } else {
            let error = failed::body(S::ERROR_FORMAT, &ended).1;
            self.events.send(self.writer.fail(&error));
        }
    }
}
