use std::sync::Arc;

use super::catalog::Known;
use crate::config::McpServerSection;
use crate::credentials::{Account, file_id};

/// A server, wherever it comes from.
#[derive(Clone)]
pub(crate) enum Server {
    OfFile(Box<McpServerSection>),
    /// With why it is set aside, if it is.
    OfStore(Arc<Known>, Option<String>),
}

impl Server {
    pub(super) fn id(&self) -> String {
        match self {
            Self::OfFile(section) => file_id(section.label()),
            Self::OfStore(known, _) => known.record.id.clone(),
        }
    }

    /// What its tokens of OAuth are good for, if it has some.
    pub(super) fn account(&self) -> Option<Account> {
        match self {
            Self::OfFile(section) => Account::of(&section.server),
            Self::OfStore(known, _) => Account::of(&known.section.as_ref().ok()?.server),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::OfFile(section) => section.label(),
            Self::OfStore(known, _) => &known.record.name,
        }
    }
}
