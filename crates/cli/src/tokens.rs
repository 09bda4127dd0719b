use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pillion_core::store::{AccessToken, Timestamp};
use pillion_gateway::access::{AllowedTools, NewToken, Scope, TokenList, Users};
use pillion_gateway::timestamp::format_timestamp;
use serde_json::{Value, json};

use crate::dispatch::{CommandResult, RunCommand};
use crate::duration::DAY;
use crate::error::CliError;
use crate::operator::OperatorStore;
use crate::output::{print, print_diagnostic, print_result};
use crate::table::{format_table, or_dash};

/// Creates, lists and revokes access tokens for requests over TCP
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "\
These commands use the sidecar's store directly, even if the sidecar is not running: run them as
the sidecar's user. The sidecar accepts these tokens if its configuration has
tcp.tokens_store = true.

",
    examples![
        "pillion tokens create ci --scope execute --expires-days 90 --config /etc/pillion/pillion.toml",
        "export PILLION_CONFIG=/etc/pillion/pillion.toml",
        "pillion tokens create bot --scope execute --tools 'get_time,far_*'",
        "pillion tokens list",
        "pillion tokens revoke ci",
    ]
))]
pub(super) struct TokensCommand {
    /// The sidecar's configuration file
    #[arg(long, global = true, env = "PILLION_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: TokensSubcommand,
}

commands! {
    enum TokensSubcommand: TokensContext {
        Create(CreateToken),
        List(ListTokens),
        Revoke(RevokeToken),
    }
}

/// The store of the tokens, and the options of all commands.
struct TokensContext {
    operator_store: OperatorStore,
    has_config_file: bool,
    json: bool,
}

impl RunCommand<()> for TokensCommand {
    fn run(self, (): &()) -> CommandResult {
        self.command.run(&TokensContext {
            operator_store: OperatorStore::open_for_any_sidecar(self.config.as_deref())?,
            has_config_file: self.config.is_some(),
            json: self.json,
        })
    }
}

/// Creates a token and prints its value, which cannot be shown again
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion tokens create ci --scope execute --expires-days 90 --config /etc/pillion/pillion.toml",
    "pillion tokens create bot --scope execute --tools 'get_time,far_*' --config /etc/pillion/pillion.toml",
])]
pub(super) struct CreateToken {
    /// The token's name, unique among all tokens, including revoked ones
    #[arg(value_parser = parse_name)]
    name: String,
    /// The token's scope; each scope includes the previous ones
    #[arg(long, value_parser = ["read", "execute", "approve", "admin"])]
    scope: String,
    /// Binds the token to this user: requests act for this user, may use the user's credentials,
    /// and see only the user's recorded calls
    #[arg(long, value_name = "NAME", conflicts_with = "any_user", value_parser = parse_user)]
    user: Option<String>,
    /// Allows requests to act for any user that they name: for an application that authenticates
    /// its users
    #[arg(long)]
    any_user: bool,
    /// The only tools that the token may use, separated by commas: names, or prefixes of names
    /// followed by '*', as in 'get_time,far_*' [default: every tool]
    #[arg(long, value_name = "TOOLS", value_parser = AllowedTools::parse_list)]
    tools: Option<AllowedTools>,
    /// The number of days until the token expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires_days: Option<u32>,
}

fn parse_name(text: &str) -> Result<String, &'static str> {
    let is_valid = (1..=100).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let name = is_valid.then(|| text.to_owned());
    name.ok_or(
        "a token name must have 1 to 100 characters, without white space or control characters",
    )
}

fn parse_user(text: &str) -> Result<String, &'static str> {
    let is_valid = (1..=256).contains(&text.len()) && !text.contains(char::is_control);
    let user = is_valid.then(|| text.to_owned());
    user.ok_or("a user name must have 1 to 256 bytes, without control characters")
}

impl RunCommand<TokensContext> for CreateToken {
    fn run(self, context: &TokensContext) -> CommandResult {
        let operator_store = &context.operator_store;
        let scope = Scope::parse(&self.scope).unwrap_or(Scope::Read);
        // An error in the configured tokens is ignored, because the environment of this shell may
        // lack the variables from which the sidecar reads tokens.
        let tcp = &operator_store.config.tcp;
        let configured_tokens = TokenList::read_file(tcp)
            .and_then(|file| TokenList::parse(tcp, file.as_ref(), |name| std::env::var(name).ok()));
        if configured_tokens.is_ok_and(|tokens| tokens.has_name(&self.name)) {
            let name = self.name;
            let message = format!("the configuration already has a token named '{name}'");
            return Err(CliError::Usage(message));
        }
        let users = match self.user {
            Some(user) => Users::SingleUser(user),
            None if self.any_user => Users::AnyUser,
            None => Users::NoUser,
        };
        let mut scopes = vec![scope.as_str().to_owned()];
        scopes.extend(users.to_entry_word());
        scopes.extend(self.tools.unwrap_or_default().to_entry_word());
        let new_token = NewToken::generate();
        let now = Timestamp::now();
        let token = AccessToken {
            hash: new_token.hash(),
            name: self.name,
            scopes,
            created_at: now,
            expires_at: self.expires_days.map(|days| now.plus(DAY * days)),
            last_used_at: None,
            revoked_at: None,
        };
        let insertion = operator_store.run(operator_store.store().insert_access_token(&token));
        insertion.map_err(|error| {
            if error.is_conflict() {
                CliError::Usage(format!("a token named '{}' already exists", token.name))
            } else {
                CliError::Tokens(error)
            }
        })?;
        let token_text = new_token.expose();
        if context.json {
            let json = json!({"name": token.name, "scope": scope.as_str(), "token": token_text});
            print(&json.to_string())?;
        } else {
            print(token_text)?;
        }
        if !operator_store.config.tcp.tokens_store {
            print_diagnostic(if context.has_config_file {
                "with this configuration, the sidecar does not accept stored tokens: set \
                tcp.tokens_store = true"
            } else {
                "the sidecar accepts stored tokens only if its configuration has \
                tcp.tokens_store = true; pass the configuration with --config"
            });
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Lists the tokens, without their values
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tokens list --config /etc/pillion/pillion.toml"])]
pub(super) struct ListTokens;

impl RunCommand<TokensContext> for ListTokens {
    fn run(self, context: &TokensContext) -> CommandResult {
        let operator_store = &context.operator_store;
        let tokens = operator_store
            .run(operator_store.store().access_tokens())
            .map_err(CliError::Tokens)?;
        if context.json {
            let entries: Vec<_> = tokens.iter().map(format_token_json).collect();
            return print_result(&json!({ "tokens": entries }).to_string());
        }
        let headings = ["NAME", "SCOPE", "STATUS", "CREATED", "EXPIRES", "LAST USED"];
        print_result(&format_table(headings, tokens.iter().map(format_token_row)))
    }
}

fn format_token_json(token: &AccessToken) -> Value {
    json!({
        "name": token.name, "scopes": token.scopes, "status": status(token),
        "createdAt": format_timestamp(token.created_at),
        "expiresAt": token.expires_at.map(format_timestamp),
        "lastUsedAt": token.last_used_at.map(format_timestamp),
        "revokedAt": token.revoked_at.map(format_timestamp),
    })
}

fn format_token_row(token: &AccessToken) -> [String; 6] {
    [
        token.name.clone(),
        token.scopes.join(" "),
        status(token).to_owned(),
        format_timestamp(token.created_at),
        or_dash(token.expires_at.map(format_timestamp)),
        or_dash(token.last_used_at.map(format_timestamp)),
    ]
}

fn status(token: &AccessToken) -> &'static str {
    let now = Timestamp::now();
    let is_expired = token.expires_at.is_some_and(|expiry| expiry <= now);
    match (token.revoked_at, is_expired) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}

/// Revokes a token at once
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tokens revoke ci --config /etc/pillion/pillion.toml"])]
pub(super) struct RevokeToken {
    /// The token's name
    name: String,
}

impl RunCommand<TokensContext> for RevokeToken {
    fn run(self, context: &TokensContext) -> CommandResult {
        let operator_store = &context.operator_store;
        let store = operator_store.store();
        let revoke = store.revoke_access_token(&self.name, Timestamp::now());
        operator_store.run(revoke).map_err(|error| {
            if error.is_not_found() {
                CliError::UnknownToken(self.name.clone())
            } else {
                CliError::Tokens(error)
            }
        })?;
        print_result(&if context.json {
            json!({"name": self.name, "status": "revoked"}).to_string()
        } else {
            format!("{}: revoked", self.name)
        })
    }
}
