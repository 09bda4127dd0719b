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
mod chat;
mod credential;
mod declared_tools;
mod doubts;
mod environment;
mod error;
mod executor;
mod features;
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
mod models_file;
mod native;
mod offered_tools;
mod providers;
mod results;
mod server_name;
mod servers;
mod shutdown;
mod socket;
mod store;
mod stored_servers;
mod tabletop;
mod tcp;
mod telemetry;
mod text_file;
mod user;
mod vault;
mod wasm_tools;
pub(crate) mod wording;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pillion_core::executor::ExecutorConfig;
use pillion_core::provider::Provider;
use serde::Deserialize;

pub use approvals::{ApprovalsSection, AskClients};
pub use builtins::{BuiltinTools, ServiceKey};
pub use cache::{CacheScopeName, CacheSection};
pub use call_log::CallLogSection;
pub use chat::ChatSection;
pub use credential::CredentialPolicy;
pub use declared_tools::DeclaredTools;
pub use error::ConfigError;
pub use executor::{ExecutorSection, RateLimitSection, ToolSection};
pub use features::FeaturesSection;
pub use group::Group;
pub use http::HttpSection;
pub use key_path::{Key, KeyPath};
pub(crate) use log::FilterLayer;
pub use log::{LogFilter, LogFormat, LogSection};
pub use mcp::{McpSection, PinPolicy};
pub use mcp_server::McpServerSection;
use mcp_server::OwnKeys;
pub use memory::MemorySection;
pub use models::ModelSection;
pub use native::NativeSection;
pub(crate) use native::url_of as native_url_of;
pub use offered_tools::OfferedTools;
pub use providers::ProviderSection;
pub use results::ResultsSection;
pub(crate) use server_name::problem_of_server_name;
pub use shutdown::ShutdownSection;
pub use socket::{SocketMode, SocketSection};
pub(crate) use store::state_directory;
pub use store::{DurabilityName, LocationText, StoreSection};
pub use stored_servers::StoredServersSection;
pub use tabletop::TabletopSection;
pub use tcp::TcpSection;
pub use telemetry::{CollectorUrl, TelemetrySection};
pub(crate) use text_file::read_text;
pub use user::User;
pub use vault::VaultSection;
pub use wasm_tools::WasmToolsSection;
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
    /// The tools that the configuration itself declares; read apart from the rest as well.
    #[serde(skip)]
    pub declared: DeclaredTools,
    /// What holds for the MCP servers that are added while the sidecar runs.
    pub servers: StoredServersSection,
    /// Where the sidecar keeps what must outlive it.
    pub store: StoreSection,
    /// Tools that are WebAssembly components.
    pub wasm_tools: WasmToolsSection,
    /// Processes that offer tools of their own.
    pub workers: WorkersSection,
    /// Results that are too large to be handed over at once.
    pub results: ResultsSection,
    /// The key of the credentials there.
    pub vault: VaultSection,
    /// What is kept of the calls.
    pub call_log: CallLogSection,
    /// Where language models answer: `[[providers]]`.
    pub providers: Vec<ProviderSection>,
    /// The language models, and which tools each may see (H2): `[[models]]`. Clients of the MCP
    /// server may name one, too.
    pub models: Vec<ModelSection>,
    /// The file with more `[[providers]]` and `[[models]]`, where `models_file` names one; they are among
    /// those above.
    #[serde(skip)]
    pub models_file: Option<PathBuf>,
    /// Chats with them.
    pub chat: ChatSection,
    /// What is off until somebody asks for it.
    pub features: FeaturesSection,
    /// The pack for game masters.
    pub tabletop: TabletopSection,
    /// What to log, and how.
    pub log: LogSection,
    /// Traces for a collector.
    pub telemetry: TelemetrySection,
    /// How to stop.
    pub shutdown: ShutdownSection,
}

impl Config {
    /// What is wrong between models, providers, MCP servers and chats, and where.
    fn fault_of_models(&self, servers: &[McpServerSection]) -> Option<(KeyPath, String)> {
        let place = |list: &str, index: usize, key: &str| {
            let list = KeyPath::from_names([list]);
            list.join(Key::Index(index)).join_name(key)
        };
        let mut names = BTreeSet::new();
        for (index, provider) in self.providers.iter().enumerate() {
            if !names.insert(&provider.name) {
                let message = format!("two providers have the name '{}'", provider.name);
                return Some((place("providers", index, "name"), message));
            }
            if provider.is_nowhere() {
                let mut known = Provider::ALL.map(|known| known.to_string());
                known.sort();
                let message = format!(
                    "'{}' is not the name of a provider that is known here ({}): say where it is \
                     with base_url",
                    provider.name,
                    known.join(", ")
                );
                return Some((place("providers", index, "name"), message));
            }
        }
        let mut ids = BTreeSet::new();
        for (index, model) in self.models.iter().enumerate() {
            if !ids.insert(&model.config.id) {
                let message = format!("two models have the name '{}'", model.config.id);
                return Some((place("models", index, "id"), message));
            }
        }
        for (index, model) in self.models.iter().enumerate() {
            let mut providers = self.providers.iter();
            let name = model.config.provider.as_ref();
            let provider = name.and_then(|name| providers.find(|provider| provider.name == *name));
            for (place_of_label, label) in model.native_mcp.iter().enumerate() {
                if let Some(message) = native::obstacle(model, provider, label, servers) {
                    let key = place("models", index, "tools").join_name("native_mcp");
                    return Some((key.join(Key::Index(place_of_label)), message));
                }
            }
        }
        let default = self.chat.model.as_ref().filter(|id| !ids.contains(id));
        default.map(|id| {
            let key = KeyPath::from_names(["chat", "model"]);
            (key, format!("no [[models]] has the name '{id}'"))
        })
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
            if let Some(places) = server.max_concurrent {
                let servers = &mut executor.server_concurrency;
                servers.insert(server.label().to_owned(), places);
            }
        }
        executor.approvals = self.approvals.rules(&self.tools, &self.mcp_servers);
        executor
    }
}
