//! Servers for tests: fake MCP servers with every transport, a server with scripted HTTP faults,
//! a server that closes its connections without announcing it,
//! TLS servers with expired or untrusted certificates, the real MCP servers of `tests/peers`, a
//! fake language model, and a real Postgres. Also WebAssembly components, the servers of benchmarks,
//! and [`skip`], which reports a test that cannot run on this machine.
//!
//! All servers except [`fake_stdio`], [`Postgres`], [`PostgresRelay`], [`Twin`] and
//! [`wasm_component`] listen on 127.0.0.1, require a tokio runtime, and stop when they are dropped.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests use this crate, and a test fails by panicking"
)]

mod checkout;
mod closing_server;
mod fake_llm;
mod fake_mcp;
mod fake_oauth;
mod fake_stdio;
mod fake_web_socket;
mod fault_server;
mod listen;
mod lying_server;
mod peers;
mod postgres;
mod recorder;
mod reply;
mod skip;
mod tls_server;
mod twin;
mod wasm;

pub use checkout::checkout;
pub use closing_server::{CloseKind, CloseTime, ClosingRules, ClosingServer};
pub use fake_llm::{FakeLlm, LlmDialect, LlmFault, LlmResponse};
pub use fake_mcp::{Dialect, Endpoint, FakeMcp, FakeMcpBuilder};
pub use fake_oauth::{FakeOAuth, OAuthRules};
pub use fake_stdio::fake_stdio;
pub use fake_web_socket::{FakeWebSocket, Subprotocol};
pub use fault_server::{Fault, FaultServer};
pub use listen::listen;
pub use lying_server::{Lie, LyingServer};
pub use peers::Peer;
pub use postgres::{Postgres, PostgresRelay};
pub use recorder::{Recorded, Recorder};
pub use reply::Reply;
pub use skip::{root_or_skip, skip};
pub use tls_server::{CertificateAuthority, TlsServer, signing_key};
pub use twin::Twin;
pub use wasm::wasm_component;
