use std::fmt;
use std::num::NonZeroUsize;

use pillion_core::executor::ApprovalPolicy;
use pillion_core::tool::ToolName;
use pillion_mcp_client::ServerConfig;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::field_names::field_names;
use super::{NativeSection, NewToolPolicy, PinPolicy, RateLimitSection};

/// One entry of `[[mcp_servers]]`: an MCP server whose tools the sidecar offers.
///
/// The keys of an entry are those of [`ServerSettings`] and of
/// [`ServerDefinition`](pillion_mcp_client::ServerDefinition). Secrets can come from environment
/// variables: `token_env = "NAME"` sets `authentication.token` to the variable `NAME`, and the
/// suffix `_env` works for every other key of `authentication`;
/// `headers_env = { x-api-key = "NAME" }` sets headers, and `env_from = { API_KEY = "NAME" }` sets
/// the environment of a command.
#[derive(Debug, Clone)]
pub struct McpServerSection {
    /// The settings that the sidecar itself uses.
    pub settings: ServerSettings,
    /// The ID of a server of the store; `None` for a server of the configuration.
    pub id: Option<String>,
    /// The server's connection settings.
    pub server: ServerConfig,
    /// A hash of the entry, by which a reload detects changes.
    digest: EntryDigest,
}

/// The keys of an `[[mcp_servers]]` entry that the sidecar itself uses; the MCP client does not get
/// them. The REST API and the store have the same keys in camel case, except for `native`.
///
/// The comments of the fields are shown to users, like the comments of
/// [`ServerDefinition`](pillion_mcp_client::ServerDefinition).
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// The number of immediate retries if the server fails to list its tools. Default: 3.
    // Only servers of the store have this key, because requests to servers of the configuration are
    // not retried immediately.
    pub retry_attempts: u8,
    /// Whether the server is used. Default: `true`.
    pub enabled: bool,
    /// The prefix of the names of the server's tools; may be `""`. At
    /// [`/mcp`](../how-to/serve-mcp-clients.md#names), unique names have no prefix by default.
    /// Default: the server's name and `_`.
    pub tool_prefix: Option<String>,
    /// Whether calls of the server's tools need [approval](../how-to/approvals.md#policies): `auto`
    /// (or `never`), `trusted-only` or `always-ask` (or `always` and `prompt`). Default:
    /// `approvals.policy`.
    #[schema(value_type = Option<String>)]
    pub require_approval: Option<ApprovalPolicy>,
    /// How to treat a tool of the server whose definition has changed: `off`, `warn` or `block`;
    /// see [Pins](../how-to/pins.md). Default: `mcp.pin`.
    #[schema(value_type = Option<String>)]
    pub pin: Option<PinPolicy>,
    /// How to treat a tool that the server adds later: `accept` or `block`; see
    /// [Pins](../how-to/pins.md#new-and-renamed-tools). Default: `mcp.new_tools`.
    #[schema(value_type = Option<String>)]
    pub new_tools: Option<NewToolPolicy>,
    /// The rate limit of one user for all tools of the server together, in addition to the limit of
    /// each tool.
    #[schema(value_type = Option<Object>)]
    pub rate_limit: Option<RateLimitSection>,
    /// Maximum number of concurrent calls of the server's tools. Default:
    /// `executor.max_concurrent`.
    #[schema(value_type = Option<usize>, minimum = 1)]
    pub max_concurrent: Option<NonZeroUsize>,
    /// The [credential](../how-to/credentials-of-users.md) that calls use: `shared` (the server's
    /// own), `per_user` (that of the user on whose behalf the call runs) or `user_or_shared` (the
    /// user's if there is one). A stdio server supports only `shared`. Default: `shared`.
    #[schema(value_type = String)]
    pub credential: CredentialPolicy,
    /// `url` and `token_env` for [providers that call the server
    /// themselves](../how-to/native-mcp.md).
    #[schema(value_type = Option<Object>)]
    pub native: Option<NativeSection>,
}

/// A hash of an entry, including the values from environment variables. The hash is never
/// displayed, because guessable secrets could be recovered from it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct EntryDigest([u8; 32]);

impl fmt::Debug for EntryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntryDigest")
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            retry_attempts: 0,
            enabled: true,
            tool_prefix: None,
            require_approval: None,
            pin: None,
            new_tools: None,
            rate_limit: None,
            max_concurrent: None,
            credential: CredentialPolicy::default(),
            native: None,
        }
    }
}

impl ServerSettings {
    /// Returns the keys that an entry of `[[mcp_servers]]` can have.
    pub(super) fn entry_keys() -> impl Iterator<Item = &'static str> {
        let keys = field_names::<Self>().iter().copied();
        keys.filter(|key| *key != "retry_attempts")
    }

    /// Returns the first key whose value is invalid for this server, with a message.
    #[must_use]
    pub fn find_fault(&self, server: &ServerConfig) -> Option<(&'static str, &'static str)> {
        let prefix = self.tool_prefix.as_deref().unwrap_or_default();
        if !prefix.is_empty() && ToolName::new(prefix).is_err() {
            let message = "a tool prefix must have at most 128 letters, digits, '_' and '-', and \
                start with a letter or '_'";
            return Some(("tool_prefix", message));
        }
        if self.credential.uses_user_credentials() && server.url().is_none() {
            let message = "a server with a 'command' only supports the credential \"shared\"";
            return Some(("credential", message));
        }
        None
    }
}

impl McpServerSection {
    /// Creates the entry of a server. The digest is computed from `text`, which contains everything
    /// that defines the server, including the server's credentials.
    #[must_use]
    pub fn new(settings: ServerSettings, server: ServerConfig, text: &str) -> Self {
        Self {
            settings,
            id: None,
            server,
            digest: EntryDigest(Sha256::digest(text.as_bytes()).into()),
        }
    }

    /// Changes the digest by including `number`, so that a reload treats the entry as changed.
    pub fn mix_into_digest(&mut self, number: u64) {
        let mut hasher = Sha256::new_with_prefix(self.digest.0);
        hasher.update(number.to_be_bytes());
        self.digest = EntryDigest(hasher.finalize().into());
    }

    /// Returns the server's label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.server.label
    }

    /// Returns whether this entry and `other` have the same content.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Returns the prefix of the server's tool names. The default is the label and `_`, so that two
    /// servers can each have a tool `search`; characters of the label that are invalid in tool
    /// names become `_`. The prefix `""` leaves the names unchanged.
    #[must_use]
    pub fn tool_prefix(&self) -> String {
        if let Some(prefix) = &self.settings.tool_prefix {
            return prefix.clone();
        }
        let is_valid_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let label = self.label().replace(|c: char| !is_valid_char(c), "_");
        let has_valid_start = label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        format!("{}{label}_", if has_valid_start { "" } else { "_" })
    }
}

/// Which credential the calls to an MCP server use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPolicy {
    /// Calls of all users use the server's shared credential.
    #[default]
    Shared,
    /// Calls use the credential of the user on whose behalf they are made, and fail without one.
    PerUser,
    /// Calls use the user's credential if the user has one, else the server's shared credential.
    UserOrShared,
}

impl CredentialPolicy {
    /// Returns whether calls may use the credentials of users.
    #[must_use]
    pub fn uses_user_credentials(self) -> bool {
        self != Self::Shared
    }
}
