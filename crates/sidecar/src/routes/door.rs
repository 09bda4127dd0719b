//! The doors for the clients of language models' providers. Each reads a request into a [`Wanted`]
//! and writes the answer in its own [`Shape`]; what lies between is the same for all.

mod failed;
mod refusals;
mod words;

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
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::caller::Caller;
use super::error::RequestError;
use super::event_stream::{self, Outlet};
use crate::app::App;
use crate::chat::{Beginning, Chat, Chatter, ClientsTurn, Ended, Listener, Said};
pub(super) use refusals::Refusals;
pub(super) use words::{Words, in_their_words};

/// Names the chat of a request that failed or waits for an approval: the same request with this
/// header goes on with it.
const CHAT: HeaderName = HeaderName::from_static("x-pillion-chat");

/// How long a stream may be without a status: less than anything between here and the client waits
/// for one.
const UNOPENED: Duration = Duration::from_secs(10);

/// What a client wants.
pub(super) struct Wanted {
    /// The model's name; the default one without.
    pub(super) model: Option<String>,
    /// On whose behalf tools run, where neither a header nor the token says it.
    pub(super) user: Option<String>,
    pub(super) said: Said,
    /// Tools of the client's own: the model has those alone, and its calls go back.
    pub(super) own_tools: Option<Vec<Arc<ToolDefinition>>>,
    /// Whether the sidecar's tools are there.
    pub(super) may_use_tools: bool,
    pub(super) options: TurnOptions,
    pub(super) stream: bool,
}

/// How a door writes answers.
pub(super) trait Shape: Send + 'static {
    /// In whose words errors are.
    const WORDS: Words;

    /// Writes one answer as a stream.
    type Writer: Writer;

    /// A whole answer.
    fn whole(&self, ended: &Ended) -> Value;

    /// What writes the answer of this id and model; whether calls are the client's to run.
    fn writer(&self, id: &str, model: &str, has_own_tools: bool) -> Self::Writer;
}

/// Writes an answer as server-sent events.
pub(super) trait Writer: Send + 'static {
    /// The first of them.
    fn begin(&mut self) -> Bytes;

    /// What of an event of a chat is for the client.
    fn hear(&mut self, event: ChatEvent) -> Option<Bytes>;

    /// What is left to say of an answer.
    fn end(&mut self, ended: &Ended) -> Bytes;

    /// What stands in its place where there is none.
    fn fail(&mut self, error: &Value) -> Bytes;
}

/// Answers a request.
///
/// # Errors
/// [`RequestError`]: it is refused before a model is asked.
pub(super) async fn serve<S: Shape>(
    app: &App,
    headers: &HeaderMap,
    caller: Caller,
    wanted: Wanted,
    shape: S,
) -> Result<Response, RequestError> {
    let caller = match &caller.context.user {
        // A token's or a header's user is not the client's to change.
        Some(_) => caller,
        None => caller.in_the_name_of(wanted.user.as_deref(), None)?,
    };
    let chatter = Chatter {
        context: caller.context,
        visibility: caller.visibility,
    };
    let beginning = Beginning {
        model: wanted.model,
        said: wanted.said,
        tools: wanted.may_use_tools,
        options: wanted.options,
    };
    let named = headers.get(CHAT).map(|id| id.to_str().unwrap_or_default());
    let run = match (wanted.own_tools, named) {
        (Some(tools), _) => Run::Turn(Box::new(ClientsTurn::begin(app, beginning, tools)?)),
        (None, Some(id)) => Run::of(Chat::resume(app, &chatter, id, &[]).await?),
        (None, None) => Run::of(Chat::begin_unless_kept(app, &chatter, beginning).await?),
    };
    if wanted.stream {
        let writer = shape.writer(run.id(), run.model(), matches!(run, Run::Turn(_)));
        return Ok(streamed::<S>(app, run, writer).await);
    }
    let ended = run.run(None).await;
    Ok(match ended.answer.success {
        true => Json(shape.whole(&ended)).into_response(),
        false => failed::response(S::WORDS, &ended),
    })
}

/// What answers.
enum Run {
    Chat(Box<Chat>),
    Turn(Box<ClientsTurn>),
}

impl Run {
    fn of(chat: Chat) -> Self {
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

    async fn run(self, listener: Option<Listener>) -> Ended {
        match self {
            // Boxed: the future of a chat is large.
            Self::Chat(chat) => Box::pin(chat.run(listener)).await,
            Self::Turn(turn) => Box::pin(turn.run(listener)).await,
        }
    }
}

/// The answer as events. Until the first of them is there, or [`UNOPENED`] is over, the response has
/// no status yet: a failure by then is one as of an answer that is no stream.
async fn streamed<S: Shape>(app: &App, run: Run, writer: S::Writer) -> Response {
    // How it will end is not known yet: so a client that loses the stream can go on.
    let chat = match &run {
        Run::Chat(chat) => HeaderValue::from_str(chat.id()).ok(),
        Run::Turn(_) => None,
    };
    let (unopened, failure) = oneshot::channel();
    let patience = app.longest_chat();
    let mut response = event_stream::response(patience, |events| async move {
        let answer = Arc::new(Mutex::new(Streamed {
            writer,
            events,
            unopened: Some(unopened),
            comments: Vec::new(),
        }));
        let listener = {
            let answer = Arc::clone(&answer);
            move |event| answer.lock().hear(event)
        };
        let mut run = pin!(run.run(Some(Box::new(listener))));
        let ended = match timeout(UNOPENED, &mut run).await {
            Ok(ended) => ended,
            Err(_) => {
                answer.lock().open();
                run.await
            }
        };
        answer.lock().end::<S>(ended);
    });
    if let Ok(Some(ended)) = failure.await {
        return failed::response(S::WORDS, &ended);
    }
    if let Some(chat) = chat {
        response.headers_mut().insert(CHAT, chat);
    }
    response
}

/// An answer that is sent as it comes.
struct Streamed<W> {
    writer: W,
    events: Outlet,
    /// Gets the failure, or none as soon as there is something to send; taken then.
    unopened: Option<oneshot::Sender<Option<Ended>>>,
    /// Those that came before the first event: they are no reason to begin.
    comments: Vec<Bytes>,
}

impl<W: Writer> Streamed<W> {
    /// Begins the stream, once. From then on its status is 200.
    fn open(&mut self) {
        if let Some(unopened) = self.unopened.take() {
            self.events.send(self.writer.begin());
            for comment in self.comments.drain(..) {
                self.events.send(comment);
            }
            drop(unopened.send(None));
        }
    }

    fn hear(&mut self, event: ChatEvent) {
        if let Some(said) = self.writer.hear(event) {
            if self.unopened.is_some() && said.starts_with(b":") {
                self.comments.push(said);
                return;
            }
            self.open();
            self.events.send(said);
        }
    }

    fn end<S: Shape>(&mut self, ended: Ended) {
        if ended.answer.success {
            self.open();
            self.events.send(self.writer.end(&ended));
        } else if let Some(unopened) = self.unopened.take() {
            drop(unopened.send(Some(ended)));
        } else {
            let error = failed::body(S::WORDS, &ended).1;
            self.events.send(self.writer.fail(&error));
        }
    }
}
