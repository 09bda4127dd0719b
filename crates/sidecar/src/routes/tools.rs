//! Routes under `/api/v1/tools`.

pub(super) mod execute;
pub(super) mod executor_call;
pub(super) mod list;
mod once;
mod parameters;
mod response;
mod run;

use pillion_core::tool::ErrorCode;
use pillion_wire::Failure;
use serde::Deserialize;

pub(super) use list::schema_fault;

use super::caller::Caller;
use super::error::{INVALID_INPUT, NOT_FOUND, RouteError, Status, UNAVAILABLE};
use crate::app::App;
use pillion_gateway::Offered;
use pillion_gateway::problem::Problem;

/// Why the tool in the path cannot be shown or called.
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
            Self::Unknown(failure) => problem.about(failure),
        }
    }
}

/// The filter of the tool lists.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    /// Only the tools of this category.
    category: Option<String>,
}

impl Filter {
    /// Returns the tools that this caller may see. Requests the tools of MCP servers whose tools
    /// are unknown.
    async fn listed(&self, app: &App, caller: &Caller) -> Offered {
        let mut offered = app.tools_for(&caller.context, &caller.visibility).await;
        if let Some(category) = &self.category {
            let tools = &mut offered.tools;
            tools.retain(|tool| tool.definition().category() == category);
        }
        offered
    }
}
