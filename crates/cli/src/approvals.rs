use clap::Args;
use pillion_client::{Client, ClientError};
use pillion_gateway::pins::visible_line;
use pillion_wire::{ApprovalEntry, ApprovalResponse, DecisionRequest, route};
use serde_json::{Map, Value};

use crate::dispatch::{CommandResult, RunCommand};
use crate::error::CliError;
use crate::input;
use crate::output::{JsonOption, print_body, print_pretty};
use crate::sidecar::{build_caller, build_query_parameters, decode};
use crate::table::{format_table, format_user, truncate};

commands! {
    /// Lists the calls that wait for approval, and approves or denies them
    #[command(after_help = examples![
        "pillion approvals list",
        "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b",
    ])]
    pub(super) enum ApprovalsCommand: Client {
        List(ListApprovals),
        Show(ShowApproval),
        Approve(ApproveCall),
        /// Denies a call
        #[command(after_help = examples![
            "pillion approvals deny 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --reason 'Not today'",
        ])]
        Deny(DecisionOptions) => DecisionOptions::deny,
    }
}

/// Minimum length of an abbreviated approval ID.
const MIN_PREFIX_LENGTH: usize = 8;
const APPROVAL_ID_LENGTH: usize = 36;

/// Returns the ID of the only pending approval whose ID begins with `prefix`. Returns `prefix`
/// unchanged if there is no such approval, or if there are too many approvals to search.
fn resolve_id(client: &Client, prefix: String) -> Result<String, CliError> {
    if !(MIN_PREFIX_LENGTH..APPROVAL_ID_LENGTH).contains(&prefix.len()) {
        return Ok(prefix);
    }
    let query = [("status", "pending"), ("limit", "1000")];
    let response = client.request(route::LIST_APPROVALS, []).query(query);
    let page = decode(&response.send()?)?;
    if page.next.is_some() {
        // There are more approvals than one page holds, so the prefix is not resolved: an approval
        // on another page may have the same prefix.
        return Ok(prefix);
    }
    let ids = page.approvals.into_iter().map(|approval| approval.id);
    let mut matching_ids = ids.filter(|id| id.starts_with(&prefix));
    match (matching_ids.next(), matching_ids.next()) {
        (Some(_), Some(_)) => Err(CliError::Usage(format!(
            "several approvals have ids that begin with '{prefix}': give more characters of the id"
        ))),
        (Some(id), None) => Ok(id),
        (None, _) => Ok(prefix),
    }
}

fn to_cli_error(error: ClientError) -> CliError {
    CliError::with_list_command(error, "pillion approvals list")
}

/// Maximum length of the arguments in a table row, in characters.
const MAX_ARGUMENTS_CHARS: usize = 60;

/// Lists the calls that wait for approval, the newest first
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion approvals list",
    "pillion approvals list --status denied --tool cancel_order",
    "pillion approvals list --json | jq -r '.approvals[].id'",
])]
pub(crate) struct ListApprovals {
    /// Only approvals with this status
    #[arg(long, default_value = "pending", value_parser = ["pending", "approved", "denied", "expired", "all"])]
    status: String,
    /// Only approvals for calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only approvals for calls on behalf of this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Maximum number of approvals
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continues the list after this position: the value of `next` in the previous output of
    /// `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ListApprovals {
    fn run(self, client: &Client) -> CommandResult {
        let filters = build_query_parameters([
            ("status", (self.status != "all").then_some(self.status)),
            ("tool", self.tool),
            ("user", self.user),
            ("limit", Some(self.limit.to_string())),
            ("after", self.after),
        ]);
        let request = client.request(route::LIST_APPROVALS, []);
        let response = request.query(filters).send()?;
        self.output.print(&response, |list| {
            let headings = [
                "CREATED",
                "STATUS",
                "TOOL",
                "USER",
                "PRINCIPAL",
                "ID",
                "ARGUMENTS",
            ];
            format_table(headings, list.approvals.iter().map(format_approval_row))
        })
    }
}

fn format_approval_row(approval: &ApprovalEntry) -> [String; 7] {
    let arguments = match &approval.arguments {
        Some(arguments) => arguments.get(),
        None => "(long)",
    };
    [
        approval.created_at.clone(),
        approval.status.clone(),
        approval.tool.clone(),
        format_user(approval.user.as_deref(), approval.user_is_verified),
        approval.principal.clone().unwrap_or_default(),
        approval.id.clone(),
        truncate(arguments, MAX_ARGUMENTS_CHARS, "..."),
    ]
}

/// Shows one call that needs approval, and the decision on the call
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion approvals show 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b"])]
pub(crate) struct ShowApproval {
    /// The approval's ID, or its first 8 or more characters if the approval is pending
    id: String,
    /// Prints the sidecar's response as one line of JSON
    #[arg(long)]
    json: bool,
}

impl RunCommand<Client> for ShowApproval {
    fn run(self, client: &Client) -> CommandResult {
        let id = resolve_id(client, self.id)?;
        let response = client
            .request(route::SHOW_APPROVAL, [&id])
            .send()
            .map_err(to_cli_error)?;
        if self.json {
            return print_body(&response);
        }
        print_pretty(&decode(&response)?.approval)
    }
}

/// Approves a call, which then runs once with the arguments shown, or with changed arguments
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --user ada",
    "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --arguments '{\"to\": \"bob\"}'",
])]
pub(crate) struct ApproveCall {
    #[command(flatten)]
    decision: DecisionOptions,
    /// Runs the call with these arguments instead of its own: JSON, @FILE, or - for standard input.
    /// Leave redacted values as `pillion approvals show` prints them: the sidecar replaces each
    /// with the original value
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// The common arguments of `pillion approvals approve` and `deny`.
#[derive(Debug, Args)]
pub(super) struct DecisionOptions {
    /// The approval's ID, or its first 8 or more characters
    id: String,
    /// The reason for the decision, which is recorded and, for a denied call, shown to the caller
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The user who decides; recorded with the decision
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ApproveCall {
    fn run(self, client: &Client) -> CommandResult {
        let arguments = self.arguments.as_deref().map(read_arguments).transpose()?;
        self.decision.send(client, true, arguments)
    }
}

impl DecisionOptions {
    fn deny(&self, client: &Client) -> CommandResult {
        self.send(client, false, None)
    }

    fn send(
        &self,
        client: &Client,
        is_approval: bool,
        arguments: Option<Map<String, Value>>,
    ) -> CommandResult {
        let decision = DecisionRequest {
            reason: self.reason.clone(),
            arguments,
        };
        let caller = build_caller(self.user.as_deref());
        let id = resolve_id(client, self.id.clone())?;
        let route = if is_approval {
            route::APPROVE
        } else {
            route::DENY
        };
        let response = client
            .request(route, [&id])
            .caller(&caller)
            .send_json(&decision)
            .map_err(to_cli_error)?;
        self.output
            .print(&response, |ApprovalResponse { approval, .. }| {
                let decider = approval.decided_by.unwrap_or_default();
                let (tool, status) = (approval.tool, approval.status);
                visible_line(&format!("{status} by {decider}: {tool}"))
            })
    }
}

/// Reads the value of `--arguments`.
fn read_arguments(option_value: &str) -> Result<Map<String, Value>, CliError> {
    let json = match option_value.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| {
            CliError::Usage(format!("cannot read the arguments from {path}: {error}"))
        })?,
        None if option_value == "-" => input::read_all()?,
        None => option_value.as_bytes().to_vec(),
    };
    serde_json::from_slice(&json)
        .map_err(|error| CliError::Usage(format!("the arguments are not a JSON object: {error}")))
}
