use std::sync::Arc;

use super::catalog::CatalogServer;
use pillion_config::McpServerSection;
use pillion_gateway::credentials::{Account, server_id_from_label};

/// A server of the configuration file or of the store.
#[derive(Clone)]
pub enum Server {
    /// A server of the configuration file.
    FromFile(Box<McpServerSection>),
    /// A server of the store, with the reason why it is not used, if any.
    FromStore(Arc<CatalogServer>, Option<String>),
}

impl Server {
    pub(super) fn id(&self) -> String {
        match self {
            Self::FromFile(section) => server_id_from_label(section.label()),
            Self::FromStore(catalog_server, _) => catalog_server.record.id.clone(),
        }
    }

    /// Returns the server's OAuth account, if any.
    pub(super) fn account(&self) -> Option<Account> {
        match self {
            Self::FromFile(section) => Account::from_server(&section.server),
            Self::FromStore(catalog_server, _) => {
                Account::from_server(&catalog_server.section.as_ref().ok()?.server)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::FromFile(section) => section.label(),
            Self::FromStore(catalog_server, _) => &catalog_server.record.name,
        }
    }
}
