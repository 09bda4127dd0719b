//! Everything under `/api/v1/tools`.

mod answer;
pub(super) mod batch_execute;
pub(super) mod execute;
pub(super) mod list;
mod once;
mod parameters;
pub(super) mod schemas;

use std::sync::Arc;

use indexmap::IndexMap;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;
use serde::Deserialize;

use super::caller::Caller;
use crate::app::App;
use crate::upstream::UpstreamTool;

/// The query of the two lists.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only the tools of this category.
    category: Option<String>,
}

impl Filter {
    /// The tools that there are for this caller. MCP servers that have not been asked for theirs
    /// are asked now.
    async fn listed(&self, app: &App, caller: &Caller) -> Listed {
        let mut unavailable_servers = app.discover().await;
        let own = app.upstreams().own(&caller.context).await;
        unavailable_servers.extend(own.unavailable);
        let mut tools = app.registry().tools(self.category.as_deref());
        let of_caller = own.tools.values().filter(|tool| self.takes(tool));
        tools.extend(of_caller.cloned());
        tools.retain(|tool| caller.visibility.admits(tool, tool.name().as_str()));
        Listed {
            tools,
            of_caller: own.listed,
            unavailable_servers,
        }
    }

    /// Whether a tool that is in no registry belongs to the list.
    fn takes(&self, tool: &RegisteredTool) -> bool {
        let category = self.category.as_deref();
        category.is_none_or(|wanted| tool.definition().category() == wanted)
    }
}

/// What the two lists have in common.
struct Listed {
    tools: Vec<Arc<RegisteredTool>>,
    /// Those that the caller alone has, as their servers listed them.
    of_caller: IndexMap<ToolName, Arc<UpstreamTool>>,
    unavailable_servers: Vec<UnavailableServer>,
}
