use std::sync::Arc;

use pillion_chat::{ToolChoice, TurnOptions};
use pillion_core::tool::ToolDefinition;
use pillion_providers::Provider;
use pillion_wire::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::routes::compatible::{
    CompatibleRequest, check_unforwarded, forwarded_parameters, read_client_tools, tool_definition,
};
use pillion_gateway::models::Model;
use pillion_management::chat::ChatInput;
use pillion_management::error::{RequestError, Result};

/// The request body of OpenAI's Chat Completions API.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub(crate) struct Completion {
    /// The ID of the model in Pillion; the default model if absent.
    pub(super) model: Option<String>,
    /// The conversation so far.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<JsonObject>,
    /// Whether the response is a stream of server-sent events.
    stream: Option<bool>,
    #[schema(value_type = Option<Object>)]
    stream_options: Option<Value>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    max_tokens: Option<u64>,
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    max_completion_tokens: Option<u64>,
    /// One or more stop sequences.
    #[schema(value_type = Option<Vec<String>>)]
    stop: Option<StopSequences>,
    /// Tools of the client. If set, the model gets only these tools, and their calls are returned
    /// to the client.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// The tool choice of the request; `none` disables the tools.
    #[schema(value_type = Option<String>)]
    tool_choice: Option<Value>,
    /// Whether the model may make several tool calls per response.
    parallel_tool_calls: Option<bool>,
    /// The number of responses to generate; only 1 is supported.
    #[schema(minimum = 1, maximum = 1)]
    n: Option<u64>,
    /// The user on whose behalf tools run.
    user: Option<String>,
    /// All other fields of the request. Providers that speak OpenAI's API get those fields that
    /// Pillion knows or the configuration allows.
    #[serde(flatten)]
    #[schema(ignore)]
    other_fields: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(untagged)]
enum StopSequences {
    Single(String),
    List(Vec<String>),
}

impl Completion {
    /// Rejects requests that no model supports.
    pub(super) fn check(&self) -> Result<()> {
        if self.messages.is_empty() {
            return Err(RequestError::invalid_parameter(
                "messages",
                "a non-empty array",
            ));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(RequestError::invalid_parameter("n", "1"));
        }
        Ok(())
    }

    /// Converts the request for a model.
    pub(super) fn into_compatible(self, model: &Model) -> Result<CompatibleRequest> {
        let client_tools = self.parse_client_tools()?;
        Ok(CompatibleRequest {
            options: self.build_options(model, client_tools.is_some())?,
            may_use_tools: self.tool_choice.as_ref().and_then(Value::as_str) != Some("none"),
            client_tools,
            model: self.model,
            user: self.user,
            input: ChatInput::Messages(self.messages.into_iter().map(Value::Object).collect()),
            stream: self.stream == Some(true),
        })
    }

    /// Returns whether the last chunk of the stream must contain the token usage.
    pub(super) fn has_usage_chunk(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.and_then(|options| options.get("include_usage")?.as_bool()) == Some(true)
    }

    /// Returns the model options. OpenAI-specific fields are forwarded only to providers with
    /// OpenAI's API.
    fn build_options(&self, model: &Model, has_client_tools: bool) -> Result<TurnOptions> {
        let is_openai = model.api == Some(Provider::OpenAiChat);
        let mut extra = Map::new();
        let mut tool_choice = None;
        if let (true, Some(choice)) = (has_client_tools, &self.tool_choice) {
            tool_choice = read_choice(choice);
            if tool_choice.is_none() && is_openai && selects_client_tools(choice) {
                extra.insert("tool_choice".to_owned(), choice.clone());
            } else if tool_choice.is_none() && !choice.is_null() {
                let expected = "auto, none, required, or one function: the model's provider \
                              supports nothing else";
                return Err(RequestError::invalid_parameter("tool_choice", expected));
            }
        }
        if is_openai {
            extra.extend(forwarded_parameters(
                &self.other_fields,
                model,
                Provider::OpenAiChat,
            )?);
            let parallel_flag = self.parallel_tool_calls.map(Value::Bool);
            extra.extend(parallel_flag.map(|flag| ("parallel_tool_calls".to_owned(), flag)));
        } else {
            check_unforwarded(&self.other_fields)?;
            if let Some(format) = self.other_fields.get("response_format")
                && !format.is_null()
                && *format != json!({"type": "text"})
            {
                let expected = "omitted: the model's provider does not support 'response_format'";
                return Err(RequestError::invalid_parameter("response_format", expected));
            }
        }
        Ok(TurnOptions {
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens),
            stop: match &self.stop {
                None => Vec::new(),
                Some(StopSequences::Single(text)) => vec![text.clone()],
                Some(StopSequences::List(texts)) => texts.clone(),
            },
            tool_choice,
            one_call_at_a_time: self.parallel_tool_calls == Some(false),
            extra,
        })
    }

    /// Returns the client's tools, if the request has any.
    fn parse_client_tools(&self) -> Result<Option<Vec<Arc<ToolDefinition>>>> {
        read_client_tools(self.tools.as_ref(), "an array of functions", |tool| {
            let function = tool.get("function").ok_or("has no function")?;
            let default_schema = json!({"type": "object", "properties": {}});
            tool_definition(function, "parameters", default_schema)
        })
    }
}

/// Returns whether a tool choice selects among the tools of the request: a string such as `auto`,
/// or an object of the type `allowed_tools`, which only some providers support.
fn selects_client_tools(choice: &Value) -> bool {
    choice.is_string() || choice["type"] == "allowed_tools"
}

/// Parses a tool choice that can be translated for every provider: `auto`, `none`, `required` or
/// one function. Returns `None` for any other value.
fn read_choice(choice: &Value) -> Option<ToolChoice> {
    Some(match choice {
        Value::String(word) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => return None,
        },
        choice => ToolChoice::Tool(choice.pointer("/function/name")?.as_str()?.to_owned()),
    })
}
