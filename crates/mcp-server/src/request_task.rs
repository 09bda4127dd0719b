use std::sync::Arc;

use pillion_mcp_client::RpcError;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Caller, dispatch};
use axum::body::Bytes;
use pillion_gateway::accounts::{Attachment, RunGuard};
use pillion_gateway::calling_client::link::Requester;
use pillion_gateway::calling_client::link::{ClientLink, ClientMessage, Question};
#[cfg(test)]
use pillion_gateway::calling_client::message;
use pillion_gateway::calling_client::message::{INTERNAL_ERROR, Request};
use pillion_gateway::client_text::truncate_input;

/// A request in progress, in its own task.
#[derive(Debug)]
pub(super) struct RequestTask {
    messages: mpsc::Receiver<ClientMessage>,
    task: JoinHandle<Result<Box<RawValue>, RpcError>>,
    request: Arc<Request>,
    /// Counts this request toward the maximum number of requests that continue without their
    /// clients. `None` if dropping the `RequestTask` cancels the request.
    attachment: Option<Attachment>,
    /// The result, stored until all earlier messages are delivered.
    result: Option<Result<Box<RawValue>, RpcError>>,
}

/// The next event of a running request.
#[derive(Debug)]
pub(super) enum RequestEvent {
    /// A serialized message for the client.
    Notice(Bytes),
    Question(Question),
    /// The result of the request.
    Done(Result<Box<RawValue>, RpcError>),
    /// The request was cancelled, so its client gets no response.
    Cancelled,
}

impl RequestTask {
    /// Starts a request that is cancelled when its client disconnects.
    pub(super) fn start(caller: &Caller, request: Arc<Request>, requester: Requester) -> Self {
        Self::spawn(caller, request, requester, None)
    }

    /// Starts a request that continues when its client disconnects, if the limit of the caller's
    /// principal on such requests allows this; otherwise the disconnect cancels the request.
    pub(super) fn start_detachable(
        caller: &Caller,
        request: Arc<Request>,
        requester: Requester,
    ) -> Self {
        let accounts = &caller.mcp.gateway.process().detached_requests;
        let attachment = accounts.attach(caller.context.principal.as_deref());
        Self::spawn(caller, request, requester, Some(attachment))
    }

    fn spawn(
        caller: &Caller,
        request: Arc<Request>,
        requester: Requester,
        attachment_and_guard: Option<(Attachment, RunGuard)>,
    ) -> Self {
        let (link, messages) = ClientLink::new(requester, &request);
        let caller = caller.clone();
        let (attachment, run_guard) = attachment_and_guard.unzip();
        let task_request = Arc::clone(&request);
        // Boxes the future of the handler, because a large future would be moved about ten times
        // before the task runs.
        let request_future = async move {
            let _run_guard = run_guard;
            Box::pin(dispatch::handle(&caller, &task_request, &link)).await
        };
        let task = tokio::spawn(request_future);
        Self {
            messages,
            task,
            request,
            attachment,
            result: None,
        }
    }

    /// Starts a request that never ends, for tests.
    #[cfg(test)]
    pub(super) fn endless() -> Self {
        let request = Request {
            id: RawValue::NULL.to_owned(),
            method: String::new(),
            params: message::Members::new(),
        };
        Self {
            messages: mpsc::channel(1).1,
            task: tokio::spawn(std::future::pending()),
            request: Arc::new(request),
            attachment: None,
            result: None,
        }
    }

    /// Returns a handle by which other code can cancel the request.
    pub(super) fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }

    /// Waits for the next event. Messages that were sent before the result come first.
    pub(super) async fn next(&mut self) -> RequestEvent {
        if self.result.is_none() {
            tokio::select! {
                biased;
                Some(message) = self.messages.recv() => return message.into(),
                task_result = &mut self.task => match task_result {
                    Ok(result) => self.result = Some(result),
                    Err(error) if error.is_cancelled() => return RequestEvent::Cancelled,
                    Err(_) => {
                        let method = truncate_input(&self.request.method);
                        let reason =
                            format!("The sidecar failed unexpectedly while handling '{method}'");
                        let error = RpcError::new(INTERNAL_ERROR, reason);
                        self.result = Some(Err(error));
                    }
                },
            }
        }
        match self.messages.try_recv() {
            Ok(message) => message.into(),
            Err(_) => match self.result.take() {
                Some(result) => RequestEvent::Done(result),
                None => RequestEvent::Cancelled,
            },
        }
    }
}

impl From<ClientMessage> for RequestEvent {
    fn from(message: ClientMessage) -> Self {
        match message {
            ClientMessage::Notice(notice) => Self::Notice(notice),
            ClientMessage::Question(question) => Self::Question(question),
        }
    }
}

impl Drop for RequestTask {
    fn drop(&mut self) {
        if self.task.is_finished() {
            return;
        }
        let attachment = self.attachment.as_ref();
        if !attachment.is_some_and(|attachment| attachment.detach(|| self.request.memory_bytes())) {
            self.task.abort();
        }
    }
}
