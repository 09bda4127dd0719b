//! The configuration: a tree of small structs that is read from a TOML file and the environment.
//!
//! Each source overrides the sources before it: the built-in defaults; the file; the variables
//! `MCP_MAX_CONCURRENT_TOOLS`, `MCP_CALCULATOR_TIMEOUT`, `MCP_SEARCH_TIMEOUT` and `LOG_LEVEL`; the
//! `PILLION__` variables. The name of a `PILLION__` variable is the key's path in capitals, with
//! `__` between the parts: `PILLION__EXECUTOR__TIMEOUT_MS` sets `executor.timeout_ms`. A variable's
//! value is parsed as TOML (`5000`, `true`, `["a", "b"]`, `[{label = "x", url = "..."}]`), and
//! taken as plain text if it is not valid TOML.
//!
//! An unknown key, a value of the wrong type or a number out of range is an error that names the
//! key and its file and line, or its variable.
//!
//! ```
//! use pillion_config::Config;
//! let config = Config::parse("[executor]\ntimeout_ms = 500", "pillion.toml")?;
//! assert_eq!(config.executor.timeout.as_millis(), 500);
//! let error = Config::parse("[executor]\ntimeout_ms = \"soon\"", "pillion.toml").unwrap_err();
//! assert!(error.to_string().starts_with("pillion.toml:2: executor.timeout_ms: "));
//! # Ok::<(), pillion_config::ConfigError>(())
//! ```

mod approvals;
mod builtins;
mod cache;
mod call_log;
mod chat;
mod config_text;
mod console;
mod declared_tools;
mod effective;
mod entry;
mod environment;
mod error;
mod error_locator;
mod error_messages;
mod executor;
mod features;
mod field_names;
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
mod network_tools;
mod offered_tools;
mod providers;
#[cfg(test)]
mod reference;
mod registry;
mod results;
mod servers;
mod shutdown;
mod socket;
mod store;
mod stored_servers;
mod strict_value;
mod tabletop;
mod tcp;
mod telemetry;
mod text_file;
mod variable_names;
mod vault;
mod warnings;
mod wasm_tools;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pillion_core::executor::ExecutorConfig;
use pillion_providers::Provider;
use serde::Deserialize;

pub use approvals::{ApprovalsSection, ElicitFrom};
pub use builtins::{BuiltinTools, ServiceKey};
pub use cache::CacheSection;
pub use call_log::CallLogSection;
pub use chat::ChatSection;
pub use console::ConsoleSection;
pub use declared_tools::DeclaredTools;
pub use effective::{EffectiveConfig, EffectiveSetting, SettingOrigin, SettingValue};
pub use error::ConfigError;
pub use executor::{ExecutorSection, RateLimitSection, ToolSection};
pub use features::FeaturesSection;
pub use field_names::field_names;
pub use http::HttpSection;
pub use key_path::{KeyPath, KeyStep};
pub use log::{FilterLayer, LogFilter, LogFormat, LogSection};
pub use mcp::{McpSection, NewToolPolicy, PinPolicy};
pub use mcp_server::{CredentialPolicy, McpServerSection, ServerSettings};
pub use memory::MemorySection;
pub use models::ModelSection;
pub use native::NativeSection;
pub use native::url_for_provider as native_url;
pub use offered_tools::OfferedTools;
pub use providers::ProviderSection;
pub use registry::{RegistrySection, RegistryUrl};
pub use results::ResultsSection;
pub use servers::server_name_error;
pub use shutdown::ShutdownSection;
pub use socket::{SocketMode, SocketSection, SystemGroup, SystemUser};
pub use store::{StoreSection, state_directory};
pub use stored_servers::StoredServersSection;
pub use tabletop::TabletopSection;
pub use tcp::TcpSection;
pub use telemetry::{CollectorUrl, TelemetrySection};
pub use text_file::{ConfigFile, IncompleteFile, ends_within_line};
pub use vault::VaultSection;
pub use warnings::ConfigWarning;
pub use wasm_tools::WasmToolsSection;
pub use workers::WorkersSection;

/// All settings of `pillion serve`.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The Unix socket: path, permissions and allowed users.
    pub socket: SocketSection,
    /// The TCP listener.
    pub tcp: TcpSection,
    /// The web console.
    pub console: ConsoleSection,
    /// Limits of the HTTP server.
    pub http: HttpSection,
    /// Limits of tool execution: timeouts, concurrency, queue and rate limits.
    pub executor: ExecutorSection,
    /// Which tool calls need approval.
    pub approvals: ApprovalsSection,
    /// Settings of individual tools, by tool name, as in `[tools.calculator]`.
    pub tools: BTreeMap<String, ToolSection>,
    /// Services and API keys of the built-in tools that use the network. Read separately from the
    /// other sections, because the keys come from the environment.
    #[serde(skip)]
    pub builtins: BuiltinTools,
    /// The memory tools.
    pub memory: MemorySection,
    /// Size limits of the cache of tool results.
    pub cache: CacheSection,
    /// Discovery of the tools of MCP servers.
    pub mcp: McpSection,
    /// The MCP servers whose tools the sidecar offers. Read separately from the other sections, so
    /// that an error in an entry names the entry's key.
    #[serde(skip)]
    pub mcp_servers: Vec<McpServerSection>,
    /// The tools that the configuration declares. Read separately from the other sections.
    #[serde(skip)]
    pub declared: DeclaredTools,
    /// Settings of the MCP servers that are added at run time.
    pub servers: StoredServersSection,
    /// The MCP registry.
    pub registry: RegistrySection,
    /// The store: database location, durability and timeouts.
    pub store: StoreSection,
    /// Tools that are WebAssembly components.
    #[cfg_attr(test, schemars(skip))]
    pub wasm_tools: WasmToolsSection,
    /// Worker processes, which register tools with the sidecar.
    pub workers: WorkersSection,
    /// Stored results: results that exceed `executor.max_result_bytes`.
    pub results: ResultsSection,
    /// The key that encrypts credentials in the store.
    pub vault: VaultSection,
    /// Contents and retention of the call log.
    pub call_log: CallLogSection,
    /// `[[providers]]`: the language model providers.
    #[cfg_attr(test, schemars(skip))]
    pub providers: Vec<ProviderSection>,
    /// `[[models]]`: the language models, and the tools that each model may use. An MCP client can
    /// name one of these models, and then sees only the tools of that model.
    #[cfg_attr(test, schemars(skip))]
    pub models: Vec<ModelSection>,
    /// The configuration file, if any.
    #[serde(skip)]
    pub file: Option<ConfigFile>,
    /// The settings of all sections, with the origin of each value, for display. Empty unless the
    /// whole configuration was read.
    #[serde(skip)]
    pub effective: Arc<EffectiveConfig>,
    /// Environment variables that begin with `PILLION_` and have no effect.
    #[serde(skip)]
    pub unknown_variables: Vec<String>,
    /// The file that `models_file` names, with more `[[providers]]` and `[[models]]`. `providers`
    /// and `models` include the entries of this file.
    #[serde(skip)]
    pub models_file: Option<ConfigFile>,
    /// Chat settings.
    pub chat: ChatSection,
    /// Features that are off by default.
    pub features: FeaturesSection,
    /// The tool pack for game masters.
    pub tabletop: TabletopSection,
    /// Log filter and format.
    pub log: LogSection,
    /// Trace export to an OpenTelemetry collector.
    pub telemetry: TelemetrySection,
    /// Shutdown settings.
    pub shutdown: ShutdownSection,
}

impl Config {
    /// Returns the files from which the configuration was read, the configuration file first.
    pub fn files(&self) -> impl Iterator<Item = &ConfigFile> {
        let files = self.file.iter().chain(&self.models_file);
        files.chain(&self.declared.documents)
    }

    /// Fails if one of the files looks like an incompletely written new version of the same file in
    /// `previous`.
    ///
    /// # Errors
    /// [`ConfigError::Incomplete`].
    pub fn check_replaces(&self, previous: &Self) -> Result<(), ConfigError> {
        for file in self.files() {
            let mut previous_files = previous.files();
            let previous_file = previous_files.find(|previous| previous.path() == file.path());
            if let Some(previous_file) = previous_file {
                file.check_replaces(previous_file)?;
                file.check_keeps_end(previous_file)?;
            }
        }
        Ok(())
    }

    /// Returns the first inconsistency between models, providers, MCP servers and the chat
    /// settings, and the key that causes it.
    fn find_model_fault(&self, servers: &[McpServerSection]) -> Option<(KeyPath, String)> {
        let entry_key = |list: &str, index: usize, key: &str| {
            let list_path = KeyPath::from_names([list]);
            list_path.join(KeyStep::Index(index)).join_name(key)
        };
        let mut names = BTreeSet::new();
        for (index, provider) in self.providers.iter().enumerate() {
            if !names.insert(&provider.name) {
                let message = format!("the name '{}' is used by two providers", provider.name);
                return Some((entry_key("providers", index, "name"), message));
            }
            if provider.has_no_url() {
                let mut provider_names = Provider::ALL.map(|provider| provider.to_string());
                provider_names.sort();
                let message = format!(
                    "'{}' is not the name of a built-in provider ({}): set base_url",
                    provider.name,
                    provider_names.join(", ")
                );
                return Some((entry_key("providers", index, "name"), message));
            }
        }
        let mut ids = BTreeSet::new();
        for (index, model) in self.models.iter().enumerate() {
            if !ids.insert(&model.config.id) {
                let message = format!("the name '{}' is used by two models", model.config.id);
                return Some((entry_key("models", index, "id"), message));
            }
        }
        for (index, model) in self.models.iter().enumerate() {
            let mut providers = self.providers.iter();
            let provider_name = model.config.provider.as_ref();
            let provider =
                provider_name.and_then(|name| providers.find(|provider| provider.name == *name));
            for (label_index, label) in model.native_mcp.iter().enumerate() {
                if let Some(message) =
                    native::native_call_error(model, provider, label, servers, self.mcp.pin)
                {
                    let key = entry_key("models", index, "tools").join_name("native_mcp");
                    return Some((key.join(KeyStep::Index(label_index)), message));
                }
            }
        }
        let unknown_model = self.chat.model.as_ref().filter(|id| !ids.contains(id));
        unknown_model.map(|id| {
            let key = KeyPath::from_names(["chat", "model"]);
            (key, format!("there is no [[models]] entry named '{id}'"))
        })
    }

    /// Returns the executor's configuration, built from the sections of the executor, the cache,
    /// approvals, tools and MCP servers.
    pub fn executor_config(&self) -> ExecutorConfig {
        let mut executor = self.executor.to_core(&self.tools);
        self.cache.apply_to(&mut executor.cache);
        for server in &self.mcp_servers {
            if let Some(limit) = server.settings.rate_limit {
                let servers = &mut executor.rate_limits.servers;
                servers.insert(server.label().to_owned(), limit.into());
            }
            if let Some(max_concurrent) = server.settings.max_concurrent {
                let servers = &mut executor.server_concurrency;
                servers.insert(server.label().to_owned(), max_concurrent);
            }
        }
        executor.approvals = self.approvals.rules(&self.tools, &self.mcp_servers);
        executor
    }
}
