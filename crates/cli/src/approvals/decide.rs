use std::process::ExitCode;

use clap::Args;
use pillion_client::{Caller, Client};
use pillion_wire::{ApprovalResponse, DecisionRequest};

use super::CliError;
use pillion_gateway::pins::visible_line;

/// `pillion approvals approve`, `pillion approvals deny`
#[derive(Debug, Args)]
pub(super) struct Decide {
    /// The approval's ID
    id: String,
    /// The reason, for the record; shown to the caller if the call is denied
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The user who decides, for the record
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Decide {
    pub(super) fn apply(self, client: &Client, approve: bool) -> Result<ExitCode, CliError> {
        let request = DecisionRequest {
            reason: self.reason,
        };
        let request = serde_json::to_vec(&request).map_err(CliError::Answer)?;
        let mut caller = Caller::default();
        if let Some(user) = self.user {
            caller = caller.user(user);
        }
        let body = client.raw().decide(&self.id, approve, &request, &caller)?;
        if self.json {
            super::print_json(&String::from_utf8_lossy(&body))?;
            return Ok(ExitCode::SUCCESS);
        }
        let ApprovalResponse { approval, .. } = super::decode(&body)?;
        let by = approval.decided_by.unwrap_or_default();
        let (tool, status) = (approval.tool, approval.status);
        super::print(&visible_line(&format!("{status} by {by}: {tool}")))?;
        Ok(ExitCode::SUCCESS)
    }
}
