//! The statuses with which errors of other modules are returned.

use pillion_core::executor::OptionError;
use pillion_core::store::{StoreError, StoreErrorKind};
use pillion_gateway::credentials::CredentialError;
use pillion_gateway::problem::{Problem, store_error_status};
use pillion_gateway::workers::WorkerRejection;

use crate::error::{CONFLICT, DENIED, INVALID_INPUT, RouteError, Status, UNAVAILABLE};
use crate::servers::ServerError;

impl RouteError for StoreError {
    fn status(&self) -> Status {
        (store_error_status(self), self.code()).into()
    }

    fn problem(&self) -> Problem {
        if self.kind() != StoreErrorKind::Invalid {
            tracing::warn!(error = %self, "A request failed because of the store");
        }
        self.status().problem(self.to_string())
    }
}

impl RouteError for ServerError {
    fn status(&self) -> Status {
        self.status_and_code().into()
    }
}

impl RouteError for CredentialError {
    fn status(&self) -> Status {
        self.status_and_code().into()
    }
}

impl RouteError for WorkerRejection {
    fn status(&self) -> Status {
        match self {
            Self::Registration(_) => INVALID_INPUT,
            Self::NameTaken(_) => CONFLICT,
            Self::TooMany { .. } => UNAVAILABLE,
            Self::Disabled => DENIED,
        }
    }
}

impl RouteError for OptionError {
    fn status(&self) -> Status {
        INVALID_INPUT
    }
}
