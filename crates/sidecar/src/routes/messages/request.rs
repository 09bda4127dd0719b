use std::sync::Arc;

use pillion_chat::{ProviderConversation, ToolChoice, TurnOptions};
use pillion_core::tool::ToolDefinition;
use pillion_providers::Provider;
use pillion_wire::JsonObject;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::conversation;
use crate::routes::compatible::{
    CompatibleRequest, check_unforwarded, forwarded_parameters, read_client_tools, tool_definition,
};
use pillion_gateway::models::Model;
use pillion_management::chat::{ChatInput, ChatRejection};
use pillion_management::error::{RequestError, Result};

/// Fields for structured output, which only Anthropic models support.
const STRUCTURED_OUTPUT_FIELDS: [&str; 2] = ["output_config", "output_format"];

/// The request body of Anthropic's Messages API.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub(crate) struct MessagesRequest {
    /// The ID of the model in Pillion; the default model if absent.
    pub(super) model: Option<String>,
    /// The conversation so far.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<JsonObject>,
    /// The system prompt: a string, or text blocks.
    #[schema(value_type = Option<String>)]
    system: Option<Value>,
    /// Maximum length of the response, in tokens.
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    max_tokens: Option<u64>,
    /// Whether the response is a stream of server-sent events.
    stream: Option<bool>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    /// Stop sequences, at which the model ends its response.
    stop_sequences: Option<Vec<String>>,
    /// Tools of the client. If set, the model gets only these tools, and their calls are returned
    /// to the client.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// The tool choice of the request. `{"type": "none"}` disables the tools;
    /// `"disable_parallel_tool_use": true` limits the model to one tool call per response.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// Metadata of the request. `user_id` names the user on whose behalf tools run.
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonObject>,
    /// All other fields of the request. Anthropic models get those fields that Pillion knows or the
    /// configuration allows.
    #[serde(flatten)]
    #[schema(ignore)]
    other_fields: Map<String, Value>,
}

impl MessagesRequest {
    /// Rejects requests that no model supports.
    pub(super) fn check(&self) -> Result<()> {
        if self.messages.is_empty() {
            return Err(RequestError::invalid_parameter(
                "messages",
                "a non-empty array",
            ));
        }
        Ok(())
    }

    /// Converts the request for a model. A provider that speaks Anthropic's API gets the
    /// conversation unchanged.
    pub(super) fn into_compatible(self, model: &Model) -> Result<CompatibleRequest> {
        let is_anthropic = model.api == Some(Provider::Anthropic);
        let client_tools = self.parse_client_tools()?;
        let tool_choice = self.parse_tool_choice()?;
        let options = self.build_options(model, client_tools.as_ref().and(tool_choice.clone()))?;
        let messages: Vec<_> = self.messages.into_iter().map(Value::Object).collect();
        let input = if is_anthropic {
            let system = self.system.filter(|system| !system.is_null());
            ChatInput::ProviderFormat(ProviderConversation { system, messages })
        } else {
            let messages = conversation::to_openai(self.system.as_ref(), &messages);
            ChatInput::Messages(messages.map_err(ChatRejection::Model)?)
        };
        let metadata = self.metadata.as_ref();
        let user = metadata.and_then(|metadata| metadata.get("user_id")?.as_str());
        Ok(CompatibleRequest {
            model: self.model,
            user: user.map(str::to_owned),
            input,
            may_use_tools: tool_choice != Some(ToolChoice::None),
            client_tools,
            options,
            stream: self.stream == Some(true),
        })
    }

    fn build_options(&self, model: &Model, tool_choice: Option<ToolChoice>) -> Result<TurnOptions> {
        let is_anthropic = model.api == Some(Provider::Anthropic);
        let mut extra = Map::new();
        if is_anthropic {
            extra = forwarded_parameters(&self.other_fields, model, Provider::Anthropic)?;
            let metadata = self.metadata.clone().map(Value::Object);
            extra.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            if tool_choice.is_some() {
                // The tool choice is forwarded unchanged, because it may have fields that are not
                // parsed here.
                let choice = self.tool_choice.clone();
                extra.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
            }
            if self.tools.is_some() {
                // Thinking is disabled if the client defines tools. The client would have to send
                // thinking blocks back with the tool calls, but does not get these blocks.
                extra.shift_remove("thinking");
            }
        }
        if !is_anthropic {
            check_unforwarded(&self.other_fields)?;
        }
        for format in STRUCTURED_OUTPUT_FIELDS {
            if !is_anthropic
                && self
                    .other_fields
                    .get(format)
                    .is_some_and(|value| !value.is_null())
            {
                let expected = format!("omitted: the model's provider does not support '{format}'");
                return Err(RequestError::invalid_parameter(format, expected));
            }
        }
        Ok(TurnOptions {
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_tokens,
            stop: self.stop_sequences.clone().unwrap_or_default(),
            tool_choice,
            one_call_at_a_time: self.is_limited_to_one_call()?,
            extra,
        })
    }

    /// Returns whether the model is limited to one tool call per response.
    fn is_limited_to_one_call(&self) -> Result<bool> {
        let choice = self.tool_choice.as_ref();
        match choice.and_then(|choice| choice.get("disable_parallel_tool_use")) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(is_disabled)) => Ok(*is_disabled),
            Some(_) => {
                let expected = "an object whose disable_parallel_tool_use is true or false";
                Err(RequestError::invalid_parameter("tool_choice", expected))
            }
        }
    }

    fn parse_tool_choice(&self) -> Result<Option<ToolChoice>> {
        let Some(choice) = self.tool_choice.as_ref().filter(|choice| !choice.is_null()) else {
            return Ok(None);
        };
        let name = choice["name"].as_str();
        Ok(Some(match (choice["type"].as_str(), name) {
            (Some("auto"), _) => ToolChoice::Auto,
            (Some("any"), _) => ToolChoice::Required,
            (Some("none"), _) => ToolChoice::None,
            (Some("tool"), Some(name)) => ToolChoice::Tool(name.to_owned()),
            _ => {
                let expected = "an object of type auto, any, none, or tool with a name";
                return Err(RequestError::invalid_parameter("tool_choice", expected));
            }
        }))
    }

    /// Returns the client's tools, if the request has any.
    fn parse_client_tools(&self) -> Result<Option<Vec<Arc<ToolDefinition>>>> {
        let expected = "an array of tools that the client runs";
        read_client_tools(self.tools.as_ref(), expected, |tool| {
            if !matches!(tool["type"].as_str(), None | Some("custom")) {
                return Err("is a tool that Anthropic runs".to_owned());
            }
            tool_definition(tool, "input_schema", json!({"type": "object"}))
        })
    }
}
