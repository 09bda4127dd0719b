use pillion_core::capability::{ModelConfig, ToolCapabilities};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

/// One entry of `[[models]]` (H2).
///
/// The lists that [`ModelConfig`] reads for applications have keys of theirs beside these, and
/// write flags in several ways; here both would be mistakes, as everywhere in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "id")]
    id: String,
    label: Option<String>,
    provider: Option<String>,
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
}

pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ModelConfig>, D::Error> {
    let entries = Vec::<Entry>::deserialize(deserializer)?;
    Ok(entries.into_iter().map(ModelConfig::from).collect())
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    if id.trim().is_empty() {
        let found = Unexpected::Str(&id);
        return Err(D::Error::invalid_value(found, &"the name of a model"));
    }
    Ok(id)
}

impl From<Entry> for ModelConfig {
    fn from(entry: Entry) -> Self {
        Self {
            id: entry.id,
            label: entry.label,
            provider: entry.provider,
            tools: ToolCapabilities {
                function_calling: entry.tools.function_calling,
                mcp: entry.tools.mcp,
                enabled_tools: entry.tools.enabled_tools,
            },
        }
    }
}
