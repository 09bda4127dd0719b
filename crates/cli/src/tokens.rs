use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nix::unistd::geteuid;
use pillion_core::store::AccessToken;
use pillion_gateway::access::{AccessGrant, AllowedTools, Scope, TokenList, Users};
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::tokens::{
    self, MAX_LIFETIME_DAYS, NewAccessToken, TokenError, expiry_after_days, parse_name,
    parse_tools, parse_user, status,
};
use serde_json::{Value, json};

use crate::dispatch::{CommandResult, RunCommand};
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
    #[arg(long, value_name = "TOOLS", value_parser = parse_tools)]
    tools: Option<AllowedTools>,
    /// The number of days until the token expires [default: never]
    #[arg(
        long,
        value_name = "DAYS",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LIFETIME_DAYS))
    )]
    expires_days: Option<u32>,
}

/// Returns the permission of the operator, who can open the store and may therefore do everything.
fn operator_grant() -> AccessGrant {
    AccessGrant::for_local_user(geteuid().as_raw())
}

fn to_cli_error(error: TokenError) -> CliError {
    match error {
        TokenError::Store(error) => CliError::Tokens(error),
        TokenError::Unknown { name } => CliError::UnknownToken(name),
        error => CliError::Usage(error.to_string()),
    }
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
        let configured_grants = configured_tokens.map(|tokens| tokens.grants());
        let users = match self.user {
            Some(user) => Users::SingleUser(user),
            None if self.any_user => Users::AnyUser,
            None => Users::NoUser,
        };
        let new_token = NewAccessToken {
            name: self.name,
            scope,
            users,
            tools: self.tools.unwrap_or_default(),
            expires_at: self.expires_days.map(expiry_after_days),
        };
        let store = operator_store.store();
        let operator = operator_grant();
        let configured = configured_grants.unwrap_or_default();
        let creation = tokens::create(&*store, &operator, &configured, new_token);
        let created_token = operator_store.run(creation).map_err(to_cli_error)?;
        let token_text = created_token.token.expose();
        if context.json {
            let name = created_token.record.name;
            let json = json!({"name": name, "scope": scope.as_str(), "token": token_text});
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
        let store = operator_store.store();
        let tokens = operator_store
            .run(tokens::list(&*store, &operator_grant()))
            .map_err(to_cli_error)?;
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
        operator_store
            .run(tokens::revoke(&*store, &operator_grant(), &self.name))
            .map_err(to_cli_error)?;
        print_result(&if context.json {
            json!({"name": self.name, "status": "revoked"}).to_string()
        } else {
            format!("{}: revoked", self.name)
        })
    }
}
