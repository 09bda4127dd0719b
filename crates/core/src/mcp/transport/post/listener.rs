use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::Line;
use super::resumption::Resumption;
use crate::mcp::McpErrorKind;
use crate::mcp::http::{AnswerReader, messages_of};
use crate::mcp::peer::Answers;

/// How long to wait before asking again for a stream that cannot be resumed.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long others wait for the stream to be there. Some servers send its head only with
/// the first event.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Listens on the GET stream for as long as it lives (MCP 2025-11-25, "Listening for
/// Messages from the Server"). A server without such a stream is not asked again.
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

async fn listen(line: Arc<Line>, ready: watch::Sender<bool>) {
    let mut headers = HeaderMap::new();
    let mut pause = PAUSE;
    loop {
        let stream = line.link.get_stream(line.headers(headers)).await;
        ready.send_replace(true);
        match stream {
            Ok(response) => {
                pause = PAUSE;
                headers = read(&line, response).await;
            }
            // 405: there is none. 404: the session has gone, and so does this task.
            Err(McpErrorKind::HttpStatus { status, .. }) if status < 500 => return,
            Err(error) => {
                tracing::debug!(%error, "No stream to listen on");
                headers = HeaderMap::new();
            }
        }
        if headers.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
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
