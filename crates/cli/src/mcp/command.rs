//! Servers that run as local programs.

use pillion_mcp_client::{Endpoint, ServerConfig, StdioCommand};

use super::credential;
use super::error::McpUsageError;
use super::options::Options;

/// The environment variables that the program inherits by default. Programs need these variables to
/// start, and the official SDKs pass the same variables. Other variables are not passed, because
/// they may be secrets.
const INHERITED_VARIABLES: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

pub(super) fn build_server_config(program: String, arguments: Vec<String>) -> ServerConfig {
    let mut command = StdioCommand::new(program);
    command.args = arguments;
    command.inherit_env = INHERITED_VARIABLES.map(str::to_owned).to_vec();
    ServerConfig::for_command("server", command)
}

/// Applies `--env` and `--cwd`.
pub(super) fn apply(server: &mut ServerConfig, options: &Options) -> Result<(), McpUsageError> {
    let Endpoint::Command(command) = &mut server.endpoint else {
        return match (options.env.is_empty(), &options.cwd) {
            (true, None) => Ok(()),
            _ => Err(McpUsageError::MisplacedOptions {
                options: "--env and --cwd",
                requirement: "a server that is a command",
            }),
        };
    };
    for variable in &options.env {
        match variable.split_once('=') {
            Some((name, value)) => {
                command.env.insert(name.to_owned(), value.to_owned().into());
            }
            None => {
                let value = credential::from_variable(variable)?;
                command.env.insert(variable.clone(), value);
            }
        }
    }
    if let Some(directory) = &options.cwd {
        command.cwd = Some(directory.clone());
    }
    Ok(())
}
