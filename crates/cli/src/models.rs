use clap::Args;
use pillion_client::Client;
use pillion_wire::{ModelEntry, ModelTool, route};

use super::dispatch::{CommandResult, RunCommand};
use super::output::JsonOption;
use super::sidecar::build_caller;
use super::table::{format_table, or_dash};

commands! {
    /// Lists the language models, and the tools that each model may use
    #[command(after_help = examples!["pillion models list", "pillion models show gpt-4-turbo"])]
    pub(super) enum ModelsCommand: Client {
        /// Lists the models and their capabilities
        #[command(after_help = examples!["pillion models list", "pillion models list --json"])]
        List(JsonOption) => list_models,
        Show(ShowModel),
    }
}

/// Shows which tools a model may use, and why it may not use the others
#[derive(Debug, Args)]
#[command(after_help = examples!["pillion models show gpt-4-turbo"])]
pub(super) struct ShowModel {
    /// The model's ID
    id: String,
    /// Includes the tools that are listed for this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

fn list_models(output: &JsonOption, client: &Client) -> CommandResult {
    let response = client.request(route::LIST_MODELS, []).send()?;
    output.print(&response, |list| {
        let headings = ["MODEL", "PROVIDER", "FUNCTIONS", "MCP", "TOOLS", "CHAT"];
        format_table(headings, list.models.iter().map(format_model_row))
    })
}

fn format_model_row(model: &ModelEntry) -> [String; 6] {
    let format_flag = |is_yes| if is_yes { "yes" } else { "no" }.to_owned();
    let chat_status = match &model.problem {
        Some(problem) => problem.clone(),
        None if model.is_default => "yes, the default".to_owned(),
        None => "yes".to_owned(),
    };
    let tools = if model.enabled_tools.is_empty() {
        "all".to_owned()
    } else {
        model.enabled_tools.join(", ")
    };
    [
        model.id.clone(),
        or_dash(model.provider.as_deref()),
        format_flag(model.function_calling),
        format_flag(model.mcp),
        tools,
        chat_status,
    ]
}

impl RunCommand<Client> for ShowModel {
    fn run(self, client: &Client) -> CommandResult {
        let caller = build_caller(self.user.as_deref());
        let request = client.request(route::SHOW_MODEL, [&self.id]);
        let response = request.caller(&caller).send()?;
        self.output.print(&response, |model| {
            let headings = ["TOOL", "SERVER", "VISIBLE", "REASON"];
            format_table(headings, model.tools.iter().map(format_tool_row))
        })
    }
}

fn format_tool_row(tool: &ModelTool) -> [String; 4] {
    let visibility = match (tool.visible, tool.native) {
        (true, true) => "yes, called by the provider",
        (true, false) => "yes",
        (false, _) => "no",
    };
    [
        tool.name.clone(),
        or_dash(tool.server.as_deref()),
        visibility.to_owned(),
        tool.reason.clone().unwrap_or_default(),
    ]
}
