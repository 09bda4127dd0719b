use std::time::Duration;

use pillion_tabletop::TabletopOptions;
use serde::Deserialize;

use super::{FeaturesSection, millis};

/// `[tabletop]`: the pack for game masters (requirements D8 to D11). It is looked at when the
/// sidecar starts, and not when it reloads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TabletopSection {
    /// Whether the pack is offered. `PILLION__TABLETOP__ENABLED`. Default false.
    pub enabled: bool,
    /// The language model that `orchestrate_action` asks, by its name. It is asked only with
    /// `features.llm`. `PILLION__TABLETOP__MODEL`. Default none.
    pub model: Option<String>,
    /// How long the model may take for one answer. `PILLION__TABLETOP__MODEL_TIMEOUT_MS`. Default
    /// 25,000 ms.
    #[serde(rename = "model_timeout_ms", deserialize_with = "millis::positive")]
    pub model_timeout: Duration,
}

impl Default for TabletopSection {
    fn default() -> Self {
        Self {
            enabled: false,
            model: None,
            model_timeout: TabletopOptions::default().model_timeout,
        }
    }
}

impl TabletopSection {
    pub(crate) fn options(&self, features: &FeaturesSection) -> TabletopOptions {
        TabletopOptions {
            may_be_public: features.llm_visible,
            model_timeout: self.model_timeout,
        }
    }
}
