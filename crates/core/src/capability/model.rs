use serde_json::Value;

use super::reader::ConfigReader;
use super::{DropReason, ModelConfigError};
use crate::tool::ToolOrigin;

/// The configuration of one model. Unknown keys, of which HAWKI's lists have many, are ignored.
///
/// Use [`list_from_json`](Self::list_from_json) or a similar method for a list, and
/// [`from_json`](Self::from_json) or a similar method for a single model.
///
/// ```
/// use pillion_core::capability::ModelConfig;
/// let models = ModelConfig::list_from_toml(r#"
///     [[models]]
///     id = "gpt-4-turbo"
///     provider = "openai"
///     tools = { function_calling = true, mcp = true, enabled_tools = ["dmcp_roll_dice"] }
/// "#)?;
/// assert!(models[0].tools.mcp);
/// # Ok::<(), pillion_core::capability::ModelConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelConfig {
    /// The provider's ID of the model. Never empty.
    pub id: String,
    /// The display name of the model.
    pub label: Option<String>,
    /// The provider of the model, such as `openai`.
    pub provider: Option<String>,
    /// The model's tool capabilities; a model without the key `tools` gets no tools.
    pub tools: ToolCapabilities,
}

/// The tool capabilities of a model: the key `tools` of its configuration.
///
/// A flag is a boolean, `0`, `1`, or one of the strings `true`, `false` (case-insensitive), `1`,
/// `0` and `""`; an absent or `null` flag is false.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCapabilities {
    /// Whether the model can call functions.
    pub function_calling: bool,
    /// Whether the model gets tools of MCP servers.
    pub mcp: bool,
    /// The names of the tools that the model gets; empty for all tools.
    pub enabled_tools: Vec<String>,
}

impl ToolCapabilities {
    /// Checks whether a model with these capabilities gets the tool with this name and origin.
    /// Applies the rules of [`offer`](super::offer), but does not need the tool's definition.
    ///
    /// ```
    /// use pillion_core::capability::{DropReason, ToolCapabilities};
    /// use pillion_core::tool::ToolOrigin;
    /// let none = ToolCapabilities::default();
    /// assert_eq!(none.admit("calculator", &ToolOrigin::Native), Err(DropReason::CannotCallFunctions));
    /// ```
    ///
    /// # Errors
    /// The first rule that the tool violates.
    pub fn admit(&self, name: &str, origin: &ToolOrigin) -> Result<(), DropReason> {
        if !self.function_calling {
            return Err(DropReason::CannotCallFunctions);
        }
        if origin.is_mcp() && !self.mcp {
            return Err(DropReason::NoMcpFlag);
        }
        if !self.enabled_tools.is_empty() && !self.enabled_tools.iter().any(|tool| tool == name) {
            return Err(DropReason::NotEnabled);
        }
        match origin {
            ToolOrigin::Mcp { server_url, .. } if server_url.trim().is_empty() => {
                Err(DropReason::ServerWithoutUrl)
            }
            _ => Ok(()),
        }
    }
}

impl ModelConfig {
    /// Parses one model from JSON.
    ///
    /// # Errors
    /// [`ModelConfigError`] for invalid JSON, a value of the wrong type, or a missing `id`.
    pub fn from_json(text: &str) -> Result<Self, ModelConfigError> {
        Self::from_value(&parse_json(text)?)
    }

    /// Parses one model from TOML, with its keys at the top level.
    ///
    /// # Errors
    /// [`ModelConfigError`] for invalid TOML, a value of the wrong type, or a missing `id`.
    pub fn from_toml(text: &str) -> Result<Self, ModelConfigError> {
        Self::from_value(&parse_toml(text)?)
    }

    /// Parses one model from a JSON value, such as a converted PHP array: `[]` counts as an empty
    /// map, and a map with numeric keys as a list.
    ///
    /// # Errors
    /// [`ModelConfigError`] for a value of the wrong type or a missing `id`.
    pub fn from_value(value: &Value) -> Result<Self, ModelConfigError> {
        Self::read(ConfigReader::root(value))
    }

    /// Parses a list of models from JSON: an array, or an object with an array `models`.
    ///
    /// # Errors
    /// [`ModelConfigError`] for invalid JSON, a value of the wrong type, or a model without `id`.
    pub fn list_from_json(text: &str) -> Result<Vec<Self>, ModelConfigError> {
        Self::list_from_value(&parse_json(text)?)
    }

    /// Parses a list of models from TOML: the tables `[[models]]`.
    ///
    /// # Errors
    /// [`ModelConfigError`] for invalid TOML, a value of the wrong type, or a model without `id`.
    pub fn list_from_toml(text: &str) -> Result<Vec<Self>, ModelConfigError> {
        Self::list_from_value(&parse_toml(text)?)
    }

    /// Parses a list of models from a JSON value: a list, or a map with a list `models`.
    ///
    /// # Errors
    /// [`ModelConfigError`] for a value of the wrong type or a model without `id`.
    pub fn list_from_value(value: &Value) -> Result<Vec<Self>, ModelConfigError> {
        let root = ConfigReader::root(value);
        let entries = root.get("models").unwrap_or(root);
        entries.items()?.into_iter().map(Self::read).collect()
    }

    fn read(reader: ConfigReader<'_>) -> Result<Self, ModelConfigError> {
        let entry = reader.into_map()?;
        let read_text = |key: &str| {
            entry
                .get(key)
                .map(|value| value.text().map(str::to_owned))
                .transpose()
        };
        let id = read_text("id")?
            .filter(|id| !id.trim().is_empty())
            .ok_or_else(|| ModelConfigError::Missing {
                path: entry.key_path("id"),
            })?;
        Ok(Self {
            id,
            label: read_text("label")?,
            provider: read_text("provider")?,
            tools: match entry.get("tools") {
                Some(tools) => ToolCapabilities::read(tools)?,
                None => ToolCapabilities::default(),
            },
        })
    }
}

impl ToolCapabilities {
    fn read(reader: ConfigReader<'_>) -> Result<Self, ModelConfigError> {
        let entry = reader.into_map()?;
        let read_flag = |key: &str| entry.get(key).map_or(Ok(false), |value| value.flag());
        Ok(Self {
            function_calling: read_flag("function_calling")?,
            mcp: read_flag("mcp")?,
            enabled_tools: match entry.get("enabled_tools") {
                Some(names) => names
                    .items()?
                    .iter()
                    .map(|name| name.text().map(str::to_owned))
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
        })
    }
}

fn parse_json(text: &str) -> Result<Value, ModelConfigError> {
    serde_json::from_str(text).map_err(|error| ModelConfigError::Json {
        reason: error.to_string(),
    })
}

fn parse_toml(text: &str) -> Result<Value, ModelConfigError> {
    toml::from_str(text).map_err(|error| ModelConfigError::Toml {
        reason: error.to_string().trim_end().to_owned(),
    })
}
