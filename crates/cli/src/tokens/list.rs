use std::process::ExitCode;

use pillion_core::store::{AccessToken, Timestamp};
use serde_json::json;

use super::super::table::table;
use super::{CliError, Operator, print};
use pillion_gateway::timestamp::format_timestamp;

/// `pillion tokens list`
pub(super) fn apply(operator: &Operator, as_json: bool) -> Result<ExitCode, CliError> {
    let tokens = operator.run(operator.store().access_tokens());
    let tokens = tokens.map_err(CliError::Tokens)?;
    if as_json {
        let tokens: Vec<_> = tokens
            .iter()
            .map(|token| {
                json!({
                    "name": token.name, "scopes": token.scopes, "status": status(token),
                    "createdAt": format_timestamp(token.created_at),
                    "expiresAt": token.expires_at.map(format_timestamp),
                    "lastUsedAt": token.last_used_at.map(format_timestamp),
                    "revokedAt": token.revoked_at.map(format_timestamp),
                })
            })
            .collect();
        print(&json!({"tokens": tokens}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let or_none = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), format_timestamp);
    let rows: Vec<_> = tokens
        .iter()
        .map(|token| {
            [
                token.name.clone(),
                token.scopes.join(" "),
                status(token).to_owned(),
                format_timestamp(token.created_at),
                or_none(token.expires_at),
                or_none(token.last_used_at),
            ]
        })
        .collect();
    let heads = ["NAME", "SCOPE", "STATUS", "CREATED", "EXPIRES", "LAST USED"];
    print(&table(&heads, &rows))?;
    Ok(ExitCode::SUCCESS)
}

fn status(token: &AccessToken) -> &'static str {
    let is_over = token.expires_at.is_some_and(|at| at <= Timestamp::now());
    match (token.revoked_at, is_over) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}
