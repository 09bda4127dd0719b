use std::num::NonZeroU32;
use std::time::Duration;

use pillion_tabletop::TabletopOptions;
use serde::Deserialize;

use super::{FeaturesSection, millis};

/// `[tabletop]`: the pack for game masters (requirements D8 to D11).
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
    /// The messages of one scene that are kept; the oldest go.
    /// `PILLION__TABLETOP__MAX_MESSAGES`. Default 1,000.
    pub max_messages: NonZeroU32,
    /// The scenes that there may be; no other begins. `PILLION__TABLETOP__MAX_SCENES`. Default 500.
    pub max_scenes: NonZeroU32,
    /// The characters that there may be; no other comes. `PILLION__TABLETOP__MAX_CHARACTERS`. Default
    /// 500.
    pub max_characters: NonZeroU32,
}

impl Default for TabletopSection {
    fn default() -> Self {
        let options = TabletopOptions::default();
        let most = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX);
        Self {
            enabled: false,
            model: None,
            model_timeout: options.model_timeout,
            max_messages: most(options.max_messages),
            max_scenes: most(options.max_scenes),
            max_characters: most(options.max_characters),
        }
    }
}

impl TabletopSection {
    pub(crate) fn options(&self, features: &FeaturesSection) -> TabletopOptions {
        TabletopOptions {
            may_be_public: features.llm_visible,
            model_timeout: self.model_timeout,
            max_messages: self.max_messages.get(),
            max_scenes: self.max_scenes.get(),
            max_characters: self.max_characters.get(),
        }
    }
}
