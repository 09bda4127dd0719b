use std::sync::Arc;

use super::catalog::CatalogServer;
use pillion_config::McpServerSection;
use pillion_gateway::credentials::{Account, file_id};

/// A server of the configuration file or of the store.
#[derive(Clone)]
pub(crate) enum Server {
    OfFile(Box<McpServerSection>),
    /// A server of the store, with the reason why it is not used, if any.
    OfStore(Arc<CatalogServer>, Option<String>),
}

impl Server {
    pub(super) fn id(&self) -> String {
        match self {
            Self::OfFile(section) => file_id(section.label()),
            Self::OfStore(stored, _) => stored.record.id.clone(),
        }
    }

    /// Returns the server's OAuth account, if any.
    pub(super) fn account(&self) -> Option<Account> {
        match self {
            Self::OfFile(section) => Account::from_server(&section.server),
            Self::OfStore(stored, _) => Account::from_server(&stored.section.as_ref().ok()?.server),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::OfFile(section) => section.label(),
            Self::OfStore(stored, _) => &stored.record.name,
        }
    }
}
