mod decide;
mod list;
mod show;

use pillion_client::{Client, ClientError};
use pillion_wire::route;

use super::error::CliError;
use super::sidecar::decode;

commands! {
    /// Lists the calls that wait for approval, and approves or denies them
    #[command(after_help = examples![
        "pillion approvals list",
        "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b",
    ])]
    pub(super) enum ApprovalsCommand: Client {
        List(list::ListApprovals),
        Show(show::ShowApproval),
        Approve(decide::ApproveCall),
        Deny(decide::DenyCall),
    }
}

/// Minimum length of the beginning of an ID.
const MIN_PREFIX_LENGTH: usize = 8;
const ID_LENGTH: usize = 36;

/// Returns the ID of the only pending approval whose ID begins with `prefix`, or else `prefix`.
fn full_id(client: &Client, prefix: String) -> Result<String, CliError> {
    if !(MIN_PREFIX_LENGTH..ID_LENGTH).contains(&prefix.len()) {
        return Ok(prefix);
    }
    let query = [
        ("status", "pending".to_owned()),
        ("limit", "1000".to_owned()),
    ];
    let response = client.request(route::LIST_APPROVALS, []).query(query);
    let list = decode(&response.send()?)?;
    if list.next.is_some() {
        // Another approval on the next page may begin in the same way.
        return Ok(prefix);
    }
    let ids = list.approvals.into_iter().map(|approval| approval.id);
    let mut matching_ids = ids.filter(|id| id.starts_with(&prefix));
    match (matching_ids.next(), matching_ids.next()) {
        (Some(_), Some(_)) => Err(CliError::Usage(format!(
            "several approvals have ids that begin with '{prefix}': write more of the id"
        ))),
        (Some(id), None) => Ok(id),
        (None, _) => Ok(prefix),
    }
}

fn unknown_id(error: ClientError, id: &str) -> CliError {
    CliError::with_id(error, id, "pillion approvals list")
}
