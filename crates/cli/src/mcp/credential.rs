//! Headers and credentials of the command line. For a secret, options take the name of a variable
//! or a file instead of the secret, because all users of the host can read the arguments of a
//! process.

use std::path::Path;

use pillion_mcp_client::{Authentication, ServerConfig};
use secrecy::{ExposeSecret, SecretString};

use super::error::{McpUsageError, Result};
use super::options::Options;
use crate::input::read_secret;

/// Maximum size of a token read from a file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

pub(super) fn apply(server: &mut ServerConfig, options: &Options) -> Result<()> {
    let has_no_credential = options.headers.is_empty()
        && options.headers_env.is_empty()
        && options.bearer_env.is_none()
        && options.bearer_file.is_none();
    if server.url().is_none() && !has_no_credential {
        return Err(McpUsageError::MisplacedOptions {
            options: "--header, --header-env, --bearer-env and --bearer-file",
            requirement: "a server that has a URL (a command takes --env)",
        });
    }
    for header in &options.headers {
        let (name, value) = split_pair(header, "--header", "NAME:VALUE")?;
        server
            .headers
            .insert(name.to_owned(), value.to_owned().into());
    }
    for header in &options.headers_env {
        let (name, variable) = split_pair(header, "--header-env", "NAME:VARIABLE")?;
        server
            .headers
            .insert(name.to_owned(), from_variable(variable)?);
    }
    if let Some(variable) = &options.bearer_env {
        let token = from_variable(variable)?;
        server.authentication = Authentication::Bearer { token };
    }
    if let Some(path) = &options.bearer_file {
        let token = from_file(path)?;
        server.authentication = Authentication::Bearer { token };
    }
    Ok(())
}

fn split_pair<'a>(
    text: &'a str,
    option: &'static str,
    form: &'static str,
) -> Result<(&'a str, &'a str)> {
    let (name, value) = text
        .split_once(':')
        .ok_or(McpUsageError::OptionForm { option, form })?;
    Ok((name.trim(), value.trim()))
}

/// Returns the value of an environment variable, which must not be empty.
pub(crate) fn from_variable(name: &str) -> Result<SecretString> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value.into()),
        _ => Err(McpUsageError::UnsetVariable {
            name: name.to_owned(),
        }),
    }
}

/// Reads a credential from a file and trims white space.
pub(crate) fn from_file(path: &Path) -> Result<SecretString> {
    let token = std::fs::File::open(path)
        .and_then(|file| read_secret(file, MAX_TOKEN_BYTES))
        .map_err(|source| McpUsageError::ReadCredential {
            path: path.to_owned(),
            source,
        })?;
    if token.expose_secret().is_empty() {
        let path = path.to_owned();
        return Err(McpUsageError::EmptyCredential { path });
    }
    Ok(token)
}
