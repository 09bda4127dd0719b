//! An MCP client for servers over HTTP (Streamable HTTP, HTTP+SSE and their variants), over
//! WebSocket, and over the standard streams of a program.
//!
//! [`McpClient`] is the client. Internally, `connect` detects transport and protocol revision, a
//! session is an open connection, and a transport carries messages. Messages stay raw JSON, so that
//! nothing that a server sends is lost.

mod call_tool_result;
mod callbacks;
mod client;
mod close_signal;
mod config;
mod connect;
mod dialect;
mod entry;
mod error;
mod http;
mod message;
mod oauth;
mod on_drop;
mod opener;
mod param_headers;
mod peer;
mod peer_text;
mod probe;
mod protocol_version;
mod repeat;
mod result_cache;
mod secrets;
mod session;
mod session_loss;
mod transport;
mod whole_value;

pub use call_tool_result::as_call_tool_result;
pub use callbacks::{Callbacks, Notification, ProgressCallback, ProgressNotification};
pub use client::{
    ConnectionInfo, McpClient, McpLogLevel, OUTPUT_MISMATCH_TARGET, OpenConnection, RequestOptions,
    Subscription, SubscriptionFilter, ToolCallResult,
};
pub use config::{
    Authentication, AuthorizationServices, Endpoint, Handshake, Limits, ServerConfig,
    ServerConfigError, ServerDefinition, StdioCommand, TransportKind, UnknownTransport,
};
pub use entry::{CheckedEntry, EntryError, EntryKind, has_object_output};
pub use error::{ErrorClass, McpError, McpErrorKind, MessageStyle};
pub use message::{CLIENT_CAPABILITIES, RESERVED_PREFIX as RESERVED_META, RpcError};
pub use oauth::{
    AuthorizationChallenge, AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse,
    ClientRegistration, InMemoryTokenStore, InvalidRedirect, OAuthConfig, OAuthCredentials,
    OAuthError, OAuthGrant, OAuthTokens, PendingAuthorization, PromptError, PromptFuture, SdkError,
    SigningAlgorithm, StoreFuture, TokenKey, TokenStore, TokenStoreError,
};
pub use param_headers::param_header_mismatch;
pub use peer_text::{MAX_ERROR_TEXT_BYTES, MAX_IDENTIFIER_BYTES, shortened};
pub use probe::ProbeStep;
pub use protocol_version::{Feature, ProtocolVersion, UnknownProtocolVersion};
pub use secrets::Secrets;
pub use whole_value::WholeValue;
