use std::fmt;
use std::num::NonZeroUsize;

use pillion_core::executor::ApprovalPolicy;
use pillion_core::mcp::ServerConfig;
use pillion_core::tool::ToolName;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::Table;

use super::native::NativeKeys;
use super::{CredentialPolicy, NativeSection, PinPolicy, RateLimitSection};

/// One entry of `[[mcp_servers]]`: an MCP server whose tools the sidecar offers.
///
/// The entry's other keys (`label`, `url` or `command`, `transport`, `authentication` and so
/// on) are those of [`ServerConfig`]. A value of `authentication` may stand in the environment
/// instead of the file: `token_env = "NAME"` takes `token` from the variable `NAME`, and so
/// for every other key there; `headers_env = { x-api-key = "NAME" }` does it for headers, and
/// `env_from = { API_KEY = "NAME" }` for the environment of a command.
#[derive(Debug, Clone)]
pub struct McpServerSection {
    /// Whether the server is used at all. Default true.
    pub enabled: bool,
    /// What stands before the names of the server's tools; see
    /// [`tool_prefix`](Self::tool_prefix).
    tool_prefix: Option<String>,
    /// The rate limit of all the server's tools together, beside that of each (C7).
    /// Default none.
    pub rate_limit: Option<RateLimitSection>,
    /// Maximum number of concurrent calls of this server's tools. Default
    /// `executor.max_concurrent`.
    pub max_concurrent: Option<NonZeroUsize>,
    /// Whether calls of the server's tools need approval (G2): `never`, `always`, `prompt` or a
    /// policy of `[approvals]`. Default what `[approvals]` says.
    pub require_approval: Option<ApprovalPolicy>,
    /// What becomes of its tools that change. Default what `mcp.pin` says.
    pub pin: Option<PinPolicy>,
    /// Whose credential its calls go out with. Default the server's own. A program has no users.
    pub credential: CredentialPolicy,
    /// What providers are told of it that call it by themselves.
    pub native: Option<NativeSection>,
    /// The id of a server of the store.
    pub(crate) id: Option<String>,
    /// How often a server that does not list its tools is asked again at once, within
    /// `mcp.discovery_timeout_ms`. Only servers of the store have this (F1). Default 0.
    pub retry_attempts: u8,
    /// The server itself.
    pub server: ServerConfig,
    /// What the entry said, to see whether another says the same.
    pub(super) digest: EntryDigest,
}

/// A hash of an entry with the values that it took from variables; shown nowhere, for there are
/// secrets in it that somebody could guess.
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

/// The keys of an entry that are the sidecar's own.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OwnKeys {
    enabled: Option<bool>,
    tool_prefix: Option<String>,
    rate_limit: Option<RateLimitSection>,
    max_concurrent: Option<NonZeroUsize>,
    require_approval: Option<ApprovalPolicy>,
    pin: Option<PinPolicy>,
    pub(super) credential: CredentialPolicy,
    pub(super) native: Option<NativeKeys>,
}

impl OwnKeys {
    pub(super) const NAMES: [&'static str; 8] = [
        "enabled",
        "tool_prefix",
        "rate_limit",
        "max_concurrent",
        "require_approval",
        "pin",
        "credential",
        "native",
    ];

    /// Whether the prefix, if there is one, can begin a tool's name (A4).
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
    /// A server of the store. Two are the same where `said` is: all that it is made of, its
    /// credentials included.
    pub(crate) fn of_store(
        server: ServerConfig,
        tool_prefix: Option<String>,
        retry_attempts: u8,
        said: &str,
    ) -> Self {
        Self {
            enabled: true,
            tool_prefix,
            rate_limit: None,
            max_concurrent: None,
            require_approval: None,
            pin: None,
            credential: CredentialPolicy::Shared,
            native: None,
            id: None,
            retry_attempts,
            server,
            digest: EntryDigest(Sha256::digest(said.as_bytes()).into()),
        }
    }

    /// Differs from the entry that says the same with another number.
    pub(crate) fn begin_anew(&mut self, number: u64) {
        let mut hash = Sha256::new_with_prefix(self.digest.0);
        hash.update(number.to_be_bytes());
        self.digest = EntryDigest(hash.finalize().into());
    }

    /// The server's label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.server.label
    }

    /// The prefix as the entry has it; none where it leaves that to us.
    #[must_use]
    pub fn configured_prefix(&self) -> Option<&str> {
        self.tool_prefix.as_deref()
    }

    /// Whether the other entry says the same of its server.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// What stands before the names of the server's tools. Default the label and `_`, so
    /// that two servers may each have a tool `search`; `""` leaves the names as they are.
    /// In the default, characters that no tool's name has become `_`.
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
