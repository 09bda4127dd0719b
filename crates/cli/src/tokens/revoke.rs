use clap::Args;
use pillion_core::store::Timestamp;
use serde_json::json;

use super::TokensContext;
use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::output::print_result;

/// Revokes a token at once
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion tokens revoke ci --config /etc/pillion/pillion.toml"])]
pub(super) struct RevokeToken {
    /// The token's name
    name: String,
}

impl RunCommand<TokensContext> for RevokeToken {
    fn run(self, context: &TokensContext) -> CommandResult {
        let operator = &context.operator;
        let store = operator.store();
        operator
            .run(store.revoke_access_token(&self.name, Timestamp::now()))
            .map_err(|error| {
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
