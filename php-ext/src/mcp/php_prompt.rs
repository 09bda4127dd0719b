use std::sync::{Arc, Mutex};

use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, PendingAuthorization, PromptError, PromptFuture,
};

use super::router::MessageRouter;
use super::server_job::ServerJob;
use crate::runtime::lock;
use crate::wait::ReplySender;

/// An authorization that the user grants later, possibly in another PHP request or process.
pub struct DeferredAuthorization {
    /// The URL of the authorization page.
    pub url: String,
    /// The scopes that the authorization requests.
    pub scopes: Vec<String>,
    pub pending_authorization: PendingAuthorization,
}

/// Asks the user to authorize the MCP client: the waiting PHP thread runs the authorization
/// callback of the PHP object. If the object has no callback, the authorization is deferred.
pub struct PhpPrompt {
    router: Arc<MessageRouter>,
    /// Whether the object has a callback for authorizations.
    has_callback: bool,
    deferred_authorization: Mutex<Option<DeferredAuthorization>>,
}

impl PhpPrompt {
    pub(super) fn new(router: &Arc<MessageRouter>, has_callback: bool) -> Self {
        Self {
            router: Arc::clone(router),
            has_callback,
            deferred_authorization: Mutex::new(None),
        }
    }

    /// Removes and returns the deferred authorization, if there is one.
    pub fn take_deferred_authorization(&self) -> Option<DeferredAuthorization> {
        lock(&self.deferred_authorization).take()
    }
}

impl AuthorizationPrompt for PhpPrompt {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let url = request.url.into();
            if !self.has_callback {
                *lock(&self.deferred_authorization) = Some(DeferredAuthorization {
                    url,
                    scopes: request.scopes,
                    pending_authorization: request.pending,
                });
                return Err(PromptError::Deferred);
            }
            let (reply_sender, response) = ReplySender::new();
            self.router
                .enqueue(ServerJob::Authorize { url, reply_sender });
            response.await.unwrap_or(Err(PromptError::Abandoned))
        })
    }
}
