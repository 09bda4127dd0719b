use std::sync::Arc;

use pillion_core::capability::ModelConfig;
use pillion_core::tool::ToolOrigin;

/// Which tools a client may see, and so may call: a tool is asked for in one place, for lists
/// and calls alike. Lists of what a client's token allows belong here, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Visibility {
    model: Option<Arc<ModelConfig>>,
}

impl Visibility {
    /// What a model may see (H2).
    pub(super) fn for_model(model: Arc<ModelConfig>) -> Self {
        Self { model: Some(model) }
    }

    /// Whether a tool may be seen that goes by these names: the one it is registered under,
    /// and the one that the client knows.
    pub(super) fn admits(&self, names: [&str; 2], origin: &ToolOrigin) -> bool {
        let Some(model) = &self.model else {
            return true;
        };
        names
            .into_iter()
            .any(|name| model.tools.admit(name, origin).is_ok())
    }
}
