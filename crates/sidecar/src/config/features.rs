use serde::Deserialize;

/// `[features]`: what is off until somebody asks for it (requirement N2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesSection {
    /// Whether tools of packs may ask a language model. `PILLION__FEATURES__LLM`. Default false.
    pub llm: bool,
    /// Whether what a model says in a tool may be shown to everybody, as by an action of
    /// visibility `public`. `PILLION__FEATURES__LLM_VISIBLE`. Default false.
    pub llm_visible: bool,
}
