//! Tests every case under `tests/golden/PROVIDER` (see the `README.md` there): the request that is
//! written, and the response that is read, streamed and not streamed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pillion_core::tool::{ErrorCode, ToolDefinition, ToolResult};
use serde_json::{Map, Value, json};

use crate::anthropic::Anthropic;
use crate::tests::fixtures::{events, read_stream};
use crate::{
    Delta, Endpoint, Finish, ModelTurn, Provider, ProviderApi, ProviderConversation, TurnOptions,
    TurnResponse, Usage, assistant_messages, assistant_text, format_permits, format_results,
    parse_tool_calls,
};

/// The cases that every provider must have.
const CASES: [&str; 6] = [
    "failed_result",
    "images",
    "one_call",
    "parallel_calls",
    "text",
    "thinking",
];

fn root() -> PathBuf {
    pillion_testkit::checkout().join("crates/providers/tests/golden")
}

/// Returns the directories of the provider's cases.
pub(super) fn cases(provider: Provider) -> Vec<PathBuf> {
    let mut cases: Vec<_> = fs::read_dir(root().join(provider.as_str()))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    for name in CASES {
        assert!(
            cases.iter().any(|case| case.ends_with(name)),
            "{provider} has no case {name}"
        );
    }
    cases
}

pub(super) fn json_of(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Compares the value with the file, byte by byte; with `PILLION_WRITE_GOLDEN=1`, writes the file.
fn assert_file(path: &Path, value: &Value) {
    let text = format!("{}\n", serde_json::to_string_pretty(value).unwrap());
    if std::env::var_os("PILLION_WRITE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    assert!(text == expected, "{path:?}: this is written:\n{text}");
}

/// A golden case and the parts of its turn.
struct Case {
    path: PathBuf,
    content: Value,
    tools: Vec<Arc<ToolDefinition>>,
    options: TurnOptions,
}

impl Case {
    fn load(path: PathBuf) -> Self {
        let content = json_of(&path.join("case.json"));
        let all = json_of(&root().join("tools.json"));
        let names = content["tools"].as_array().cloned().unwrap_or_default();
        let definitions = all.as_array().unwrap().iter();
        let tools = definitions
            .filter(|tool| names.contains(&tool["name"]))
            .map(|tool| {
                let text = |key: &str| tool[key].as_str().unwrap();
                let builder = ToolDefinition::builder(text("name"), text("description"));
                Arc::new(builder.schema(tool["schema"].clone()).build().unwrap())
            })
            .collect();
        let options = &content["options"];
        let options = TurnOptions {
            tool_choice: None,
            one_call_at_a_time: options["one_call_at_a_time"] == true,
            temperature: options["temperature"].as_f64(),
            top_p: options["top_p"].as_f64(),
            max_output_tokens: options["max_output_tokens"].as_u64(),
            stop: serde_json::from_value(options["stop"].clone()).unwrap_or_default(),
            extra: options["extra"].as_object().cloned().unwrap_or_default(),
        };
        Self {
            path,
            content,
            tools,
            options,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn conversation(&self, api: &dyn ProviderApi) -> ProviderConversation {
        let messages = self.content["messages"].as_array().unwrap();
        api.conversation(messages).unwrap()
    }

    /// Returns the path, headers and body of the request.
    fn request(
        &self,
        api: &dyn ProviderApi,
        conversation: &ProviderConversation,
        stream: bool,
    ) -> Value {
        let model = self.content["model"].as_str().unwrap();
        let turn = ModelTurn {
            conversation,
            tools: &self.tools,
            options: &self.options,
            stream,
            deadline: Instant::now(),
        };
        let endpoint = Endpoint {
            model,
            base_url: &api.base_url().parse().unwrap(),
            reasoning: None,
        };
        let mut headers = api.headers(Some("KEY")).unwrap();
        headers.extend(api.turn_headers(&turn));
        let headers: Map<_, _> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())))
            .collect();
        json!({
            "path": api.path(model, stream),
            "headers": headers,
            "body": api.body(&endpoint, &turn),
        })
    }

    /// Returns the tool results under `key` of the case.
    fn results(&self, key: &str) -> Vec<ToolResult> {
        let results = self.content[key].as_array().cloned().unwrap_or_default();
        results
            .iter()
            .map(|result| {
                let text = |key: &str| result[key].as_str().unwrap();
                match result.get("error") {
                    Some(_) => ToolResult::failure(
                        text("id"),
                        text("name"),
                        ErrorCode::Timeout,
                        text("error"),
                    ),
                    None => ToolResult::success(text("id"), text("name"), result["result"].clone()),
                }
            })
            .collect()
    }

    fn assert_turn(&self, provider: Provider, response: &TurnResponse) {
        let expected = &self.content["answer"];
        let Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
        } = response.usage;
        let parsed = parse_tool_calls(provider, &response.body).unwrap();
        let calls: Vec<_> = parsed
            .iter()
            .map(|call| json!([call.id, call.name, call.arguments]))
            .collect();
        let read = json!({
            "finish": word(&response.finish),
            "usage": [input_tokens, output_tokens, cached_tokens],
            "text": assistant_text(provider, &response.body).unwrap(),
            "calls": calls,
        });
        assert_eq!(&read, expected, "{:?}", self.path);
    }
}

/// Removes null members.
fn compact(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            for (_, member) in members {
                *member = compact(member.take());
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = compact(item.take())),
        _ => {}
    }
    value
}

fn word(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Filtered => "filtered",
        Finish::Other(word) => word,
    }
}

fn delta_json(delta: &Delta) -> Value {
    match delta {
        Delta::Text(text) => json!({"text": text}),
        Delta::Thought(text) => json!({"thought": text}),
        Delta::Native(body) => json!({ "native": body }),
        Delta::ToolCall {
            index,
            id,
            name,
            arguments,
        } => json!({"call": [index, id, name, arguments]}),
    }
}

fn for_each_case(mut check: impl FnMut(&dyn ProviderApi, &Case)) {
    for provider in Provider::ALL {
        for path in cases(provider) {
            check(provider.api(), &Case::load(path));
        }
    }
}

#[test]
fn h1_requests_match_the_golden_files() {
    for_each_case(|api, case| {
        let conversation = case.conversation(api);
        let plain = case.request(api, &conversation, false);
        assert_file(&case.file("request.json"), &plain);

        let mut streamed = case.request(api, &conversation, true);
        if api.provider() == Provider::OpenAiChat {
            let body = streamed["body"].as_object_mut().unwrap();
            let options = body.shift_remove("stream_options");
            assert_eq!(options, Some(json!({"include_usage": true})));
        }
        if api.provider() == Provider::Google {
            assert!(
                streamed["path"]
                    .as_str()
                    .unwrap()
                    .ends_with(":streamGenerateContent?alt=sse")
            );
            streamed["path"] = plain["path"].clone();
        } else {
            assert_eq!(streamed["body"]["stream"], true);
            streamed["body"]["stream"] = plain["body"]["stream"].clone();
        }
        assert_eq!(streamed, plain, "{:?}", case.path);
    });
}

#[test]
fn h5_responses_are_read_and_sent_back_with_their_results() {
    for_each_case(|api, case| {
        let provider = api.provider();
        let body = json_of(&case.file("response.json"));
        let response = api.parse_response(body.clone()).unwrap();
        assert_eq!(response.body, body, "{:?}", case.path);
        case.assert_turn(provider, &response);

        let (results, permits) = (case.results("results"), case.results("permits"));
        if !(results.is_empty() && permits.is_empty()) {
            let mut conversation = case.conversation(api);
            conversation
                .messages
                .extend(assistant_messages(provider, &response.body).unwrap());
            conversation
                .messages
                .extend(format_results(provider, &results));
            conversation
                .messages
                .extend(format_permits(provider, &permits));
            let request = case.request(api, &conversation, false);
            assert_file(&case.file("next_request.json"), &request["body"]);
        }
    });
}

#[test]
fn h6_streamed_responses_give_the_same_answer() {
    for_each_case(|api, case| {
        let text = fs::read_to_string(case.file("stream.sse")).unwrap();
        let (response, deltas) = read_stream(api, &events(&text)).unwrap();
        let body = json_of(&case.file("response.json"));
        assert_eq!(
            compact(response.body.clone()),
            compact(body),
            "{:?}",
            case.path
        );
        case.assert_turn(api.provider(), &response);
        let deltas: Vec<_> = deltas.iter().map(delta_json).collect();
        assert_eq!(json!(deltas), case.content["deltas"], "{:?}", case.path);
    });
}

/// Members about tools in the caller's `extra` would be rejected in a request without tools.
#[test]
fn h4_a_request_without_tools_has_no_tool_members() {
    for api in Provider::ALL.map(Provider::api) {
        let case = Case::load(root().join(api.provider().as_str()).join("text"));
        let extra = match api.provider() {
            Provider::Google => json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            Provider::Anthropic => json!({"tool_choice": {"type": "any"}}),
            _ => json!({"tool_choice": "required", "parallel_tool_calls": true}),
        };
        let conversation = case.conversation(api);
        let plain = case.request(api, &conversation, false);
        let mut options = case.options.clone();
        options.extra.extend(extra.as_object().unwrap().clone());
        let case = Case { options, ..case };
        let request = case.request(api, &conversation, false);
        assert_eq!(request, plain, "{}", api.provider());
    }
}

/// A final request without tools names and forbids the tools of the conversation: Anthropic rejects
/// it otherwise.
#[test]
fn h4_the_last_request_to_anthropic_has_tools_and_forbids_calls() {
    let path = root().join("anthropic/parallel_calls");
    let request = json_of(&path.join("next_request.json"));
    let messages = request["messages"].as_array().unwrap();
    let conversation = ProviderConversation {
        system: None,
        messages: messages.clone(),
    };
    let case = Case {
        tools: Vec::new(),
        ..Case::load(path)
    };
    let request = case.request(&Anthropic, &conversation, false);
    assert_eq!(request["body"]["tool_choice"], json!({"type": "none"}));
    assert_eq!(
        request["body"]["tools"],
        json!([
            {"name": "get_weather", "input_schema": {"type": "object"}},
            {"name": "get_time", "input_schema": {"type": "object"}},
        ])
    );
}
