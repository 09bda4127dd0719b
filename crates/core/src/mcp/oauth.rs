//! OAuth 2.1 for MCP servers over HTTP (MCP 2026-07-28, basic/authorization, and its
//! extensions in `modelcontextprotocol/ext-auth`).
//!
//! `authorizer` stands between a request and the wire: it adds the token, and when the
//! server refuses it obtains another, once for all the calls that wait. `flow` is one such
//! errand: discover the authorization server, refresh or ask again, keep the tokens.
//!
//! The official SDK, `rmcp`, finds the authorization server, registers the client and
//! writes the authorization request. Token requests are made here, because DPoP, client
//! assertions and the grants of the extensions are nothing that it knows (ADR 0010).

mod authorization_code;
mod authorizer;
mod challenge;
mod client;
mod config;
mod discovery;
mod dpop;
mod enterprise;
mod error;
mod flow;
mod jwt;
mod prompt;
mod registration;
mod token_request;
mod token_store;
mod tokens;
mod unattended;
mod web;

pub(super) use authorizer::OAuthAuthorizer;
pub use challenge::AuthorizationChallenge;
pub use config::{OAuthConfig, OAuthGrant, SigningAlgorithm};
pub use error::{OAuthError, SdkError};
pub use prompt::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, InvalidRedirect,
    PendingAuthorization, PromptError, PromptFuture,
};
pub use token_store::{
    ClientRegistration, InMemoryTokenStore, OAuthCredentials, OAuthTokens, StoreFuture, TokenKey,
    TokenStore, TokenStoreError,
};
