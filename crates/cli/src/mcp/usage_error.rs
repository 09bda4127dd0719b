use std::path::PathBuf;

use pillion_core::tool::ErrorCode;
use pillion_core::variable;
use pillion_mcp_client::ServerConfigError;

use crate::arguments::ArgumentsError;
use pillion_config::ConfigError;

/// Why the command line or the configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpUsageError {
    #[error("no server is given: pass its URL first, or --server NAME, or -- COMMAND at the end")]
    NoServer,
    #[error("two servers are given: pass only one of a URL, --server NAME and -- COMMAND")]
    TwoServers,
    #[error("'{word}' is not the URL of a server, such as http://127.0.0.1:8000/mcp")]
    NotAUrl { word: String },
    #[error(
        "the configuration has no MCP server '{name}'; its servers: {}",
        list(known)
    )]
    UnknownServer { name: String, known: Vec<String> },
    #[error("--server needs a configuration file: set it with --config or PILLION_CONFIG")]
    NoConfiguration,
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Server(#[from] ServerConfigError),
    #[error("{option} must have the form {form}")]
    OptionForm {
        option: &'static str,
        form: &'static str,
    },
    #[error("{options} can only be used with {owner}")]
    Misplaced {
        options: &'static str,
        owner: &'static str,
    },
    #[error("{} is not set, or empty", variable::shown(name))]
    Variable { name: String },
    #[error("cannot read the credential in {}: {source}", path.display())]
    CredentialFile {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the credential in {} is empty", path.display())]
    EmptyCredential { path: PathBuf },
    #[error("{argument} is missing")]
    Missing { argument: &'static str },
    #[error("unexpected argument '{word}'")]
    TooMany { word: String },
    #[error("cannot list '{word}': expected tools, resources, templates or prompts")]
    UnknownKind { word: String },
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
}

impl McpUsageError {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownServer { .. } => ErrorCode::NotFound,
            _ => ErrorCode::InvalidInput,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
