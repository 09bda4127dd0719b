use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pillion_core::store::{AccessToken, Timestamp};
use serde_json::json;

use super::{CliError, Operator, print};
use crate::access::{NewToken, Scope};

/// A day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// `pillion tokens create`
#[derive(Debug, Args)]
pub(super) struct Create {
    /// What the token is called; no other has this name, revoked ones included
    #[arg(value_parser = name)]
    name: String,
    /// What it allows; each includes the ones before it
    #[arg(long, value_parser = ["read", "execute", "approve", "admin"])]
    scope: String,
    /// After how many days it is no longer good [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires_days: Option<u32>,
}

fn name(text: &str) -> Result<String, String> {
    let is_good = (1..=100).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| "a name has 1 to 100 characters and no white space".to_owned())
}

impl Create {
    pub(super) fn apply(self, operator: &Operator, as_json: bool) -> Result<ExitCode, CliError> {
        let scope = Scope::parse(&self.scope).unwrap_or(Scope::Read);
        let new = NewToken::generate();
        let now = Timestamp::now();
        let token = AccessToken {
            hash: new.hash(),
            name: self.name,
            scopes: vec![scope.as_str().to_owned()],
            created_at: now,
            expires_at: self.expires_days.map(|days| now.plus(DAY * days)),
            last_used_at: None,
            revoked_at: None,
        };
        let inserted = operator.run(operator.store().insert_access_token(&token));
        inserted.map_err(|error| {
            if error.is_conflict() {
                CliError::Usage(format!("there is a token named '{}' already", token.name))
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
            super::super::complain(
                "the sidecar takes no stored tokens: set tcp.tokens_store = true",
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
