//! The configuration: a tree of small structs, read from a TOML file and the environment.
//!
//! Later sources win: the built-in defaults, the file, `MCP_MAX_CONCURRENT_TOOLS` and
//! `MCP_CALCULATOR_TIMEOUT`, `MCP_SEARCH_TIMEOUT` and `LOG_LEVEL`, then `PILLION__` variables, whose names are the
//! path of the key in capitals with `__` between its parts: `PILLION__EXECUTOR__TIMEOUT_MS`
//! sets `executor.timeout_ms`. A variable's value is read as TOML (`5000`, `true`,
//! `["a", "b"]`, `[{label = "x", url = "..."}]`), or as plain text where it is none.
//!
//! A key that does not exist, a value of the wrong type and a number out of range are
//! errors that name the key and where it stands.
//!
//! ```
//! use pillion::config::Config;
//! let config = Config::parse("[executor]\ntimeout_ms = 500", "pillion.toml")?;
//! assert_eq!(config.executor.timeout.as_millis(), 500);
//! let error = Config::parse("[executor]\ntimeout_ms = \"soon\"", "pillion.toml").unwrap_err();
//! assert!(error.to_string().starts_with("pillion.toml:2: executor.timeout_ms: "));
//! # Ok::<(), pillion::config::ConfigError>(())
//! ```

mod approvals;
mod builtins;
mod cache;
mod call_log;
mod credential;
mod environment;
mod error;
mod executor;
mod group;
mod http;
mod key_path;
mod load;
mod locate;
mod log;
mod mcp;
mod mcp_server;
mod memory;
mod millis;
mod models;
mod results;
mod servers;
mod shutdown;
mod socket;
mod store;
mod stored_servers;
mod tcp;
mod telemetry;
mod user;
mod vault;
mod workers;

use std::collections::BTreeMap;

use pillion_core::capability::ModelConfig;
use pillion_core::executor::ExecutorConfig;
use serde::Deserialize;

use crate::servers::Account;
pub use approvals::{ApprovalsSection, AskClients};
pub use builtins::BuiltinTools;
pub use cache::{CacheScopeName, CacheSection};
pub use call_log::CallLogSection;
pub use credential::CredentialPolicy;
pub use error::ConfigError;
pub use executor::{ExecutorSection, RateLimitSection, ToolSection};
pub use group::Group;
pub use http::HttpSection;
pub use key_path::{Key, KeyPath};
pub(crate) use log::FilterLayer;
pub use log::{LogFilter, LogFormat, LogSection};
pub use mcp::{McpSection, PinPolicy};
pub use mcp_server::McpServerSection;
pub use memory::MemorySection;
pub use results::ResultsSection;
pub use shutdown::ShutdownSection;
pub use socket::{SocketMode, SocketSection};
pub use store::{DurabilityName, LocationText, StoreSection};
pub use stored_servers::StoredServersSection;
pub use tcp::TcpSection;
pub use telemetry::{CollectorUrl, TelemetrySection};
pub use user::User;
pub use vault::VaultSection;
pub use workers::WorkersSection;

/// Everything `pillion serve` can be told.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen and who may connect.
    pub socket: SocketSection,
    /// The same over TCP.
    pub tcp: TcpSection,
    /// Limits of the HTTP server.
    pub http: HttpSection,
    /// How tools run.
    pub executor: ExecutorSection,
    /// Which calls somebody has to approve.
    pub approvals: ApprovalsSection,
    /// Settings of single tools, by name, as in `[tools.calculator]`.
    pub tools: BTreeMap<String, ToolSection>,
    /// Whom the built-in tools ask that ask services over the network. Read apart from the
    /// rest, since keys come from the environment.
    #[serde(skip)]
    pub builtins: BuiltinTools,
    /// What is remembered of conversations.
    pub memory: MemorySection,
    /// How much is kept of their results.
    pub cache: CacheSection,
    /// How MCP servers are asked for their tools.
    pub mcp: McpSection,
    /// The MCP servers whose tools are offered. Read apart from the rest, so that an error
    /// in an entry names its key.
    #[serde(skip)]
    pub mcp_servers: Vec<McpServerSection>,
    /// What holds for the MCP servers that are added while the sidecar runs.
    pub servers: StoredServersSection,
    /// Where the sidecar keeps what must outlive it.
    pub store: StoreSection,
    /// Processes that offer tools of their own.
    pub workers: WorkersSection,
    /// Results that are too large to be handed over at once.
    pub results: ResultsSection,
    /// The key of the credentials there.
    pub vault: VaultSection,
    /// What is kept of the calls.
    pub call_log: CallLogSection,
    /// The models that clients of the MCP server may name, and what each may see (H2):
    /// `[[models]]`.
    #[serde(deserialize_with = "models::read")]
    pub models: Vec<ModelConfig>,
    /// What to log, and how.
    pub log: LogSection,
    /// Traces for a collector.
    pub telemetry: TelemetrySection,
    /// How to stop.
    pub shutdown: ShutdownSection,
}

impl Config {
    /// Its MCP servers' names, and the account of each that has one.
    pub(crate) fn servers_of_the_file(&self) -> Vec<(String, Option<Account>)> {
        let servers = self.mcp_servers.iter();
        let servers = servers.map(|section| {
            let account = Account::of(&section.server);
            (section.label().to_owned(), account)
        });
        servers.collect()
    }

    /// The executor's configuration: what its own section says, and those of approvals, tools
    /// and MCP servers.
    pub(crate) fn executor_config(&self) -> ExecutorConfig {
        let mut executor = self.executor.to_core(&self.tools);
        self.cache.bound(&mut executor.cache);
        for server in &self.mcp_servers {
            if let Some(limit) = server.rate_limit {
                let servers = &mut executor.rate_limits.servers;
                servers.insert(server.label().to_owned(), limit.into());
            }
        }
        executor.approvals = self.approvals.rules(&self.tools, &self.mcp_servers);
        executor
    }
}
