use std::num::NonZeroU64;
use std::sync::Arc;

use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

/// One entry of `[[models]]`: a language model, and which tools it sees (H2).
///
/// The lists that [`ModelConfig`] reads for applications have keys of theirs beside these, and
/// write flags in several ways; here both would be mistakes, as everywhere in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Entry")]
pub struct ModelSection {
    /// Its name here, its provider's name, and what it can do with tools.
    pub config: Arc<ModelConfig>,
    /// The provider's name of it.
    pub model: String,
    /// The labels of the MCP servers that its provider calls by itself, instead of having their tools
    /// called here.
    pub native_mcp: Vec<String>,
    /// The tokens that it reads and writes in one turn at most.
    pub context_tokens: Option<NonZeroU64>,
    /// Whether it thinks before it answers, where its name does not say it.
    pub reasoning: Option<bool>,
    /// The longest answer, in tokens, where a request does not say.
    pub max_output_tokens: Option<NonZeroU64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "id")]
    id: String,
    label: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    context_tokens: Option<NonZeroU64>,
    max_output_tokens: Option<NonZeroU64>,
    reasoning: Option<bool>,
    #[serde(default)]
    tools: Tools,
}

/// What the model can do with tools. Default nothing.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Tools {
    function_calling: bool,
    mcp: bool,
    enabled_tools: Vec<String>,
    native_mcp: Vec<String>,
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    if id.trim().is_empty() {
        let found = Unexpected::Str(&id);
        return Err(D::Error::invalid_value(found, &"the name of a model"));
    }
    Ok(id)
}

impl From<Entry> for ModelSection {
    fn from(entry: Entry) -> Self {
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
