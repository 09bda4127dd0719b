//! Headers and credentials of the command line. Options name variables and files for secrets,
//! because all users of the host can read the arguments of a process.

use std::io::Read;
use std::path::Path;

use pillion_mcp_client::{Authentication, ServerConfig};
use secrecy::SecretString;

use super::error::McpCommandError;
use super::options::Options;

/// Maximum size of a token read from a file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

pub(super) fn apply(server: &mut ServerConfig, options: &Options) -> Result<(), McpCommandError> {
    let has_none = options.headers.is_empty()
        && options.headers_env.is_empty()
        && options.bearer_env.is_none()
        && options.bearer_file.is_none();
    if server.url().is_none() && !has_none {
        return Err(McpCommandError::Misplaced {
            options: "--header, --header-env, --bearer-env and --bearer-file",
            owner: "a server behind a URL; a command takes --env",
        });
    }
    for header in &options.headers {
        let (name, value) = pair(header, "--header", "NAME:VALUE")?;
        server
            .headers
            .insert(name.to_owned(), value.to_owned().into());
    }
    for header in &options.headers_env {
        let (name, variable) = pair(header, "--header-env", "NAME:VARIABLE")?;
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

fn pair<'a>(
    text: &'a str,
    option: &'static str,
    form: &'static str,
) -> Result<(&'a str, &'a str), McpCommandError> {
    let (name, value) = text
        .split_once(':')
        .ok_or(McpCommandError::OptionForm { option, form })?;
    Ok((name.trim(), value.trim()))
}

pub(crate) fn from_variable(name: &str) -> Result<SecretString, McpCommandError> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value.into()),
        _ => Err(McpCommandError::Variable {
            name: name.to_owned(),
        }),
    }
}

/// Reads a credential from a file and trims white space.
pub(crate) fn from_file(path: &Path) -> Result<SecretString, McpCommandError> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_TOKEN_BYTES).read_to_string(&mut text));
    read.map_err(|source| McpCommandError::CredentialFile {
        path: path.to_owned(),
        source,
    })?;
    match text.trim() {
        "" => Err(McpCommandError::EmptyCredential {
            path: path.to_owned(),
        }),
        token => Ok(token.to_owned().into()),
    }
}
