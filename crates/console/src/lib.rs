//! The console: pages in which people watch and manage a sidecar, rendered by the sidecar itself.
//!
//! [`router`] serves the pages. Every page works without JavaScript and below any path prefix: all
//! URLs are relative. Pages show text that attackers may have written, so no page contains inline
//! scripts or styles, the Content-Security-Policy allows none, and hidden characters are shown
//! (`ui`). `admission` identifies the user of each request, and rejects forged requests before
//! any handler runs.

mod admission;
mod assets;
mod error;
mod form;
mod live;
mod pages;
mod schema_form;
mod sign_in;
mod ui;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use pillion_config::ConsoleSection;
use pillion_gateway::Gateway;
use pillion_gateway::access::{AccessGate, AccessGrant, BrowserSessions, SessionLifetime};
use pillion_management::servers::Servers;
use pillion_management::{approvals, pins};

/// The path of the console at the sidecar.
pub const PATH: &str = "/console";

/// What the pages show and change. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Console {
    /// The tools, servers, calls and approvals.
    pub gateway: Gateway,
    /// The MCP servers that are added and changed at run time; `None` without a store.
    pub servers: Option<Arc<Servers>>,
    /// The access rules of the TCP listener, if there is one.
    pub gate: Option<Arc<AccessGate>>,
    /// The settings of the console.
    pub section: ConsoleSection,
}

impl Console {
    fn sessions(&self) -> &BrowserSessions {
        &self.gateway.process().browser_sessions
    }

    fn session_lifetime(&self) -> SessionLifetime {
        SessionLifetime {
            idle: self.section.idle_timeout,
            absolute: self.section.session_ttl,
        }
    }

    /// Returns the number of approvals and the number of changed tools that wait for a decision. A
    /// number that cannot be read is 0: the pages of the entries show the error.
    async fn count_waiting(&self, grant: &AccessGrant) -> (u64, u64) {
        let approvals = approvals::count_pending(&self.gateway, grant).await;
        let changes = pins::count_changed(&self.gateway, grant).await;
        (approvals.unwrap_or(0), changes.unwrap_or(0))
    }

    /// Returns whether browsers can sign in with access tokens.
    fn accepts_tokens(&self) -> bool {
        self.gate.is_some()
    }
}

/// Returns the routes of the console, for [`PATH`].
pub fn router(console: Console) -> Router {
    let pages = pages::routes()
        .route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/live", get(live::changes))
        .route("/assets/{name}", get(assets::send))
        .fallback(pages::not_found);
    pages
        .layer(from_fn_with_state(console.clone(), admission::admit))
        .with_state(console)
}
