use clap::Args;
use pillion_core::store::{AccessToken, Timestamp};
use serde_json::{Value, json};

use super::TokensContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::print_result;
use crate::table::{or_dash, table};
use pillion_gateway::timestamp::format_timestamp;

/// Lists the tokens, without their values
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tokens list --config /etc/pillion/pillion.toml"])]
pub(super) struct ListTokens;

impl RunCommand<TokensContext> for ListTokens {
    fn run(self, context: &TokensContext) -> CommandResult {
        let operator = &context.operator;
        let tokens = operator
            .run(operator.store().access_tokens())
            .map_err(CliError::Tokens)?;
        if context.json {
            let entries: Vec<_> = tokens.iter().map(as_json).collect();
            return print_result(&json!({ "tokens": entries }).to_string());
        }
        let heads = ["NAME", "SCOPE", "STATUS", "CREATED", "EXPIRES", "LAST USED"];
        print_result(&table(heads, tokens.iter().map(row)))
    }
}

fn as_json(token: &AccessToken) -> Value {
    json!({
        "name": token.name, "scopes": token.scopes, "status": status(token),
        "createdAt": format_timestamp(token.created_at),
        "expiresAt": token.expires_at.map(format_timestamp),
        "lastUsedAt": token.last_used_at.map(format_timestamp),
        "revokedAt": token.revoked_at.map(format_timestamp),
    })
}

fn row(token: &AccessToken) -> [String; 6] {
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
    let is_expired = token.expires_at.is_some_and(|at| at <= Timestamp::now());
    match (token.revoked_at, is_expired) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}
