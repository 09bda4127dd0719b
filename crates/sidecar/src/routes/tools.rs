//! Everything under `/api/v1/tools`.

mod answer;
pub(super) mod batch_execute;
pub(super) mod execute;
pub(super) mod list;
mod once;
mod parameters;
pub(super) mod schemas;
pub(super) mod show;

use std::sync::Arc;

use indexmap::IndexMap;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;
use serde::Deserialize;

use super::caller::Caller;
use crate::app::App;
use crate::upstream::{Own, UpstreamTool};

/// The query of the two lists.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only the tools of this category.
    category: Option<String>,
}

impl Filter {
    /// The tools that there are for this caller. MCP servers that have not been asked for theirs
    /// are asked now.
    async fn listed(&self, app: &App, caller: &Caller) -> Listed {
        let unavailable_servers = app.discover().await;
        let own = app.upstreams().own(&caller.context).await;
        let mut tools = app.registry().tools(self.category.as_deref());
        let of_caller = own.tools.values().filter(|tool| self.takes(tool));
        tools.extend(of_caller.cloned());
        tools.retain(|tool| caller.visibility.admits(tool, tool.name().as_str()));
        Listed {
            tools,
            own,
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
    /// What of it the caller alone has.
    own: Own,
    /// The servers that could not be asked, but for those that were asked for the caller alone.
    unavailable_servers: Vec<UnavailableServer>,
}

impl Listed {
    /// Every server that could not be asked.
    fn unavailable(self) -> Vec<UnavailableServer> {
        let mut unavailable = self.unavailable_servers;
        unavailable.extend(self.own.unavailable);
        unavailable
    }

    /// The tools as their servers listed them, for those that are of servers.
    fn of_servers(&self, app: &App) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        let mut of_servers = app.upstreams().tools();
        let of_caller = self.own.listed.iter();
        of_servers.extend(of_caller.map(|(name, tool)| (name.clone(), Arc::clone(tool))));
        of_servers
    }
}
