use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_client::{Caller, Client};
use pillion_wire::{ModelEntry, ModelTool, route};

use super::table::table;
use super::{CliError, SocketOption, decode, print, print_json};

/// `pillion models`
#[derive(Debug, Args)]
pub(super) struct Models {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the models and their capabilities
    List(List),
    /// Shows which tools a model may use, and why it may not use the others
    Show(Show),
}

/// `pillion models list`
#[derive(Debug, Args)]
struct List {
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// `pillion models show`
#[derive(Debug, Args)]
struct Show {
    /// The model's ID
    id: String,
    /// Includes the tools that are listed for this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Models {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(60));
        match self.command {
            Command::List(list) => list.apply(&client)?,
            Command::Show(show) => show.apply(&client)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl List {
    fn apply(self, client: &Client) -> Result<(), CliError> {
        let response = client.request(route::LIST_MODELS, []).send()?;
        if self.json {
            return print_json(&response.text());
        }
        let list = decode(&response)?;
        let rows: Vec<_> = list.models.iter().map(row).collect();
        let heads = ["MODEL", "PROVIDER", "FUNCTIONS", "MCP", "TOOLS", "CHAT"];
        print(&table(&heads, &rows))
    }
}

fn row(model: &ModelEntry) -> [String; 6] {
    let yes = |yes| if yes { "yes" } else { "no" }.to_owned();
    let chat = match &model.problem {
        Some(problem) => problem.clone(),
        None if model.is_default => "yes, the default".to_owned(),
        None => "yes".to_owned(),
    };
    [
        model.id.clone(),
        model.provider.clone().unwrap_or_else(|| "-".to_owned()),
        yes(model.function_calling),
        yes(model.mcp),
        match model.enabled_tools.is_empty() {
            true => "all".to_owned(),
            false => model.enabled_tools.join(", "),
        },
        chat,
    ]
}

impl Show {
    fn apply(self, client: &Client) -> Result<(), CliError> {
        let mut caller = Caller::default();
        if let Some(user) = self.user {
            caller = caller.user(user);
        }
        let request = client.request(route::SHOW_MODEL, [&self.id]);
        let response = request.caller(&caller).send()?;
        if self.json {
            return print_json(&response.text());
        }
        let answer = decode(&response)?;
        let rows: Vec<_> = answer.tools.iter().map(tool_row).collect();
        print(&table(&["TOOL", "SERVER", "VISIBLE", "REASON"], &rows))
    }
}

fn tool_row(tool: &ModelTool) -> [String; 4] {
    [
        tool.name.clone(),
        tool.server.clone().unwrap_or_else(|| "-".to_owned()),
        match (tool.visible, tool.native) {
            (true, true) => "yes, called by the provider",
            (true, false) => "yes",
            (false, _) => "no",
        }
        .to_owned(),
        tool.reason.clone().unwrap_or_default(),
    ]
}
