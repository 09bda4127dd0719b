use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pauses::Pauses;
use super::resumption::{DEFAULT_WAIT, place_in};
use super::{Line, Outgoing};
use crate::mcp::McpErrorKind;
use crate::mcp::http::{AnswerReader, messages_of};
use crate::mcp::jsonrpc::{self, RequestId};
use crate::mcp::metadata::Mirrored;
use crate::mcp::peer::Answers;

/// How long to wait before asking again for a stream that cannot be resumed.
const PAUSE: Duration = Duration::from_secs(1);

/// How far the pause grows while streams bring nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A stream that has lived for so long was of use, even if there was nothing to say.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// How long others wait for the stream to be there. Some servers send its head only with
/// the first event.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long the server may take to say whether it knows the session.
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// Listens on the GET stream for as long as it lives (MCP 2025-11-25, "Listening for
/// Messages from the Server"). A server without such a stream is not asked again; one that
/// has forgotten the session ends it.
pub(super) struct Listener {
    ready: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Listener {
    pub(super) fn start(line: Arc<Line>) -> Self {
        let (sender, ready) = watch::channel(false);
        Self {
            ready,
            _task: AbortOnDropHandle::new(tokio::spawn(listen(line, sender))),
        }
    }

    /// Ends when the first attempt has succeeded or failed.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ready = self.ready.clone();
        async move {
            let ready = ready.wait_for(|ready| *ready);
            // Neither a task that has ended nor one that is slow is worth a failure.
            let _ = tokio::time::timeout(LONGEST_WAIT, ready).await;
        }
    }
}

/// What to do about a stream that the server refuses.
enum Refused {
    /// Ask again, later: there is nobody, or the server is busy.
    ForNow,
    /// Ask again at once, from where the stream stands now.
    ToResume,
    /// Nothing: there is no such stream.
    ForGood,
    /// Nothing: there is no such session any more.
    Forgotten,
}

async fn listen(line: Arc<Line>, ready: watch::Sender<bool>) {
    let mut place = HeaderMap::new();
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    let mut had_stream = false;
    // They do not end with the stream that the question came in: they are posted.
    let mut answers = Answers::default();
    loop {
        let resumes = !place.is_empty();
        let stream = line.link.get_stream(line.headers(place)).await;
        ready.send_replace(true);
        place = HeaderMap::new();
        let asked = match stream {
            Ok(response) => {
                had_stream = true;
                let ended = read(&line, response, &mut answers).await;
                if ended.was_of_use {
                    pauses.begin_again();
                }
                place = ended.place;
                ended.retry
            }
            Err(error) => {
                let retry_after = retry_after(&error);
                match refused(&line, error, resumes, had_stream).await {
                    Refused::ForNow => retry_after,
                    Refused::ToResume => continue,
                    Refused::ForGood => return,
                    Refused::Forgotten => {
                        line.end_session();
                        return;
                    }
                }
            }
        };
        let usual = if place.is_empty() {
            PAUSE
        } else {
            DEFAULT_WAIT
        };
        tokio::time::sleep(pauses.next(asked.unwrap_or(usual))).await;
    }
}

fn retry_after(error: &McpErrorKind) -> Option<Duration> {
    match error {
        McpErrorKind::HttpStatus { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// What a refusal means. A status of 404 is how the server says that it has forgotten the
/// session, but also how many say that they have no such stream: where there has never been
/// one, a request tells which.
async fn refused(
    line: &Arc<Line>,
    error: McpErrorKind,
    resumes: bool,
    had_stream: bool,
) -> Refused {
    tracing::debug!(%error, "No stream to listen on");
    let McpErrorKind::HttpStatus { status, .. } = error else {
        return Refused::ForNow;
    };
    match status {
        408 | 425 | 429 | 500.. => Refused::ForNow,
        400 | 404 => match line.check_session(Err::<(), _>(error)) {
            Err(McpErrorKind::SessionExpired) if had_stream => Refused::Forgotten,
            _ if resumes => Refused::ToResume,
            _ => match line.knows_session().await {
                Some(true) => Refused::ForGood,
                Some(false) => Refused::Forgotten,
                None => Refused::ForNow,
            },
        },
        // The place in the stream may be what the server does not like.
        _ if resumes && status != 405 => Refused::ToResume,
        _ => Refused::ForGood,
    }
}

impl Line {
    /// Whether the server still knows the session; none when it does not say.
    async fn knows_session(self: &Arc<Self>) -> Option<bool> {
        if self.session.get().is_none() {
            return Some(true);
        }
        let id = RequestId::Text(format!("mcp_{}", uuid::Uuid::new_v4().simple()));
        let ping = Outgoing {
            message: jsonrpc::request(&id, "ping", &serde_json::Map::new()),
            id,
            mirrored: Mirrored::new(),
            endless: false,
            opens: false,
        };
        match tokio::time::timeout(PING_PATIENCE, self.exchange(ping)).await {
            Ok(Ok(_)) => Some(true),
            Ok(Err(McpErrorKind::SessionExpired)) => Some(false),
            Ok(Err(McpErrorKind::HttpStatus { status, .. })) if status < 500 => Some(true),
            Ok(Err(_)) | Err(_) => None,
        }
    }
}

/// How a stream ended.
struct Ended {
    /// It brought something, or at least it lived for a while.
    was_of_use: bool,
    /// The header to resume it with; empty when it cannot be.
    place: HeaderMap,
    /// How long the server asks to wait.
    retry: Option<Duration>,
}

/// Reads one stream to its end.
async fn read(line: &Arc<Line>, response: reqwest::Response, answers: &mut Answers) -> Ended {
    let since = Instant::now();
    let mut reader = AnswerReader::endless(response, &line.link.limits);
    let mut has_said = false;
    let can_go_on = loop {
        match reader.next().await {
            Ok(Some(event)) => {
                for message in messages_of(&event) {
                    has_said = true;
                    line.hear(message, answers);
                }
            }
            Ok(None) | Err(McpErrorKind::Broken(_)) => break true,
            Err(error) => {
                tracing::debug!(%error, "The stream that was listened on cannot be read");
                break false;
            }
        }
    };
    let place = place_in(&reader).filter(|_| can_go_on);
    Ended {
        was_of_use: has_said || since.elapsed() >= LONG_ENOUGH,
        place: place.unwrap_or_default(),
        retry: reader.retry(),
    }
}
