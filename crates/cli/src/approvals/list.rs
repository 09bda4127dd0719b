use std::process::ExitCode;

use clap::Args;
use pillion_client::Client;
use pillion_wire::{ApprovalEntry, route};

use super::super::table::{table, user};
use super::CliError;

/// Maximum length of the arguments in a table row, in characters.
const MAX_SHOWN: usize = 60;

/// `pillion approvals list`
#[derive(Debug, Args)]
pub(super) struct List {
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
    /// Only approvals after this one in the list: the value of `next` in the output of `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let status = (self.status != "all").then_some(self.status);
        let filters = [
            ("status", status),
            ("tool", self.tool),
            ("user", self.user),
            ("limit", Some(self.limit.to_string())),
            ("after", self.after),
        ];
        let filters = filters.into_iter();
        let query: Vec<_> = filters
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        let request = client.request(route::LIST_APPROVALS, []);
        let response = request.query(query).send()?;
        if self.json {
            super::print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = super::decode(&response)?;
        let rows: Vec<_> = list.approvals.iter().map(row).collect();
        let heads = [
            "CREATED",
            "STATUS",
            "TOOL",
            "USER",
            "PRINCIPAL",
            "ID",
            "ARGUMENTS",
        ];
        super::print(&table(&heads, &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(approval: &ApprovalEntry) -> [String; 7] {
    let arguments = match &approval.arguments {
        Some(arguments) => arguments.get(),
        None => "(long)",
    };
    let mut shown: String = arguments.chars().take(MAX_SHOWN).collect();
    if shown.len() < arguments.len() {
        shown.push_str("...");
    }
    [
        approval.created_at.clone(),
        approval.status.clone(),
        approval.tool.clone(),
        user(approval.user.as_deref(), approval.user_is_verified),
        approval.principal.clone().unwrap_or_default(),
        approval.id.clone(),
        shown,
    ]
}
