//! OAuth 2.1 for MCP servers over HTTP (MCP 2026-07-28, basic/authorization, and its extensions in
//! `modelcontextprotocol/ext-auth`).
//!
//! `authorizer` adds the token to requests. If the server rejects a token, `authorizer` obtains
//! another one, once for all waiting calls. `flow` obtains tokens: discovers the authorization
//! server, refreshes or requests tokens, and stores them.
//!
//! `discovery` finds the authorization server: `resource` fetches the MCP server's metadata, which
//! names issuers, and `metadata` fetches the metadata of an `issuer` from the issuer's own
//! addresses. `binding` decides which issuer may see the client's credentials.
//!
//! The official SDK, `rmcp`, registers the client and builds the authorization request. Pillion
//! discovers the authorization server itself, because the SDK does not bind metadata to the issuer
//! in every case. Pillion also sends the token requests itself, because the SDK does not support
//! DPoP, client assertions and the grants of the extensions (ADR 0010).

mod authorization_code;
mod authorizer;
mod binding;
mod challenge;
mod client;
mod config;
mod discovery;
mod dpop;
mod enterprise;
mod error;
mod flow;
mod issuer;
mod jwt;
mod metadata;
mod prompt;
mod registration;
mod resource;
mod secret_json;
mod token_request;
mod token_store;
mod tokens;
mod unattended;
mod web;

pub(super) use authorizer::OAuthAuthorizer;
pub use challenge::AuthorizationChallenge;
pub use config::{OAuthConfig, OAuthGrant};
pub use error::{OAuthError, SdkError};
pub use jwt::SigningAlgorithm;
pub use prompt::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, InvalidRedirect,
    PendingAuthorization, PromptError, PromptFuture,
};
pub(super) use resource::find_authorization_servers;
pub use token_store::{
    ClientRegistration, InMemoryTokenStore, OAuthCredentials, OAuthTokens, StoreFuture, TokenKey,
    TokenStore, TokenStoreError,
};
