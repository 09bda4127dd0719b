use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::join;
use pillion_core::executor::Executor;
use pillion_core::tool::{CallContext, ErrorCode, Link, ToolCall, ToolFailure, ToolResult};
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};

use super::message::{
    Callbacks, ExecuteParams, PhpCall, Response, executed, notification, output_of,
};
use super::php_process::{BusyGuard, PhpProcess};
use pillion_config::HttpSection;

/// A request `tools/execute`, for as long as its calls run.
pub(super) struct Execution {
    id: u64,
    php: Arc<PhpProcess>,
    pub(super) callbacks: Callbacks,
    /// The headers for calls of the sidecar's own tools.
    pub(super) headers: Result<HeaderMap, ToolFailure>,
    /// A call that holds the turn can expect that PHP is idle, so that the timeout of a tool does
    /// not elapse while PHP runs other code.
    turn: Arc<AsyncMutex<()>>,
    /// The number of requests that PHP has not answered.
    busy: Arc<watch::Sender<usize>>,
}

/// The link from the context of a call to its execution.
struct ExecutionLink {
    execution: Arc<Execution>,
    holds_turn: bool,
}

impl Execution {
    pub(super) fn new(
        id: u64,
        php: Arc<PhpProcess>,
        params: &mut ExecuteParams,
        limits: HeaderLimits,
    ) -> Self {
        let failure = params.header_failure.take();
        let headers = match failure.map(output_of) {
            Some(Err(failure)) => Err(failure),
            _ => limits.read(std::mem::take(&mut params.headers)),
        };
        Self {
            id,
            php,
            callbacks: params.callbacks,
            headers,
            turn: Arc::default(),
            busy: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Returns the execution of a call.
    pub(super) fn of(context: &CallContext) -> Option<&Arc<Self>> {
        link_of(context).map(|link| &link.execution)
    }

    /// Sends a request about a call to the PHP process and waits for the response.
    ///
    /// # Errors
    /// The failure that the PHP process reports, or that `what` was cancelled because the connection
    /// ended, or that PHP leaves too many requests unanswered.
    pub(super) async fn request(
        &self,
        method: &str,
        mut params: Value,
        what: &str,
    ) -> Result<Response, ToolFailure> {
        params["execution"] = json!(self.id);
        let busy = BusyGuard::new(&self.busy);
        let response = self.php.request(method, &params, busy).await?;
        response.await.unwrap_or_else(|_| {
            let message = format!("{what} was cancelled");
            Err(ToolFailure::new(ErrorCode::Cancelled, message))
        })
    }

    /// Notifies the PHP process of the start or the end of a call, without waiting for room: each
    /// call has two such notifications, which are no larger than the call's part of the message
    /// that the execution holds.
    pub(super) fn notify_now(&self, method: &str, mut params: Value) {
        params["execution"] = json!(self.id);
        self.php.send_now(notification(method, &params));
    }

    /// Sends the result of a call as soon as there is room.
    async fn send_result(&self, index: usize, result: ToolResult) {
        let params = json!({"execution": self.id, "index": index, "result": result});
        self.php.notify("notifications/result", &params).await;
    }

    /// Waits until no other call has the turn and PHP is idle.
    async fn acquire_turn(&self) -> OwnedMutexGuard<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let mut busy = self.busy.subscribe();
        // Fails only if the sender is gone, which `self` owns.
        drop(busy.wait_for(|requests| *requests == 0).await);
        turn
    }

    /// Waits for the turn, unless the call already has the turn.
    pub(super) async fn acquire_turn_unless_held(
        &self,
        context: &CallContext,
    ) -> Option<OwnedMutexGuard<()>> {
        if link_of(context).is_some_and(|link| link.holds_turn) {
            return None;
        }
        Some(self.acquire_turn().await)
    }

    /// Runs the calls, sends each result when its call has ended, and then the response. PHP has
    /// one thread, so PHP tools run one after the other; the sidecar's own tools run concurrently
    /// to them.
    pub(super) async fn run(self: Arc<Self>, executor: Executor, params: ExecuteParams) {
        // A PHP tool that makes calls holds its permit until those calls have finished.
        let executor = match params.nested {
            true => executor.with_separate_permits(),
            false => executor,
        };
        let context = CallContext {
            user: params.user,
            channel: params.channel,
            approved: params.approved,
            approved_arguments: params.approved_arguments,
            denied: params.denied,
            ..CallContext::default()
        };
        let context_for = |holds_turn| CallContext {
            link: Some(Link::new(ExecutionLink {
                execution: Arc::clone(&self),
                holds_turn,
            })),
            ..context.clone()
        };
        let calls = params.calls.into_iter().enumerate();
        let (in_php, others): (Vec<_>, Vec<_>) =
            calls.partition(|(_, call)| !params.parallel || call.in_php);
        let in_php = async {
            let context = context_for(true);
            for (index, PhpCall { call, .. }) in in_php {
                let turn = self.acquire_turn().await;
                let result = executor.execute_one(call, &context).await;
                drop(turn);
                self.send_result(index, result).await;
            }
        };
        let (indexes, others): (Vec<usize>, Vec<ToolCall>) = others
            .into_iter()
            .map(|(index, PhpCall { call, .. })| (index, call))
            .unzip();
        let context = context_for(false);
        let others = executor.execute_parallel_each(others, &context, |place, result| {
            self.send_result(indexes[place], result)
        });
        Box::pin(join(in_php, others)).await;
        self.php.send(executed(self.id)).await;
    }
}

fn link_of(context: &CallContext) -> Option<&ExecutionLink> {
    context.link.as_ref()?.get()
}

/// The limits of the headers for calls of the sidecar's own tools, as for requests to the REST API.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderLimits {
    count: usize,
    bytes: usize,
}

impl HeaderLimits {
    pub(super) fn of(http: &HttpSection) -> Self {
        Self {
            count: http.max_headers.get(),
            bytes: http.max_header_bytes,
        }
    }

    /// Reads the headers of a context.
    ///
    /// # Errors
    /// `invalid_input` if there are too many headers, or one of them is invalid.
    fn read(self, headers: HashMap<String, String>) -> Result<HeaderMap, ToolFailure> {
        let too_many = |what: &str| {
            let message = format!("The context has more headers than {what} allows");
            ToolFailure::invalid_input(message)
        };
        let bytes = headers.iter().map(|(name, value)| name.len() + value.len());
        if headers.len() > self.count {
            return Err(too_many("http.max_headers"));
        }
        if bytes.sum::<usize>() > self.bytes {
            return Err(too_many("http.max_header_bytes"));
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header = HeaderName::try_from(&name).ok();
            let header = header.zip(HeaderValue::try_from(value).ok());
            let (header, value) = header.ok_or_else(|| {
                ToolFailure::invalid_input(format!(
                    "The value of the header {name} has characters that are not allowed in a header"
                ))
            })?;
            map.try_insert(header, value)
                .map_err(|_| too_many("HTTP"))?;
        }
        Ok(map)
    }
}
