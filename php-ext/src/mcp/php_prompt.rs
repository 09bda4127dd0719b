use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, PendingAuthorization, PromptError, PromptFuture,
};

use super::router::MessageRouter;
use super::server_job::ServerJob;
use crate::wait::ReplySender;

/// A deferred authorization: the user grants it later, possibly while another process runs.
pub struct DeferredAuthorization {
    /// The URL of the authorization page.
    pub url: String,
    /// The scopes that the authorization requests.
    pub scopes: Vec<String>,
    pub pending: PendingAuthorization,
}

/// Asks the user for an authorization through the waiting PHP thread, or defers the authorization.
pub struct PhpPrompt {
    router: Arc<MessageRouter>,
    /// Whether the object has a callback for authorizations.
    has_callback: bool,
    deferred: Mutex<Option<DeferredAuthorization>>,
}

impl PhpPrompt {
    pub(super) fn new(router: &Arc<MessageRouter>, has_callback: bool) -> Self {
        Self {
            router: Arc::clone(router),
            has_callback,
            deferred: Mutex::new(None),
        }
    }

    fn deferred(&self) -> MutexGuard<'_, Option<DeferredAuthorization>> {
        // A panic while the lock is held leaves a valid value behind.
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the deferred authorization, if there is one.
    pub fn take_deferred(&self) -> Option<DeferredAuthorization> {
        self.deferred().take()
    }
}

impl AuthorizationPrompt for PhpPrompt {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let url = request.url.into();
            if !self.has_callback {
                *self.deferred() = Some(DeferredAuthorization {
                    url,
                    scopes: request.scopes,
                    pending: request.pending,
                });
                return Err(PromptError::Deferred);
            }
            let (reply, response) = ReplySender::new();
            self.router.enqueue(ServerJob::Authorize { url, reply });
            response.await.unwrap_or(Err(PromptError::Abandoned))
        })
    }
}
