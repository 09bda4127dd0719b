use std::num::NonZeroU64;
use std::sync::Arc;

use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

/// One entry of `[[models]]`: a language model, and the tools that the model may use.
///
/// Unlike the model lists of applications that [`ModelConfig`] reads, entries reject unknown keys
/// and alternative spellings of flags.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "ModelTable")]
pub struct ModelSection {
    /// The model's ID in Pillion, its provider and its tool capabilities.
    pub config: Arc<ModelConfig>,
    /// The provider's name for the model. Default: the ID.
    pub model: String,
    /// The labels of the MCP servers that the model's provider calls directly, not through Pillion.
    pub native_mcp: Vec<String>,
    /// Maximum number of tokens that the model reads and writes in one turn.
    pub context_tokens: Option<NonZeroU64>,
    /// Whether the model is a reasoning model. Default: detected from the model's name.
    pub reasoning: Option<bool>,
    /// Maximum length of a response, in tokens, if the request sets none.
    pub max_output_tokens: Option<NonZeroU64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    #[serde(deserialize_with = "read_id")]
    id: String,
    label: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    context_tokens: Option<NonZeroU64>,
    max_output_tokens: Option<NonZeroU64>,
    reasoning: Option<bool>,
    #[serde(default)]
    tools: ModelToolsTable,
}

/// What the model can do with tools. Default: nothing.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ModelToolsTable {
    function_calling: bool,
    mcp: bool,
    enabled_tools: Vec<String>,
    native_mcp: Vec<String>,
}

fn read_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    if id.trim().is_empty() {
        let unexpected = Unexpected::Str(&id);
        return Err(D::Error::invalid_value(unexpected, &"the name of a model"));
    }
    Ok(id)
}

impl From<ModelTable> for ModelSection {
    fn from(entry: ModelTable) -> Self {
        Self {
            model: entry.model.unwrap_or_else(|| entry.id.clone()),
            native_mcp: entry.tools.native_mcp,
            context_tokens: entry.context_tokens,
            max_output_tokens: entry.max_output_tokens,
            reasoning: entry.reasoning,
            config: Arc::new(ModelConfig {
                id: entry.id,
                label: entry.label,
                provider: entry.provider,
                tools: ToolCapabilities {
                    function_calling: entry.tools.function_calling,
                    mcp: entry.tools.mcp,
                    enabled_tools: entry.tools.enabled_tools,
                },
            }),
        }
    }
}
