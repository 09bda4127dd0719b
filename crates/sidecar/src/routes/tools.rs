//! Routes under `/api/v1/tools`.

mod answer;
pub(super) mod batch_execute;
pub(super) mod execute;
pub(super) mod list;
mod once;
mod parameters;
mod run;
pub(super) mod schemas;
pub(super) mod show;

use serde::Deserialize;

pub(super) use list::schema_fault;

use super::caller::Caller;
use crate::app::App;
use pillion_gateway::Offered;

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
