use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::resumption::Resumption;
use super::{Line, Outgoing};
use crate::mcp::McpErrorKind;
use crate::mcp::http::{AnswerReader, messages_of};
use crate::mcp::jsonrpc::{self, RequestId};
use crate::mcp::peer::Answers;

/// How long to wait before asking again for a stream that cannot be resumed.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
    let mut headers = HeaderMap::new();
    let mut pause = PAUSE;
    let mut had_stream = false;
    loop {
        let resumes = !headers.is_empty();
        let stream = line.link.get_stream(line.headers(headers)).await;
        ready.send_replace(true);
        headers = HeaderMap::new();
        match stream {
            Ok(response) => {
                had_stream = true;
                pause = PAUSE;
                headers = read(&line, response).await;
            }
            Err(error) => match refused(&line, error, resumes, had_stream).await {
                Refused::ForNow => {}
                Refused::ToResume => continue,
                Refused::ForGood => return,
                Refused::Forgotten => {
                    line.end_session();
                    return;
                }
            },
        }
        if headers.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
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
            mirrored: HeaderMap::new(),
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

/// Reads one stream to its end and gives the header to resume it with.
async fn read(line: &Arc<Line>, response: reqwest::Response) -> HeaderMap {
    let mut reader = AnswerReader::endless(response, &line.link.limits);
    let mut answers = Answers::default();
    loop {
        match reader.next().await {
            Ok(Some(event)) => {
                for message in messages_of(&event) {
                    line.hear(message, &mut answers);
                }
            }
            Ok(None) | Err(McpErrorKind::Broken(_)) => break,
            Err(error) => {
                tracing::debug!(%error, "The stream that was listened on cannot be read");
                return HeaderMap::new();
            }
        }
    }
    match Resumption::new(true).wait(&reader) {
        Some(wait) => wait.await,
        None => HeaderMap::new(),
    }
}
