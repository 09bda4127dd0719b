use serde::Deserialize;

/// `[features]`: features that are off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesSection {
    /// Whether tools of packs may send requests to a language model.
    pub llm: bool,
    /// Whether a language model's output in a tool may be shown to all participants, for example as
    /// an action of visibility `public`.
    pub llm_visible: bool,
}
