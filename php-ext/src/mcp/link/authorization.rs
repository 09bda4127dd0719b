//! Authorizations by a person: in this process, or later in another.

use std::sync::Arc;

use pillion_core::mcp::{AuthorizationResponse, McpError};
use pillion_core::tool::ErrorCode;

use super::Link;
use crate::exception;
use crate::mcp::attendant::Attendant;
use crate::mcp::connection::{Connection, Offers};
use crate::mcp::credentials::{self, TokenSlot};
use crate::mcp::hooks::{Hooks, TOKENS};
use crate::runtime::{self, Bound};
use crate::wait::wait;
use crate::zend::Failure;

impl Link {
    /// Connects, where a person may have to be asked for an authorization meanwhile: that
    /// time is not the call's. How it ends the call itself finds out.
    ///
    /// # Errors
    /// What PHP code throws that runs meanwhile.
    pub fn authorize_first(
        &self,
        hooks: Hooks<'_>,
        connection: &Arc<Connection>,
    ) -> Result<(), Failure> {
        if !self.offers.borrow().authorization || connection.client().open_connection().is_some() {
            return Ok(());
        }
        loop {
            let client = connection.client().clone();
            self.has_asked.set(false);
            let attendant = Attendant::of(self, hooks, Arc::clone(connection), None);
            let outcome = attendant.wait(|_| async move { client.connect().await })?;
            let timed_out = outcome.is_err_and(|error| error.is_timeout());
            if !timed_out || !self.has_asked.get() {
                return Ok(());
            }
        }
    }

    /// The exception for an error. Where an authorization has been asked for that can be given
    /// later, it is kept, and the exception says where.
    ///
    /// # Errors
    /// What the token store throws.
    pub fn failure(&self, hooks: Hooks<'_>, error: &McpError) -> Result<Failure, Failure> {
        let failure = exception::of_mcp(error);
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
        credentials::keep_pending(hooks, &deferred.pending)?;
        Ok(exception::with_authorization(
            failure,
            &deferred.url,
            &deferred.scopes,
        ))
    }

    /// Asks for an authorization that is given later: the page, and the state that the
    /// browser comes back with.
    ///
    /// # Errors
    /// What the server or the token store says; an `InvalidInputException` without OAuth or
    /// a token store.
    pub fn start_authorization(&self, hooks: Hooks<'_>) -> Result<(String, String), Failure> {
        let connection = self.unauthorized(hooks)?;
        let client = connection.client().clone();
        let asked = wait(async move {
            client.connect().await?;
            client.ping().await?;
            // Some servers ask for a token no sooner than that.
            client.list_tools().await.map(drop)
        })?;
        let deferred = connection
            .prompt()
            .and_then(|prompt| prompt.take_deferred());
        match (deferred, asked) {
            (Some(deferred), _) => {
                credentials::keep_pending(hooks, &deferred.pending)?;
                Ok((deferred.url, deferred.pending.state))
            }
            (None, Err(error)) => Err(exception::of_mcp(&error)),
            (None, Ok(())) => Err(exception::of_code(
                ErrorCode::Unavailable,
                "The server asks for no authorization",
            )),
        }
    }

    /// Takes up an authorization, now that the browser has come back: gets the tokens, and
    /// stores them.
    ///
    /// # Errors
    /// An `AuthorizationException` when it was not asked for here or not given; what the token
    /// store throws.
    pub fn finish_authorization(&self, hooks: Hooks<'_>, address: &str) -> Result<(), Failure> {
        let connection = self.unauthorized(hooks)?;
        let not_an_address = |error| exception::invalid_input(format!("$callbackUrl: {error}"));
        let response = AuthorizationResponse::from_redirect(address).map_err(not_an_address)?;
        let state = response.state().unwrap_or_default();
        let pending = credentials::take_pending(hooks, state)?;
        let pending = pending.ok_or_else(|| {
            exception::refused("No authorization has been asked for with this state")
        })?;
        let client = connection.client().clone();
        let finished = wait(async move { client.finish_authorization(pending, response).await })?;
        finished.map_err(|error| exception::of_mcp(&error))?;
        self.forget_connection();
        self.deliver(hooks, &connection)
    }

    /// A connection of its own that has no tokens yet.
    fn unauthorized(&self, hooks: Hooks<'_>) -> Result<Arc<Connection>, Failure> {
        if !self.is_personal() {
            return Err(exception::invalid_input(
                "The server is not configured for an authorization: set the option 'oauth'",
            ));
        }
        if hooks.get(TOKENS).is_none() {
            return Err(exception::invalid_input(
                "An authorization that is given later needs setTokenStore()",
            ));
        }
        runtime::engine()?;
        let offers = Offers {
            deferral: true,
            ..Offers::default()
        };
        let tokens = Arc::new(TokenSlot::default());
        let config = self.server.config().clone();
        Ok(Arc::new(Connection::new(config, &offers, Some(tokens))))
    }
}
