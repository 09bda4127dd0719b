use std::num::NonZeroU32;
use std::time::Duration;

use pillion_tabletop::{MAX_CHARACTERS, TabletopOptions};
use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use super::{FeaturesSection, millis};

/// `[tabletop]`: the tool pack for game masters.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TabletopSection {
    /// Whether [the pack](../how-to/packs.md) is offered.
    pub enabled: bool,
    /// The ID of the language model that the tool `orchestrate_action` uses; requires
    /// `features.llm`.
    pub model: Option<String>,
    /// Maximum time for one response of the model.
    #[serde(rename = "model_timeout_ms")]
    #[serde(deserialize_with = "millis::read_positive")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = millis::MAX_MS)))]
    pub model_timeout: Duration,
    /// Maximum number of messages of one scene; the oldest are deleted.
    pub max_messages: NonZeroU32,
    /// Maximum number of scenes; further scenes are rejected.
    pub max_scenes: NonZeroU32,
    /// Maximum number of stored game characters, up to 1,000; further characters are rejected.
    #[serde(deserialize_with = "read_max_characters")]
    #[cfg_attr(test, schemars(range(max = MAX_CHARACTERS)))]
    pub max_characters: NonZeroU32,
}

fn read_max_characters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU32, D::Error> {
    let number = NonZeroU32::deserialize(deserializer)?;
    if number.get() <= MAX_CHARACTERS {
        return Ok(number);
    }
    let unexpected = Unexpected::Unsigned(number.get().into());
    let expected = format!("a number from 1 to {MAX_CHARACTERS}");
    Err(D::Error::invalid_value(unexpected, &expected.as_str()))
}

impl Default for TabletopSection {
    fn default() -> Self {
        let options = TabletopOptions::default();
        let non_zero = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX);
        Self {
            enabled: false,
            model: None,
            model_timeout: options.model_timeout,
            max_messages: non_zero(options.max_messages),
            max_scenes: non_zero(options.max_scenes),
            max_characters: non_zero(options.max_characters),
        }
    }
}

impl TabletopSection {
    /// Returns the options of the pack.
    pub fn options(&self, features: &FeaturesSection) -> TabletopOptions {
        TabletopOptions {
            may_be_public: features.llm_visible,
            model_timeout: self.model_timeout,
            max_messages: self.max_messages.get(),
            max_scenes: self.max_scenes.get(),
            max_characters: self.max_characters.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn d10_the_number_of_characters_is_limited() {
        let load = |number: u32| {
            let text = format!("[tabletop]\nmax_characters = {number}");
            Config::parse(&text, "pillion.toml")
        };
        assert_eq!(load(1000).unwrap().tabletop.max_characters.get(), 1000);
        let error = load(1001).unwrap_err().to_string();
        assert!(error.contains("tabletop.max_characters"), "{error}");
        assert!(error.contains("a number from 1 to 1000"), "{error}");
    }
}
