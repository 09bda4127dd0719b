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
mod quote;
mod schema_form;
mod sign_in;
mod ui;
mod visitor;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use futures_util::future::join;
use pillion_config::{ConfigWarning, ConsoleSection, EffectiveConfig};
use pillion_gateway::Gateway;
use pillion_gateway::access::{AccessGate, AccessGrant, BrowserSessions, SessionLifetime};
use pillion_management::servers::Servers;
use pillion_management::{approvals, pins};
use tokio::time::timeout;

/// Maximum time for which a page waits for the numbers in the navigation. The store may not
/// respond.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// The absolute path of the Unix socket.
    pub socket: PathBuf,
    /// The address of the TCP listener, if there is one.
    pub listen: Option<SocketAddr>,
    /// Whether the TCP listener accepts the access tokens of the store.
    pub accepts_stored_tokens: bool,
    /// The settings of the console.
    pub section: ConsoleSection,
    /// The settings of the whole configuration.
    pub effective_config: Arc<EffectiveConfig>,
    /// The warnings about the configuration.
    pub warnings: Arc<[ConfigWarning]>,
    /// The number of configurations that reloads had applied when the pages were built. A stream
    /// ends once this number has changed, because its pages show an earlier configuration.
    pub applied_reloads: u64,
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
        let approvals = timeout(
            COUNT_TIMEOUT,
            approvals::count_pending(&self.gateway, grant),
        );
        let changes = timeout(COUNT_TIMEOUT, pins::count_changed(&self.gateway, grant));
        let (approvals, changes) = join(approvals, changes).await;
        let number = |outcome: Result<Result<u64, _>, _>| outcome.ok()?.ok();
        (number(approvals).unwrap_or(0), number(changes).unwrap_or(0))
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
        .route(admission::LIVE_PATH, get(live::changes))
        .route("/assets/{name}", get(assets::send))
        .fallback(pages::not_found);
    pages
        .layer(from_fn_with_state(console.clone(), admission::admit))
        .with_state(console)
}
