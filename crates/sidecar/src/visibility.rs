use std::sync::Arc;

use pillion_core::capability::ModelConfig;
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{ToolFilter, ToolOrigin};

use crate::access::AllowedTools;

/// Which tools a client may see, and so may call: a tool is asked for in one place, for lists
/// and calls alike, of whichever door. One that it may not see is not there for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visibility {
    allowed: AllowedTools,
    model: Option<Arc<ModelConfig>>,
    /// The user whose things alone it may see, where that is one user.
    confined_to: Option<Arc<str>>,
}

impl Visibility {
    /// What a token with this list may see (L3).
    pub(crate) fn of(allowed: AllowedTools) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }

    /// The same for somebody who may see of no other user than this one.
    pub(crate) fn confined_to(self, user: Option<&str>) -> Self {
        Self {
            confined_to: user.map(Into::into),
            ..self
        }
    }

    /// The user whose things alone may be seen, where that is one user.
    pub(crate) fn only_user(&self) -> Option<&str> {
        self.confined_to.as_deref()
    }

    /// What of it a model may see (H2).
    pub(crate) fn for_model(self, model: Arc<ModelConfig>) -> Self {
        Self {
            model: Some(model),
            ..self
        }
    }

    /// The same for the calls that a tool makes in the client's name.
    pub(crate) fn filter(&self) -> ToolFilter {
        let this = self.clone();
        ToolFilter::new(move |name, origin| this.admits_named(name, name, origin))
    }

    /// Whether a tool may be seen, which the client knows by the name `known_as`.
    pub(crate) fn admits(&self, tool: &RegisteredTool, known_as: &str) -> bool {
        self.admits_named(tool.name().as_str(), known_as, tool.origin())
    }

    /// Whether a tool of that origin may be seen: one that would be registered under `name`, and
    /// that the client knows as `known_as`. For a model either name will do. A token's list has
    /// the first alone, since the other may be another server's tomorrow.
    pub(crate) fn admits_named(&self, name: &str, known_as: &str, origin: &ToolOrigin) -> bool {
        if !self.allowed.admit(name) {
            return false;
        }
        let Some(model) = &self.model else {
            return true;
        };
        [name, known_as]
            .into_iter()
            .any(|name| model.tools.admit(name, origin).is_ok())
    }
}
