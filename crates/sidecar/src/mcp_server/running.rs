use std::sync::Arc;

use pillion_core::mcp::RpcError;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Caller, dispatch};
use crate::app::App;
use crate::calling_client::link::Requester;
use crate::calling_client::link::{Link, Question, Said};
use crate::calling_client::message::{INTERNAL_ERROR, Request};
use axum::body::Bytes;

/// A request that is being answered, in a task of its own.
#[derive(Debug)]
pub(super) struct Running {
    said: mpsc::Receiver<Said>,
    task: JoinHandle<Result<Box<RawValue>, RpcError>>,
    /// Whether to drop this is to give the request up.
    ends_with_this: bool,
    /// Said before the result, which is there.
    result: Option<Result<Box<RawValue>, RpcError>>,
}

/// What comes next from a running request.
#[derive(Debug)]
pub(super) enum Event {
    /// A whole message for the client.
    Notice(Bytes),
    Question(Question),
    /// The end.
    Done(Result<Box<RawValue>, RpcError>),
    /// The end of one that was cancelled: nobody waits for an answer.
    Cancelled,
}

impl Running {
    /// Begins to answer a request. `ends_with_this`: its revision takes a client that goes
    /// away for one that cancels.
    pub(super) fn start(
        app: &App,
        caller: &Caller,
        request: Arc<Request>,
        requester: Requester,
        ends_with_this: bool,
    ) -> Self {
        let (link, said) = Link::new(requester, &request);
        let (app, caller) = (app.clone(), caller.clone());
        // Boxed: a task's future is moved some ten times until it runs, and this one is large.
        let answer =
            async move { Box::pin(dispatch::answer(&app, &caller, &request, &link)).await };
        let task = tokio::spawn(answer);
        Self {
            said,
            task,
            ends_with_this,
            result: None,
        }
    }

    /// What ends it from elsewhere.
    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }

    /// What comes next. Everything that was said before the end comes before it.
    pub(super) async fn next(&mut self) -> Event {
        if self.result.is_none() {
            tokio::select! {
                biased;
                Some(said) = self.said.recv() => return said.into(),
                ended = &mut self.task => match ended {
                    Ok(result) => self.result = Some(result),
                    Err(error) if error.is_cancelled() => return Event::Cancelled,
                    Err(_) => {
                        let error = RpcError::new(INTERNAL_ERROR, "The sidecar failed unexpectedly");
                        self.result = Some(Err(error));
                    }
                },
            }
        }
        match self.said.try_recv() {
            Ok(said) => said.into(),
            Err(_) => match self.result.take() {
                Some(result) => Event::Done(result),
                None => Event::Cancelled,
            },
        }
    }
}

impl From<Said> for Event {
    fn from(said: Said) -> Self {
        match said {
            Said::Notice(notice) => Self::Notice(notice),
            Said::Question(question) => Self::Question(question),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ends_with_this {
            self.task.abort();
        }
    }
}
