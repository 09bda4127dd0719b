use std::process::ExitCode;

use clap::Args;
use pillion_core::store::Timestamp;
use serde_json::json;

use super::{CliError, Operator, print};

/// `pillion tokens revoke`
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The token's name
    name: String,
}

impl Revoke {
    pub(super) fn apply(self, operator: &Operator, as_json: bool) -> Result<ExitCode, CliError> {
        let store = operator.store();
        let revoked = operator.run(store.revoke_access_token(&self.name, Timestamp::now()));
        revoked.map_err(|error| match error.is_not_found() {
            true => CliError::NoToken(self.name.clone()),
            false => CliError::Tokens(error),
        })?;
        print(&match as_json {
            true => json!({"name": self.name, "status": "revoked"}).to_string(),
            false => format!("{}: revoked", self.name),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
