use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::{CallEnd, CallNotification, JobChannel, JobPeer, PeerGone, cancelled_failure};
use crate::executor::{
    ApprovalFuture, ApprovalRequest, Approver, CallGate, Decision, ExecutorHooks, GateFuture,
    Observer, ReadyCall,
};
use crate::tool::{CallContext, ToolCall, ToolOrigin, ToolResult};

/// Returns the hooks of an executor whose calls have channels to peers `P`: the peer decides on
/// approvals, checks calls before they run, and is notified of calls, if the peer
/// [handles](super::HandledJobs) these jobs.
#[must_use]
pub fn hooks<P: JobPeer>() -> ExecutorHooks {
    let hooks = Arc::new(PeerHooks::<P>(PhantomData));
    ExecutorHooks {
        approver: Some(Arc::clone(&hooks) as _),
        gate: Some(Arc::clone(&hooks) as _),
        observer: Some(hooks),
        ..ExecutorHooks::default()
    }
}

struct PeerHooks<P>(PhantomData<fn() -> P>);

impl<P: JobPeer> Approver for PeerHooks<P> {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let channel = JobChannel::<P>::find(&request.context).map(Arc::clone);
        Box::pin(async move {
            let Some(channel) = channel.filter(|channel| channel.peer.handled_jobs().approvals)
            else {
                return Ok(Decision::Undecided);
            };
            let _turn = channel.acquire_turn_unless_held(&request.context).await;
            let outcome = channel.peer.approve(Box::new(request)).await;
            outcome.unwrap_or_else(|PeerGone| Err(cancelled_failure("The approval request")))
        })
    }
}

impl<P: JobPeer> CallGate for PeerHooks<P> {
    fn enter(&self, call: ReadyCall) -> GateFuture {
        let channel = JobChannel::<P>::find(&call.context).map(Arc::clone);
        Box::pin(async move {
            let Some(channel) = channel.filter(|channel| channel.peer.handled_jobs().gate) else {
                return Ok(None);
            };
            let _turn = channel.acquire_turn_unless_held(&call.context).await;
            let outcome = channel.peer.enter(Box::new(call)).await;
            outcome.unwrap_or_else(|PeerGone| Err(cancelled_failure("The check before the call")))
        })
    }
}

impl<P: JobPeer> PeerHooks<P> {
    fn notify(context: &CallContext, notification: impl FnOnce() -> CallNotification) {
        let peer = JobChannel::<P>::find(context).map(|channel| &channel.peer);
        if let Some(peer) = peer.filter(|peer| peer.handled_jobs().notifications) {
            peer.notify(notification());
        }
    }
}

impl<P: JobPeer> Observer for PeerHooks<P> {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        Self::notify(context, || CallNotification {
            tool: call.name.clone(),
            call_id: call.id.clone(),
            server: origin.and_then(server_name),
            end: None,
        });
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        Self::notify(context, || CallNotification {
            tool: result.tool_name.clone(),
            call_id: result.tool_call_id.clone(),
            server: origin.and_then(server_name),
            end: Some(CallEnd {
                error_code: result.error_code,
                elapsed,
            }),
        });
    }
}

fn server_name(origin: &ToolOrigin) -> Option<String> {
    match origin {
        ToolOrigin::Mcp { server_url, .. } if origin.server_label() == Some("") => {
            Some(server_url.clone())
        }
        _ => origin.server_label().map(str::to_owned),
    }
}
