use std::sync::Arc;

use pillion_chat::{ToolChoice, TurnOptions};
use pillion_core::tool::ToolDefinition;
use pillion_wire::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::chat::Said;
use crate::routes::body::is_nothing;
use crate::routes::door::Wanted;
use crate::routes::error::RequestError;

/// What is refused of the members that go on to providers: other models than the one that is asked,
/// tools that the provider runs by itself, past approvals and the call log, and what OpenAI had before
/// `tools`. Each with what to do instead.
const REFUSED: [(&str, &str); 10] = [
    ("models", "absent: `model` names the one that answers"),
    ("route", "absent: `model` names the one that answers"),
    ("fallbacks", "absent: `model` names the one that answers"),
    ("plugins", "absent: they would run at the provider"),
    (
        "web_search_options",
        "absent: the search would run at the provider",
    ),
    (
        "search_parameters",
        "absent: the search would run at the provider",
    ),
    (
        "enable_search",
        "absent: the search would run at the provider",
    ),
    (
        "mcp_servers",
        "absent: they would be called by the provider",
    ),
    ("functions", "absent: `tools` has them"),
    ("function_call", "absent: `tool_choice` says it"),
];

/// The body of OpenAI's chat completions.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub(crate) struct Completion {
    /// The model's name here; the default one where it is absent.
    pub(super) model: Option<String>,
    /// The conversation so far.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<JsonObject>,
    /// Whether the answer is a stream of server-sent events.
    stream: Option<bool>,
    #[schema(value_type = Option<Object>)]
    stream_options: Option<Value>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    max_tokens: Option<u64>,
    #[schema(minimum = 1, maximum = 9007199254740991u64)]
    max_completion_tokens: Option<u64>,
    /// A text, or several.
    #[schema(value_type = Option<Vec<String>>)]
    stop: Option<Stop>,
    /// Tools of the client's own: the model has those alone, and its calls come back.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// `none` leaves the tools out.
    #[schema(value_type = Option<String>)]
    tool_choice: Option<Value>,
    /// `false` has the model make one call at most in an answer.
    parallel_tool_calls: Option<bool>,
    /// One answer is all there is.
    #[schema(minimum = 1, maximum = 1)]
    n: Option<u64>,
    /// On whose behalf tools run.
    user: Option<String>,
    /// What else OpenAI's API takes goes to providers that imitate it.
    #[serde(flatten)]
    #[schema(ignore)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

impl Completion {
    /// Refuses what no model is asked.
    pub(super) fn check(&self) -> Result<(), RequestError> {
        if self.messages.is_empty() {
            return Err(RequestError::parameter("messages", "there: one at least"));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(RequestError::parameter("n", "1"));
        }
        for (name, wanted) in REFUSED {
            let asks = |value: &Value| !is_nothing(value) && *value != Value::Bool(false);
            if self.rest.get(name).is_some_and(asks) {
                return Err(RequestError::parameter(name, wanted));
            }
        }
        Ok(())
    }

    /// What the door is asked for. `is_openai`: the model's provider speaks like OpenAI.
    pub(super) fn wanted(self, is_openai: bool) -> Result<Wanted, RequestError> {
        let own_tools = self.own_tools()?;
        Ok(Wanted {
            options: self.options(is_openai, own_tools.is_some())?,
            may_use_tools: self.tool_choice.as_ref().and_then(Value::as_str) != Some("none"),
            own_tools,
            model: self.model,
            user: self.user,
            said: Said::Messages(self.messages.into_iter().map(Value::Object).collect()),
            stream: self.stream == Some(true),
        })
    }

    /// Whether the last event of a stream says what the answer cost.
    pub(super) fn wants_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.and_then(|options| options.get("include_usage")?.as_bool()) == Some(true)
    }

    /// How the model is to answer. What OpenAI has beside the usual goes to a provider of its
    /// kind; another does not know it.
    fn options(&self, is_openai: bool, has_own_tools: bool) -> Result<TurnOptions, RequestError> {
        let mut extra = Map::new();
        let mut tool_choice = None;
        if let (true, Some(choice)) = (has_own_tools, &self.tool_choice) {
            tool_choice = read_choice(choice);
            if tool_choice.is_none() && is_openai {
                // Whatever else there is, the provider knows.
                extra.insert("tool_choice".to_owned(), choice.clone());
            } else if tool_choice.is_none() && !choice.is_null() {
                let wanted =
                    "auto, none, required, or one function: this model's provider has no other";
                return Err(RequestError::parameter("tool_choice", wanted));
            }
        }
        if is_openai {
            // Those that are there all the same say nothing.
            let is_refused = |name: &str| REFUSED.iter().any(|(refused, _)| *refused == name);
            let rest = self.rest.iter().filter(|(name, _)| !is_refused(name));
            extra.extend(rest.map(|(name, value)| (name.clone(), value.clone())));
            let said = self.parallel_tool_calls.map(Value::Bool);
            extra.extend(said.map(|said| ("parallel_tool_calls".to_owned(), said)));
        } else if let Some(format) = self.rest.get("response_format")
            && !format.is_null()
            && *format != json!({"type": "text"})
        {
            let wanted = "absent: this model's provider has none";
            return Err(RequestError::parameter("response_format", wanted));
        }
        Ok(TurnOptions {
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens),
            stop: match &self.stop {
                None => Vec::new(),
                Some(Stop::One(text)) => vec![text.clone()],
                Some(Stop::Several(texts)) => texts.clone(),
            },
            tool_choice,
            one_call_at_a_time: self.parallel_tool_calls == Some(false),
            extra,
        })
    }

    /// The tools that the request brings along, if it brings some.
    fn own_tools(&self) -> Result<Option<Vec<Arc<ToolDefinition>>>, RequestError> {
        let Some(tools) = self.tools.as_ref().filter(|tools| !tools.is_empty()) else {
            return Ok(None);
        };
        let tools = tools.iter().enumerate().map(|(place, tool)| {
            let wrong = |why: &str| {
                RequestError::parameter("tools", format!("functions; that of index {place} {why}"))
            };
            let function = tool.get("function").ok_or_else(|| wrong("is none"))?;
            let text = |key| function.get(key).and_then(Value::as_str);
            let name = text("name").ok_or_else(|| wrong("has no name"))?;
            let description = text("description").filter(|words| !words.trim().is_empty());
            let description = description.unwrap_or(name);
            let nothing = || json!({"type": "object", "properties": {}});
            let schema = function
                .get("parameters")
                .filter(|schema| !schema.is_null())
                .cloned()
                .unwrap_or_else(nothing);
            let definition = ToolDefinition::builder(name, description)
                .schema(schema)
                .strict(function.get("strict") == Some(&Value::Bool(true)))
                .build();
            let definition = definition.map_err(|error| wrong(&format!("is refused: {error}")))?;
            Ok(Arc::new(definition))
        });
        tools.collect::<Result<_, _>>().map(Some)
    }
}

/// What every provider knows of OpenAI's choices.
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
