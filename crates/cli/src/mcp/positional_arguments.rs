use clap::Args;
use pillion_mcp_client::{MessageStyle, ServerConfig};

use super::error::{McpUsageError, Result};
use super::options::Options;
use super::{authorization, command, credential};
use pillion_config::Config;

/// The positional arguments of a command.
#[derive(Debug, Args)]
pub(super) struct PositionalArguments {
    /// The server's URL, followed by the command's arguments; omit the URL if --server or --
    /// specifies the server
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// The program to start as the server, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The parsed positional arguments.
#[derive(Debug)]
pub(super) struct ResolvedArguments {
    pub(super) server: ServerConfig,
    /// The words after the server's URL.
    pub(super) words: Vec<String>,
}

impl PositionalArguments {
    /// Parses the first word with `parse`. If `parse` accepts the word, removes the word and
    /// returns its value.
    pub(super) fn take_first<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let parsed_word = parse(self.words.first()?)?;
        self.words.remove(0);
        Some(parsed_word)
    }

    /// Finds the server: a configured server, a command, or the URL in the first word.
    pub(super) fn resolve(self, options: &Options) -> Result<ResolvedArguments> {
        self.resolve_with_uris(0, options)
    }

    /// Finds the server like [`resolve`](Self::resolve), for a command with one URI argument, which
    /// can look like a server's URL.
    pub(super) fn resolve_with_uri(self, options: &Options) -> Result<ResolvedArguments> {
        self.resolve_with_uris(1, options)
    }

    fn resolve_with_uris(self, uri_count: usize, options: &Options) -> Result<ResolvedArguments> {
        let mut words = self.words;
        let has_named_server = options.server.is_some() || !self.command.is_empty();
        let has_url = words.len() > uri_count && is_url(&words[0]);
        let is_named_twice = options.server.is_some() && !self.command.is_empty();
        if is_named_twice || (has_named_server && has_url) {
            return Err(McpUsageError::AmbiguousServer);
        }
        let mut command = self.command.into_iter();
        let mut server = match (&options.server, command.next()) {
            (Some(name), _) => load_server(name, options)?,
            (None, Some(program)) => command::build_server_config(program, command.collect()),
            (None, None) => take_server_url(&mut words)?,
        };
        command::apply(&mut server, options)?;
        credential::apply(&mut server, options)?;
        authorization::apply(&mut server, options)?;
        if let Some(transport) = options.transport {
            server.transport = transport;
        }
        if let Some(version) = options.protocol_version {
            server.protocol_version = Some(version);
        }
        if let Some(timeout) = options.timeout {
            server.timeout = timeout;
        }
        server.message_style = Some(MessageStyle::Http);
        server.validate()?;
        Ok(ResolvedArguments { server, words })
    }
}

impl ResolvedArguments {
    pub(super) fn take_word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    pub(super) fn take_required_word(&mut self, argument: &'static str) -> Result<String> {
        let missing_argument = McpUsageError::MissingArgument { argument };
        self.take_word().ok_or(missing_argument)
    }

    pub(super) fn reject_extra_words(&self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(McpUsageError::UnexpectedArgument { word: word.clone() }),
        }
    }
}

fn is_url(word: &str) -> bool {
    word.contains("://")
}

fn take_server_url(words: &mut Vec<String>) -> Result<ServerConfig> {
    if words.is_empty() {
        return Err(McpUsageError::MissingServer);
    }
    let word = words.remove(0);
    if !is_url(&word) {
        return Err(McpUsageError::NotAUrl { word });
    }
    Ok(ServerConfig::new("server", &word)?)
}

fn load_server(name: &str, options: &Options) -> Result<ServerConfig> {
    let file = options.config.as_deref();
    match Config::load_server(file, std::env::vars_os(), name)? {
        Ok(section) => Ok(section.server),
        Err(known_names) if known_names.is_empty() && file.is_none() => {
            Err(McpUsageError::MissingConfiguration)
        }
        Err(known_names) => {
            let name = name.to_owned();
            Err(McpUsageError::UnknownServer { name, known_names })
        }
    }
}
