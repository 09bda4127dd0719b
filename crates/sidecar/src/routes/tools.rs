//! Routes under `/api/v1/tools`.

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
use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;
use serde::Deserialize;

use super::caller::Caller;
use crate::app::{App, Offered};
use pillion_gateway::upstream::UpstreamTool;

/// The filter of the tool lists.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only the tools of this category.
    category: Option<String>,
}

impl Filter {
    /// Returns the tools that this caller may see. MCP servers whose tools are unknown are queried
    /// now.
    async fn listed(&self, app: &App, caller: &Caller) -> Offered {
        let mut offered = app.tools_for(&caller.context, &caller.visibility).await;
        if let Some(category) = &self.category {
            let tools = &mut offered.tools;
            tools.retain(|tool| tool.definition().category() == category);
        }
        offered
    }
}

impl Offered {
    /// Returns every server that could not be queried.
    fn unavailable(self) -> Vec<UnavailableServer> {
        let mut unavailable = self.unavailable_servers;
        unavailable.extend(self.own.unavailable);
        unavailable
    }

    /// Returns the tools of MCP servers, as the servers listed them.
    fn of_servers(&self, app: &App) -> IndexMap<ToolName, Arc<UpstreamTool>> {
        let mut of_servers = app.upstreams().tools();
        let of_caller = self.own.listed.iter();
        of_servers.extend(of_caller.map(|(name, tool)| (name.clone(), Arc::clone(tool))));
        of_servers
    }
}
