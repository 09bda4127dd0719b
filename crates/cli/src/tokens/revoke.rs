use std::process::ExitCode;

use clap::Args;
use pillion_core::store::Timestamp;

use super::{CliError, Operator, print};

/// `pillion tokens revoke`
#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// The token's name
    name: String,
}

impl Revoke {
    pub(super) fn apply(self, operator: &Operator) -> Result<ExitCode, CliError> {
        let store = operator.store();
        let revoked = operator.run(store.revoke_access_token(&self.name, Timestamp::now()));
        revoked.map_err(|error| match error.is_not_found() {
            true => CliError::NoToken(self.name.clone()),
            false => CliError::Tokens(error),
        })?;
        print(&format!("{}: revoked", self.name))?;
        Ok(ExitCode::SUCCESS)
    }
}
