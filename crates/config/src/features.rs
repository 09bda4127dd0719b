use serde::Deserialize;

/// `[features]`: features that are off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesSection {
    /// Whether tools of packs may ask a language model. `PILLION__FEATURES__LLM`. Default false.
    pub llm: bool,
    /// Whether a language model's output in a tool may be shown to all participants, for example as
    /// an action of visibility `public`. `PILLION__FEATURES__LLM_VISIBLE`. Default false.
    pub llm_visible: bool,
}
