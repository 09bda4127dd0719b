use std::fmt;
use std::num::NonZeroUsize;

use pillion_core::executor::ApprovalPolicy;
use pillion_core::tool::ToolName;
use pillion_mcp_client::ServerConfig;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::Table;

use super::native::NativeKeys;
use super::{CredentialPolicy, NativeSection, NewToolPolicy, PinPolicy, RateLimitSection};

/// One entry of `[[mcp_servers]]`: an MCP server whose tools the sidecar offers.
///
/// The entry's other keys (`label`, `url` or `command`, `transport`, `authentication` and so on)
/// are those of [`ServerConfig`]. Secrets can come from environment variables: `token_env = "NAME"`
/// sets `authentication.token` to the variable `NAME`, and the suffix `_env` works for every other
/// key of `authentication`; `headers_env = { x-api-key = "NAME" }` sets headers, and
/// `env_from = { API_KEY = "NAME" }` sets the environment of a command.
#[derive(Debug, Clone)]
pub struct McpServerSection {
    /// Whether the server is used. Default true.
    pub enabled: bool,
    /// The configured prefix of the server's tool names; see [`tool_prefix`](Self::tool_prefix).
    tool_prefix: Option<String>,
    /// The rate limit of all tools of the server together, in addition to the limit of each tool.
    /// Default none.
    pub rate_limit: Option<RateLimitSection>,
    /// Maximum number of concurrent calls of this server's tools. Default
    /// `executor.max_concurrent`.
    pub max_concurrent: Option<NonZeroUsize>,
    /// Whether calls of the server's tools need approval: `never`, `always`, `prompt` or a policy
    /// of `[approvals]`. Default: the policy of `[approvals]`.
    pub require_approval: Option<ApprovalPolicy>,
    /// How changed tool definitions of the server are treated. Default `mcp.pin`.
    pub pin: Option<PinPolicy>,
    /// How tools are treated that the server adds later. Default `mcp.new_tools`.
    pub new_tools: Option<NewToolPolicy>,
    /// Which credential calls use. Default the server's own, which is the only choice for a server
    /// that is a command.
    pub credential: CredentialPolicy,
    /// What language model providers need in order to call the server directly.
    pub native: Option<NativeSection>,
    /// The ID of a server of the store; `None` for a server of the configuration.
    pub id: Option<String>,
    /// How often a failed `tools/list` request is repeated at once, within
    /// `mcp.discovery_timeout_ms`. Only servers of the store have this setting. Default 0.
    pub retry_attempts: u8,
    /// The server's connection settings.
    pub server: ServerConfig,
    /// A hash of the entry, used to detect changes.
    pub(super) digest: EntryDigest,
}

/// A hash of an entry, including the values from environment variables. It is never displayed:
/// guessable secrets could be recovered from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryDigest([u8; 32]);

impl EntryDigest {
    pub(super) fn of(entry: &Table) -> Self {
        Self(Sha256::digest(entry.to_string().as_bytes()).into())
    }
}

impl fmt::Debug for EntryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntryDigest")
    }
}

/// The keys of an entry that belong to the sidecar and not to [`ServerConfig`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SidecarKeys {
    enabled: Option<bool>,
    tool_prefix: Option<String>,
    rate_limit: Option<RateLimitSection>,
    max_concurrent: Option<NonZeroUsize>,
    require_approval: Option<ApprovalPolicy>,
    pin: Option<PinPolicy>,
    new_tools: Option<NewToolPolicy>,
    pub(super) credential: CredentialPolicy,
    pub(super) native: Option<NativeKeys>,
}

impl SidecarKeys {
    pub(super) const NAMES: [&'static str; 9] = [
        "enabled",
        "tool_prefix",
        "rate_limit",
        "max_concurrent",
        "require_approval",
        "pin",
        "new_tools",
        "credential",
        "native",
    ];

    /// Returns whether the prefix, if set, is a valid start of a tool name.
    pub(super) fn has_legal_prefix(&self) -> bool {
        match self.tool_prefix.as_deref() {
            None | Some("") => true,
            Some(prefix) => ToolName::new(prefix).is_ok(),
        }
    }

    pub(super) fn with_server(
        self,
        server: ServerConfig,
        native: Option<NativeSection>,
        digest: EntryDigest,
    ) -> McpServerSection {
        McpServerSection {
            enabled: self.enabled.unwrap_or(true),
            tool_prefix: self.tool_prefix,
            rate_limit: self.rate_limit,
            max_concurrent: self.max_concurrent,
            require_approval: self.require_approval,
            pin: self.pin,
            new_tools: self.new_tools,
            credential: self.credential,
            native,
            id: None,
            retry_attempts: 0,
            server,
            digest,
        }
    }
}

impl McpServerSection {
    /// Builds a server of the store. `text` is the text that the digest is computed from:
    /// everything that defines the server, including its credentials.
    pub fn of_store(
        server: ServerConfig,
        tool_prefix: Option<String>,
        retry_attempts: u8,
        text: &str,
    ) -> Self {
        Self {
            enabled: true,
            tool_prefix,
            rate_limit: None,
            max_concurrent: None,
            require_approval: None,
            pin: None,
            new_tools: None,
            credential: CredentialPolicy::Shared,
            native: None,
            id: None,
            retry_attempts,
            server,
            digest: EntryDigest(Sha256::digest(text.as_bytes()).into()),
        }
    }

    /// Mixes `number` into the digest, so that the entry counts as changed.
    pub fn mix_into_digest(&mut self, number: u64) {
        let mut hash = Sha256::new_with_prefix(self.digest.0);
        hash.update(number.to_be_bytes());
        self.digest = EntryDigest(hash.finalize().into());
    }

    /// Returns the server's label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.server.label
    }

    /// Returns the prefix that the entry configures; `None` if the default prefix applies.
    #[must_use]
    pub fn configured_prefix(&self) -> Option<&str> {
        self.tool_prefix.as_deref()
    }

    /// Returns whether both entries have the same content.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Returns the prefix of the server's tool names. The default is the label and `_`, so that two
    /// servers can each have a tool `search`; characters of the label that are invalid in tool
    /// names become `_`. The prefix `""` leaves the names unchanged.
    #[must_use]
    pub fn tool_prefix(&self) -> String {
        if let Some(prefix) = &self.tool_prefix {
            return prefix.clone();
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let label = self.label().chars();
        let label: String = label.map(|c| if legal(c) { c } else { '_' }).collect();
        let starts_well = label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        format!("{}{label}_", if starts_well { "" } else { "_" })
    }
}
