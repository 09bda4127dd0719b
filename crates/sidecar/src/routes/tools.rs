//! Routes under `/api/v1/tools`.

pub(super) mod execute;
pub(super) mod executor_call;
mod idempotency;
pub(super) mod list;
mod parameters;

use pillion_core::tool::ErrorCode;
use pillion_wire::Failure;
use serde::Deserialize;

pub(super) use list::schema_fault;

use super::extract::Caller;
use crate::app::App;
use pillion_gateway::VisibleTools;
use pillion_gateway::problem::Problem;
use pillion_management::error::{INVALID_INPUT, NOT_FOUND, RouteError, Status, UNAVAILABLE};

/// The reason why the tool in the path cannot be shown or called.
#[derive(Debug, thiserror::Error)]
enum ToolPathError {
    #[error("The tool's name in the path is not valid UTF-8")]
    InvalidName,
    #[error("{}", .0.error)]
    Unknown(Box<Failure>),
}

impl RouteError for ToolPathError {
    fn status(&self) -> Status {
        match self {
            Self::InvalidName => INVALID_INPUT,
            Self::Unknown(failure) if failure.error_code == ErrorCode::Unavailable.as_str() => {
                UNAVAILABLE
            }
            Self::Unknown(_) => NOT_FOUND,
        }
    }

    fn problem(&self) -> Problem {
        let problem = self.status().problem(self.to_string());
        match self {
            Self::InvalidName => problem,
            Self::Unknown(failure) => problem.with_failure_details(failure),
        }
    }
}

/// The filter of the tool lists.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ToolFilter {
    /// Restricts the list to the tools of this category.
    category: Option<String>,
}

impl ToolFilter {
    /// Finds the tools that this filter selects and this caller may see. Requests the tools of MCP
    /// servers whose tools are unknown.
    async fn find_tools(&self, app: &App, caller: &Caller) -> VisibleTools {
        let mut offered_tools = app
            .list_visible_tools(&caller.context, &caller.visibility)
            .await;
        if let Some(category) = &self.category {
            let tools = &mut offered_tools.tools;
            tools.retain(|tool| tool.definition().category() == category);
        }
        offered_tools
    }
}
