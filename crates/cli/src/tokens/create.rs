use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_core::store::{AccessToken, Timestamp};
use serde_json::json;

use super::{CliError, Operator, print};
use pillion_gateway::access::{AllowedTools, BadToolPattern, NewToken, Scope, TokenList, Users};

/// One day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `pillion tokens create`
#[derive(Debug, Args)]
pub(super) struct Create {
    /// The token's name, unique among all tokens, including revoked ones
    #[arg(value_parser = name)]
    name: String,
    /// The token's scope; each scope includes the previous ones
    #[arg(long, value_parser = ["read", "execute", "approve", "admin"])]
    scope: String,
    /// Binds the token to this user: requests act for this user, may use the user's credentials,
    /// and see only the user's recorded calls
    #[arg(long, value_name = "NAME", conflicts_with = "any_user", value_parser = user)]
    user: Option<String>,
    /// Allows requests to act for any user that they name: for an application that authenticates
    /// its users
    #[arg(long)]
    any_user: bool,
    /// The only tools that the token may use, separated by commas: names, or prefixes of names
    /// followed by '*', as in 'get_time,far_*' [default: every tool]
    #[arg(long, value_name = "TOOLS", value_parser = tools)]
    tools: Option<AllowedTools>,
    /// The number of days until the token expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires_days: Option<u32>,
}

fn name(text: &str) -> Result<String, String> {
    let is_good = (1..=100).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| "a name must have 1 to 100 characters and no white space".to_owned())
}

fn tools(text: &str) -> Result<AllowedTools, BadToolPattern> {
    AllowedTools::listed(text)
}

fn user(text: &str) -> Result<String, String> {
    let is_good = (1..=256).contains(&text.len()) && !text.contains(char::is_control);
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| "a user name must have 1 to 256 bytes".to_owned())
}

impl Create {
    /// Creates the token. `is_named`: a configuration file was given.
    pub(super) fn apply(
        self,
        operator: &Operator,
        is_named: bool,
        as_json: bool,
    ) -> Result<ExitCode, CliError> {
        let scope = Scope::parse(&self.scope).unwrap_or(Scope::Read);
        // Uses this shell's environment, which may lack the sidecar's variables.
        let tcp = &operator.config.tcp;
        let listed = TokenList::read_file(tcp)
            .and_then(|file| TokenList::parse(tcp, file.as_ref(), |name| std::env::var(name).ok()));
        if listed.is_ok_and(|listed| listed.names(&self.name)) {
            return Err(CliError::Usage(format!(
                "the configuration already has a token named '{}'",
                self.name
            )));
        }
        let users = match self.user {
            Some(user) => Users::One(user),
            None if self.any_user => Users::Anybody,
            None => Users::Nobody,
        };
        let mut scopes = vec![scope.as_str().to_owned()];
        scopes.extend(users.word());
        scopes.extend(self.tools.unwrap_or_default().word());
        let new = NewToken::generate();
        let now = Timestamp::now();
        let token = AccessToken {
            hash: new.hash(),
            name: self.name,
            scopes,
            created_at: now,
            expires_at: self.expires_days.map(|days| now.plus(DAY * days)),
            last_used_at: None,
            revoked_at: None,
        };
        let inserted = operator.run(operator.store().insert_access_token(&token));
        inserted.map_err(|error| {
            if error.is_conflict() {
                CliError::Usage(format!("a token named '{}' already exists", token.name))
            } else {
                CliError::Tokens(error)
            }
        })?;
        if as_json {
            print(
                &json!({"name": token.name, "scope": scope.as_str(), "token": new.expose()})
                    .to_string(),
            )?;
        } else {
            print(new.expose())?;
        }
        if !operator.config.tcp.tokens_store {
            super::super::print_diagnostic(match is_named {
                true => {
                    "with this configuration, the sidecar does not accept stored tokens: set \
                    tcp.tokens_store = true"
                }
                false => {
                    "the sidecar accepts stored tokens only if its configuration has \
                    tcp.tokens_store = true; pass the configuration with --config"
                }
            });
        }
        Ok(ExitCode::SUCCESS)
    }
}
