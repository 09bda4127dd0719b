use std::env;

use pillion_mcp_client::{McpError, ServerConfig, ServerConfigError};
use serde_json::Value;

/// The suite's parameters for one run of this program.
pub struct Run {
    /// The URL of the suite's server.
    pub url: String,
    /// The name of the scenario (`MCP_CONFORMANCE_SCENARIO`).
    pub scenario: String,
    /// The context of the scenario (`MCP_CONFORMANCE_CONTEXT`); null if there is none.
    pub context: Value,
}

/// Why a scenario failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("usage: MCP_CONFORMANCE_SCENARIO=NAME conformance-client URL")]
    Usage,
    #[error("MCP_CONFORMANCE_CONTEXT is no JSON: {0}")]
    Context(#[source] serde_json::Error),
    #[error("there is no scenario '{0}' here")]
    UnknownScenario(String),
    #[error(transparent)]
    Config(#[from] ServerConfigError),
    #[error("{0} ({0:?})")]
    Mcp(#[from] McpError),
    #[error("the server answered something else than the scenario says: {0}")]
    Unexpected(String),
}

impl Run {
    /// Reads the parameters of the run from the arguments and the environment.
    ///
    /// # Errors
    /// [`Failure::Usage`] without a URL or a scenario; [`Failure::Context`] for an invalid context.
    pub fn from_environment() -> Result<Self, Failure> {
        let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(text) => serde_json::from_str(&text).map_err(Failure::Context)?,
            Err(_) => Value::Null,
        };
        Ok(Self {
            url: env::args().next_back().ok_or(Failure::Usage)?,
            scenario: env::var("MCP_CONFORMANCE_SCENARIO").map_err(|_| Failure::Usage)?,
            context,
        })
    }

    /// Returns the server's configuration; the client detects everything except the URL.
    ///
    /// # Errors
    /// [`Failure::Config`] if the URL is invalid.
    pub fn server(&self) -> Result<ServerConfig, Failure> {
        Ok(ServerConfig::new("conformance", &self.url)?)
    }
}
