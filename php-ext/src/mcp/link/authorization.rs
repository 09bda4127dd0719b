//! Handles authorizations that a user grants, in this process or later in another one.

use std::sync::Arc;

use pillion_core::tool::ErrorCode;
use pillion_mcp_client::{AuthorizationResponse, McpError};

use super::ServerLink;
use crate::exception;
use crate::mcp::connection::{ClientCapabilities, McpConnection};
use crate::mcp::credentials;
use crate::mcp::hooks::{Hooks, TOKENS};
use crate::mcp::token_slot::TokenSlot;
use crate::mcp::waiting_client::WaitingClient;
use crate::runtime::{self, Bound};
use crate::wait::wait;
use crate::zend::Failure;

impl ServerLink {
    /// Connects before a call if the user may have to grant an authorization, so that the time that
    /// the user takes does not count against the call's timeout. The outcome is ignored, because
    /// the call itself fails with the same error.
    ///
    /// # Errors
    /// An exception of PHP code that runs during the wait.
    pub fn connect_for_authorization(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
    ) -> Result<(), Failure> {
        if !self.capabilities.borrow().authorization
            || connection.client().open_connection().is_some()
        {
            return Ok(());
        }
        loop {
            let client = connection.client().clone();
            self.has_prompted_user.set(false);
            let waiting_client =
                WaitingClient::for_connection(self, hooks, Arc::clone(connection), None);
            let outcome = waiting_client.wait(|_| async move { client.connect().await })?;
            let timed_out = outcome.is_err_and(|error| error.is_timeout());
            if !timed_out || !self.has_prompted_user.get() {
                return Ok(());
            }
        }
    }

    /// Returns the exception for an error. If the error is a deferred authorization, also saves the
    /// authorization, and adds its URL to the exception.
    ///
    /// # Errors
    /// An exception of the token store.
    pub fn failure(&self, hooks: Hooks<'_>, error: &McpError) -> Result<Failure, Failure> {
        let failure = exception::for_mcp_error(error);
        let connection = {
            let connection = self.connection.borrow();
            connection.as_ref().and_then(Bound::get).cloned()
        };
        let prompt = connection
            .as_ref()
            .and_then(|connection| connection.prompt());
        let Some(deferred) = prompt.and_then(|prompt| prompt.take_deferred()) else {
            return Ok(failure);
        };
        credentials::save_pending(hooks, &deferred.pending)?;
        Ok(exception::with_authorization(
            failure,
            &deferred.url,
            &deferred.scopes,
        ))
    }

    /// Starts a deferred authorization. Returns the URL of the authorization page and the `state`
    /// that the browser returns with.
    ///
    /// # Errors
    /// An error of the server or the token store. An `InvalidInputException` if OAuth or the token
    /// store is not configured.
    pub fn start_authorization(&self, hooks: Hooks<'_>) -> Result<(String, String), Failure> {
        let connection = self.unauthorized(hooks)?;
        let client = connection.client().clone();
        let outcome = wait(async move {
            client.connect().await?;
            client.ping().await?;
            // Some servers require a token only for `tools/list`.
            client.list_tools().await.map(drop)
        })?;
        let deferred = connection
            .prompt()
            .and_then(|prompt| prompt.take_deferred());
        match (deferred, outcome) {
            (Some(deferred), _) => {
                credentials::save_pending(hooks, &deferred.pending)?;
                Ok((deferred.url, deferred.pending.state))
            }
            (None, Err(error)) => Err(exception::for_mcp_error(&error)),
            (None, Ok(())) => Err(exception::for_code(
                ErrorCode::Unavailable,
                "The server requires no authorization",
            )),
        }
    }

    /// Completes an authorization after the browser has returned: requests the tokens and stores
    /// them.
    ///
    /// # Errors
    /// An `AuthorizationException` if the authorization was not started with this token store, or
    /// was denied. An exception of the token store.
    pub fn finish_authorization(&self, hooks: Hooks<'_>, address: &str) -> Result<(), Failure> {
        let connection = self.unauthorized(hooks)?;
        let invalid_url = |error| exception::invalid_input(format!("$callbackUrl: {error}"));
        let response = AuthorizationResponse::from_redirect(address).map_err(invalid_url)?;
        let state = response.state().unwrap_or_default();
        let pending = credentials::take_pending(hooks, state)?.ok_or_else(|| {
            exception::authorization_denied("No authorization with this state was started")
        })?;
        let client = connection.client().clone();
        let finished = wait(async move { client.finish_authorization(pending, response).await })?;
        finished.map_err(|error| exception::for_mcp_error(&error))?;
        self.forget_connection();
        self.deliver(hooks, &connection)
    }

    /// Creates a separate connection without tokens, to start an authorization.
    fn unauthorized(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>, Failure> {
        if !self.is_personal() {
            return Err(exception::invalid_input(
                "The server is not configured for an authorization: set the option 'oauth'",
            ));
        }
        if hooks.get(TOKENS).is_none() {
            return Err(exception::invalid_input(
                "A deferred authorization requires setTokenStore()",
            ));
        }
        runtime::engine()?;
        let capabilities = ClientCapabilities {
            deferral: true,
            ..ClientCapabilities::default()
        };
        let tokens = Arc::new(TokenSlot::default());
        let config = self.server.config().clone();
        Ok(Arc::new(McpConnection::new(
            config,
            &capabilities,
            Some(tokens),
        )))
    }
}
