use clap::Args;
use pillion_client::Client;
use pillion_wire::{ApprovalEntry, route};

use crate::dispatch::{CommandResult, RunCommand};
use crate::output::JsonOption;
use crate::sidecar::query;
use crate::table::{table, truncate, user};

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
    /// Only approvals after this one in the list: the value of `next` in the output of `--json`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

impl RunCommand<Client> for ListApprovals {
    fn run(self, client: &Client) -> CommandResult {
        let filters = query([
            ("status", (self.status != "all").then_some(self.status)),
            ("tool", self.tool),
            ("user", self.user),
            ("limit", Some(self.limit.to_string())),
            ("after", self.after),
        ]);
        let request = client.request(route::LIST_APPROVALS, []);
        let response = request.query(filters).send()?;
        self.output.print(&response, |list| {
            let heads = [
                "CREATED",
                "STATUS",
                "TOOL",
                "USER",
                "PRINCIPAL",
                "ID",
                "ARGUMENTS",
            ];
            table(heads, list.approvals.iter().map(row))
        })
    }
}

fn row(approval: &ApprovalEntry) -> [String; 7] {
    let arguments = match &approval.arguments {
        Some(arguments) => arguments.get(),
        None => "(long)",
    };
    [
        approval.created_at.clone(),
        approval.status.clone(),
        approval.tool.clone(),
        user(approval.user.as_deref(), approval.user_is_verified),
        approval.principal.clone().unwrap_or_default(),
        approval.id.clone(),
        truncate(arguments, MAX_ARGUMENTS_CHARS, "..."),
    ]
}
