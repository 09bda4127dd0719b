//! Handles authorizations that a user grants while this process waits, or later in another process.

use std::sync::Arc;

use pillion_core::tool::ErrorCode;
use pillion_mcp_client::{AuthorizationResponse, McpError};

use super::ServerLink;
use crate::exception;
use crate::mcp::connection::{ClientCapabilities, McpConnection};
use crate::mcp::credentials;
use crate::mcp::hooks::{Hooks, TOKEN_STORE};
use crate::mcp::token_slot::TokenSlot;
use crate::mcp::waiting_client::WaitingClient;
use crate::runtime;
use crate::wait::wait;
use crate::zend::{Failure, Result};

impl ServerLink {
    /// If the user may have to grant an authorization, connects before the call, so that the time
    /// for the user's decision does not count against the call's timeout. A failure to connect is
    /// ignored here, because the call itself then fails with the same error.
    ///
    /// # Errors
    /// An exception of PHP code that runs during the wait.
    pub fn connect_for_authorization(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<McpConnection>,
    ) -> Result<()> {
        if !self.capabilities.borrow().has_authorization
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
            let has_timed_out = outcome.is_err_and(|error| error.is_timeout());
            if !has_timed_out || !self.has_prompted_user.get() {
                return Ok(());
            }
        }
    }

    /// Returns the exception for an error. If the error is a deferred authorization, saves the
    /// authorization in the token store, and adds its URL to the exception.
    ///
    /// # Errors
    /// An exception of the token store.
    pub fn convert_error(&self, hooks: Hooks<'_>, error: &McpError) -> Result<Failure> {
        let failure = exception::for_mcp_error(error);
        let Some(deferred) = self
            .current_connection()
            .and_then(|current| current.take_deferred_authorization())
        else {
            return Ok(failure);
        };
        credentials::save_pending(hooks, &deferred.pending_authorization)?;
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
    pub fn start_authorization(&self, hooks: Hooks<'_>) -> Result<(String, String)> {
        let connection = self.open_unauthorized_connection(hooks)?;
        let client = connection.client().clone();
        let outcome = wait(async move {
            client.connect().await?;
            client.ping().await?;
            // Sends `tools/list` after the handshake, because some servers require a token only for
            // `tools/list`.
            client.list_tools().await.map(drop)
        })?;
        match (connection.take_deferred_authorization(), outcome) {
            (Some(deferred), _) => {
                credentials::save_pending(hooks, &deferred.pending_authorization)?;
                Ok((deferred.url, deferred.pending_authorization.state))
            }
            (None, Err(error)) => Err(exception::for_mcp_error(&error)),
            (None, Ok(())) => Err(exception::for_code(
                ErrorCode::Unavailable,
                "The MCP server requires no authorization: \
                 call its tools without startAuthorization()",
            )),
        }
    }

    /// Completes an authorization after the browser has returned: requests the tokens and stores
    /// them.
    ///
    /// # Errors
    /// An `AuthorizationException` if the authorization was not started with this token store, or
    /// was denied. An exception of the token store.
    pub fn finish_authorization(&self, hooks: Hooks<'_>, callback_url: &str) -> Result<()> {
        let connection = self.open_unauthorized_connection(hooks)?;
        let invalid_url = |error| exception::invalid_input(format!("$callbackUrl: {error}"));
        let response = AuthorizationResponse::from_redirect(callback_url).map_err(invalid_url)?;
        let state = response.state().unwrap_or_default();
        let pending_authorization = credentials::take_pending(hooks, state)?.ok_or_else(|| {
            exception::authorization_denied(
                "No pending authorization has the 'state' of $callbackUrl: \
                 call startAuthorization() first",
            )
        })?;
        let client = connection.client().clone();
        let outcome = wait(async move {
            client
                .finish_authorization(pending_authorization, response)
                .await
        })?;
        outcome.map_err(|error| exception::for_mcp_error(&error))?;
        self.forget_connection();
        self.deliver(hooks, &connection)
    }

    /// Creates a separate connection without tokens, to start an authorization.
    fn open_unauthorized_connection(&self, hooks: Hooks<'_>) -> Result<Arc<McpConnection>> {
        if !self.has_user_tokens() {
            return Err(exception::invalid_input(
                "The server is not configured for OAuth authorization: set the option 'oauth'",
            ));
        }
        if hooks.get(TOKEN_STORE).is_none() {
            return Err(exception::invalid_input(
                "A deferred authorization requires a token store: call setTokenStore()",
            ));
        }
        runtime::engine()?;
        let capabilities = ClientCapabilities {
            can_defer_authorization: true,
            ..ClientCapabilities::default()
        };
        let tokens = Arc::new(TokenSlot::default());
        let config = self.server.config().clone();
        let connection = McpConnection::new(config, &capabilities, Some(tokens));
        Ok(Arc::new(connection))
    }
}
