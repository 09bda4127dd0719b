use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::{CallerOnlyTools, Executor, ExecutorConfig};
use pillion_core::registry::{RegisteredTool, ToolRegistry};
use pillion_core::tool::{
    CallContext, ErrorCode, FnTool, ToolCall, ToolDefinition, ToolFailure, ToolOutput, ToolResult,
};
use pillion_providers::{NativeApproval, NativeMcpServer, Provider};
use pillion_testkit::{LlmFault, LlmResponse};
use serde_json::{Value, json};

use super::bench::{Bench, echo, reloaded};
use crate::{
    ChatError, ChatEvent, ChatLimits, ChatListener, ChatState, Delta, EndedCall, ModelErrorKind,
    NativeServer, ToolRunner,
};

/// Runs calls with the bench's executor, and permits the native calls that `permits` runs.
struct Permitting {
    runs: Executor,
    permits: Executor,
}

#[async_trait::async_trait]
impl ToolRunner for Permitting {
    fn canonical_name(&self, name: &str) -> Option<String> {
        ToolRunner::canonical_name(&self.runs, name)
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        self.runs.max_concurrent_calls()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.runs.run(call, context).await
    }

    async fn permit(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.permits.execute_one(call, context).await
    }
}

/// Returns an executor with the tools `dmcp_roll`, which needs no approval, and `dmcp_wipe`, which
/// does.
fn executor() -> Executor {
    let tools = [("dmcp_roll", false), ("dmcp_wipe", true)].map(|(name, asks)| {
        let definition = ToolDefinition::builder(name, "A tool").requires_confirmation(asks);
        let tool = FnTool::new(definition.build().unwrap(), |_, _| async {
            Ok(ToolOutput::text("may run"))
        });
        let tool = Arc::new(RegisteredTool::new(Arc::new(tool)).unwrap());
        (tool.name().clone(), tool)
    });
    let registry = Arc::new(ToolRegistry::new());
    let executor = Executor::new(registry, ExecutorConfig::default());
    executor.with_overrides(Arc::new(CallerOnlyTools::from_iter(tools)))
}

fn server(require_approval: NativeApproval) -> NativeServer {
    let names = ["roll", "wipe"];
    NativeServer {
        server: NativeMcpServer {
            require_approval,
            ..NativeMcpServer::new("dmcp", "https://dmcp.example/mcp")
        },
        tools: names
            .map(|name| (name.to_owned(), format!("dmcp_{name}")))
            .to_vec(),
    }
}

/// Returns a chat at a provider that calls the server natively.
async fn bench(
    provider: Provider,
    require_approval: NativeApproval,
    responses: impl IntoIterator<Item = LlmResponse>,
) -> Bench {
    let mut bench = Bench::at(provider, responses).await;
    let runner = Permitting {
        runs: bench.executor.clone(),
        permits: executor(),
    };
    bench.chat.runner = Arc::new(runner);
    let servers = vec![server(require_approval)];
    bench.chat = bench.chat.with_native_servers(servers);
    bench
}

fn approval_request(id: &str, name: &str) -> Value {
    json!({"type": "mcp_approval_request", "id": id, "server_label": "dmcp", "name": name,
           "arguments": "{}"})
}

fn called(name: &str, output: &str) -> Value {
    json!({"type": "mcp_call", "id": "mcp_1", "server_label": "dmcp", "name": name,
           "arguments": "{}", "output": output, "error": null, "approval_request_id": "mcpr_1"})
}

/// Returns a native call of Anthropic and its result.
fn anthropic_call() -> [Value; 2] {
    let call = json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "roll",
        "server_name": "dmcp", "input": {}});
    let result = json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1",
        "is_error": false, "content": [{"type": "text", "text": "4"}]});
    [call, result]
}

/// Returns the events about tools, with the results.
fn tool_events(bench: &Bench) -> Vec<String> {
    let ends = bench.events.iter().filter_map(|event| match event {
        ChatEvent::ToolStarted(call) => Some(format!("{} begins", call.name)),
        ChatEvent::ToolFinished(EndedCall { result, .. }) => {
            Some(format!("{}: {}", result.tool_name, result.content()))
        }
        ChatEvent::ToolWaiting(waiting) => Some(format!("{} waits", waiting.call.name)),
        _ => None,
    });
    ends.collect()
}

fn approvals(body: &Value) -> Vec<&Value> {
    let items = body["input"].as_array().unwrap().iter();
    items
        .filter(|item| item["type"] == "mcp_approval_response")
        .collect()
}

#[tokio::test]
async fn h1_native_servers_are_sent_and_their_calls_are_reported_and_sent_back() {
    for stream in [false, true] {
        let responses = [
            echo("a").with_item(called("roll", "4")),
            LlmResponse::text("You rolled a 4."),
        ];
        let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Never, responses).await;
        bench.chat.is_streamed = stream;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "You rolled a 4.");
        let bodies = bench.llm.bodies();
        for body in &bodies {
            let tools = body["tools"].as_array().unwrap();
            let native = json!({"type": "mcp", "server_label": "dmcp",
                "server_url": "https://dmcp.example/mcp", "require_approval": "never"});
            assert!(tools.contains(&native), "{tools:?}");
            assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{tools:?}");
        }
        let input = bodies[1]["input"].as_array().unwrap();
        assert!(input.contains(&called("roll", "4")), "{input:?}");
        let expected = ["dmcp_roll begins", "dmcp_roll: 4", "echo begins", "echo: a"];
        assert_eq!(tool_events(&bench), expected);
        assert_eq!(state.tool_calls(), 2);
    }
}

#[tokio::test]
async fn h1_anthropic_calls_servers_with_its_beta() {
    let [call, result] = anthropic_call();
    let responses = [
        LlmResponse::default()
            .with_item(call)
            .with_item(result)
            .and_call("echo", "{\"text\": \"a\"}"),
        LlmResponse::text("You rolled a 4."),
    ];
    let mut bench = bench(Provider::Anthropic, NativeApproval::Never, responses).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "You rolled a 4.");
    let events = tool_events(&bench);
    assert_eq!(events[..2], ["dmcp_roll begins", "dmcp_roll: 4"]);
    let requests = bench.llm.requests.all();
    for request in &requests {
        assert_eq!(request.header("anthropic-beta"), "mcp-client-2025-11-20");
        let body = request.json();
        assert_eq!(body["mcp_servers"][0]["url"], "https://dmcp.example/mcp");
    }
    let body = requests[1].json();
    let block = &body["messages"][1]["content"][1];
    assert_eq!(block["type"], "mcp_tool_result");
}

#[tokio::test]
async fn h6_native_calls_are_reported_before_the_text_that_follows() {
    let [call, result] = anthropic_call();
    let words = || LlmResponse::text("You rolled a 4.");
    for (provider, response) in [
        (
            Provider::OpenAiResponses,
            words().with_item(called("roll", "4")),
        ),
        (
            Provider::Anthropic,
            words().with_item(call).with_item(result),
        ),
    ] {
        let mut bench = bench(provider, NativeApproval::Never, [response]).await;
        bench.chat.is_streamed = true;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "You rolled a 4.");
        let is_words = |event: &ChatEvent| matches!(event, ChatEvent::Delta(Delta::Text(_)));
        let words_at = bench.events.iter().position(is_words).unwrap();
        assert_eq!(tool_events(&bench), ["dmcp_roll begins", "dmcp_roll: 4"]);
        bench.events.truncate(words_at);
        assert_eq!(tool_events(&bench), ["dmcp_roll begins", "dmcp_roll: 4"]);
        assert_eq!(state.tool_calls(), 1);
    }
}

#[tokio::test]
async fn g3_a_native_call_without_approval_is_allowed_at_once() {
    let responses = [
        LlmResponse::default().with_item(approval_request("mcpr_1", "roll")),
        LlmResponse::text("You rolled a 4.").with_item(called("roll", "4")),
    ];
    let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Always, responses).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "You rolled a 4.");
    let allowed = json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1",
        "approve": true});
    assert_eq!(approvals(&bench.llm.bodies()[1]), [&allowed]);
    assert_eq!(tool_events(&bench), ["dmcp_roll begins", "dmcp_roll: 4"]);
    assert!(bench.statuses().is_empty());
    assert_eq!((state.rounds(), state.tool_calls()), (1, 1));
}

#[tokio::test]
async fn g3_a_native_call_waits_for_its_approval_and_continues_in_another_process() {
    for approved in [true, false] {
        let asks = LlmResponse::default().with_item(approval_request("mcpr_1", "wipe"));
        let responses = [
            asks.and_call("echo", "{\"text\": \"a\"}"),
            LlmResponse::text("Done.").with_item(called("wipe", "wiped")),
        ];
        let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Always, responses).await;
        let mut state = bench.begin();
        let waiting = bench.waiting(&mut state).await;
        assert_eq!(waiting[0].call.name, "dmcp_wipe");
        assert_eq!(bench.llm.bodies().len(), 1);

        let mut state = reloaded(&state);
        let id = waiting[0].approval_id.clone();
        if approved {
            bench.context.approved.extend(id);
        } else {
            bench.context.denied.extend(id);
        }
        assert_eq!(bench.respond(&mut state).await, "Done.");
        let bodies = bench.llm.bodies();
        let approvals = approvals(&bodies[1]);
        assert_eq!(approvals[0]["approve"], approved);
        assert_eq!(approvals[0].get("reason").is_some(), !approved);
        let results = bodies[1]["input"].to_string();
        assert!(results.contains("function_call_output"), "{results}");
        let mut codes = bench.ended().map(|ended| ended.result.error_code);
        assert_eq!(codes.any(|code| code == Some(ErrorCode::Denied)), !approved);
    }
}

#[tokio::test]
async fn h2_a_native_call_of_a_hidden_tool_is_denied() {
    let other = json!({"type": "mcp_approval_request", "id": "mcpr_2", "server_label": "other",
        "name": "roll", "arguments": "{}"});
    let responses = [
        LlmResponse::default()
            .with_item(approval_request("mcpr_1", "format"))
            .with_item(other),
        LlmResponse::text("No."),
    ];
    let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Always, responses).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "No.");
    let bodies = bench.llm.bodies();
    for response in approvals(&bodies[1]) {
        assert_eq!(response["approve"], false);
        let reason = response["reason"].as_str().unwrap();
        assert!(reason.starts_with("Unknown tool"), "{reason}");
    }
}

#[tokio::test]
async fn h4_the_last_request_contains_the_servers_and_forbids_calls() {
    for (provider, none) in [
        (Provider::OpenAiResponses, json!("none")),
        (Provider::Anthropic, json!({"type": "none"})),
    ] {
        let responses = [echo("a"), LlmResponse::text("Done.")];
        let mut bench = bench(provider, NativeApproval::Never, responses).await;
        bench.chat.limits.max_tool_rounds = 1;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "Done.");
        let bodies = bench.llm.bodies();
        assert!(bodies[0].get("tool_choice").is_none(), "{provider}");
        assert_eq!(bodies[1]["tool_choice"], none, "{provider}");
        let tools = bodies[1]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 1, "{provider}");
    }
}

#[tokio::test]
async fn l1_no_error_contains_the_token_of_a_server() {
    let rejection =
        LlmResponse::rejection("400 Bad Request", "invalid_request_error", "no t0ken here");
    let provider = Provider::OpenAiResponses;
    let mut bench = bench(provider, NativeApproval::Never, [rejection]).await;
    let mut native = server(NativeApproval::Never);
    native.server.token = Some("t0ken".into());
    bench.chat = bench.chat.with_native_servers(vec![native]);
    let mut state = bench.begin();
    let error = bench.run(&mut state).await.unwrap_err().to_string();
    assert!(error.ends_with("no (token) here"), "{error}");
    let body = &bench.llm.bodies()[0];
    let tool = body["tools"].as_array().unwrap().last().unwrap();
    assert_eq!(tool["authorization"], "t0ken");
    assert!(!serde_json::to_string(&state).unwrap().contains("t0ken"));
}

#[tokio::test]
async fn h4_a_provider_that_keeps_requesting_approval_is_stopped() {
    let asks = LlmResponse::text("Well.").with_item(approval_request("mcpr_1", "roll"));
    let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Always, [asks]).await;
    let mut state = bench.begin();
    assert_eq!(bench.respond(&mut state).await, "Well.");
    let bodies = bench.llm.bodies();
    assert_eq!(bodies.len(), 1 + ChatLimits::default().max_tool_rounds);
    // The last permission request is denied: the conversation has no open request.
    let items = state.messages();
    let last = &items[items.len() - 1];
    assert_eq!(last["type"], "mcp_approval_response");
    assert_eq!(last["approve"], false);
}

/// Returns a chat whose provider was permitted to call `wipe`, with the responses that follow.
async fn allowed(then: impl IntoIterator<Item = LlmResponse>) -> (Bench, ChatState) {
    let asks = LlmResponse::default().with_item(approval_request("mcpr_1", "wipe"));
    let responses = std::iter::once(asks).chain(then);
    let mut bench = bench(Provider::OpenAiResponses, NativeApproval::Always, responses).await;
    bench.configure_model(|config| config.max_retries = 2);
    let mut state = bench.begin();
    let waiting = bench.waiting(&mut state).await;
    let id = waiting[0].approval_id.clone();
    bench.context.approved.extend(id);
    (bench, state)
}

#[tokio::test]
async fn g3_an_allowed_call_is_made_once_even_if_its_answer_is_lost() {
    let error =
        json!({"type": "error", "error": {"type": "server_error", "message": "Overloaded"}});
    let done = || LlmResponse::text("Done.").with_item(called("wipe", "wiped"));
    for failure in [
        LlmResponse::error_response("500 Internal Server Error", "{}"),
        LlmResponse::error_response("503 Service Unavailable", "{}"),
        LlmResponse::rejection("400 Bad Request", "context_length_exceeded", "Too long"),
        done().with(LlmFault::Truncated),
        done().with(LlmFault::Broken),
        done().with(LlmFault::Error(error)),
    ] {
        for stream in [false, true] {
            let label = format!("{stream} {failure:?}");
            let (mut bench, mut state) =
                allowed([failure.clone(), LlmResponse::text("Well.")]).await;
            bench.chat.is_streamed = stream;
            let error = bench.run(&mut state).await.unwrap_err();
            assert!(error.may_have_acted(), "{label}");
            let bodies = bench.llm.bodies();
            assert_eq!(bodies.len(), 2, "it is asked once: {label}");
            assert_eq!(approvals(&bodies[1])[0]["approve"], true);

            let mut state = reloaded(&state);
            bench.events.clear();
            assert_eq!(bench.respond(&mut state).await, "Well.", "{label}");
            let bodies = bench.llm.bodies();
            let response = approvals(&bodies[2])[0];
            assert_eq!(response["approve"], false, "{label}");
            assert_eq!(response["approval_request_id"], "mcpr_1");
            let reason = response["reason"].as_str().unwrap();
            assert!(reason.contains("was interrupted"), "{reason}");
            let events = tool_events(&bench);
            assert!(events[0].contains("was interrupted"), "{label}");
        }
    }
}

#[tokio::test]
async fn g3_a_permit_whose_request_failed_still_counts() {
    // A request that certainly had no effect is repeated at once.
    let busy = |after: &str| {
        let busy =
            LlmResponse::rejection("429 Too Many Requests", "rate_limit_exceeded", "Slow down");
        busy.with_header("Retry-After", after)
    };
    let (mut bench, mut state) = allowed([busy("0"), LlmResponse::text("Done.")]).await;
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(approvals(&bench.llm.bodies()[2])[0]["approve"], true);
    // A request that the provider may have processed is repeated only by a later run.
    for failure in [
        busy("3600"),
        LlmResponse::rejection("401 Unauthorized", "invalid_api_key", "No"),
    ] {
        let (mut bench, mut state) = allowed([failure, LlmResponse::text("Done.")]).await;
        let error = bench.run(&mut state).await.unwrap_err();
        assert!(!error.may_have_acted(), "{error}");
        let mut state = reloaded(&state);
        assert_eq!(bench.respond(&mut state).await, "Done.");
        assert_eq!(approvals(&bench.llm.bodies()[2])[0]["approve"], true);
    }
    let (mut bench, mut state) = allowed([LlmResponse::text("Done.")]).await;
    bench.chat.limits.max_total_tokens = Some(1);
    let error = bench.run(&mut state).await.unwrap_err();
    assert!(matches!(error, ChatError::TokenLimit { .. }), "{error}");
    bench.chat = bench.chat.with_limits(ChatLimits::default());
    assert_eq!(bench.respond(&mut reloaded(&state)).await, "Done.");
    assert_eq!(approvals(&bench.llm.bodies()[1])[0]["approve"], true);
}

/// Holds the state of a chat that would be left after a crash.
#[derive(Default)]
struct StateRecorder(Option<ChatState>);

#[async_trait::async_trait]
impl ChatListener for StateRecorder {
    fn on_event(&mut self, _: ChatEvent) {}

    async fn save_state(&mut self, state: &ChatState) -> Result<(), ToolFailure> {
        self.0 = Some(reloaded(state));
        Ok(())
    }
}

#[tokio::test]
async fn g3_a_permit_expires_if_the_request_was_cancelled() {
    let late = LlmResponse::text("Late.").after(Duration::from_secs(3600));
    let (mut bench, mut state) = allowed([late, LlmResponse::text("Well.")]).await;
    let requests = bench.llm.requests.clone();
    let is_requested = async {
        while requests.all().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let mut recorder = StateRecorder::default();
    tokio::select! {
        end = bench.chat.run(&mut state, &bench.context, &mut recorder) => panic!("{end:?}"),
        () = is_requested => {}
    }
    let mut saved = recorder.0.unwrap();
    assert_eq!(saved, state);
    assert_eq!(bench.respond(&mut saved).await, "Well.");
    assert_eq!(approvals(&bench.llm.bodies()[2])[0]["approve"], false);
}

#[tokio::test]
async fn h4_a_request_with_native_calls_is_not_retried() {
    for provider in [Provider::OpenAiResponses, Provider::Anthropic] {
        let failing = LlmResponse::error_response("503 Service Unavailable", "{}");
        let mut bench = bench(provider, NativeApproval::Never, [failing]).await;
        bench.configure_model(|config| config.max_retries = 2);
        let mut state = bench.begin();
        let kind = bench.error_kind(&mut state).await;
        assert_eq!(kind, ModelErrorKind::Unavailable);
        assert_eq!(bench.llm.bodies().len(), 1, "{provider}");
        // Without native servers, the request is repeated at once.
        bench.chat = bench.chat.with_native_servers(Vec::new());
        bench.run(&mut bench.begin()).await.unwrap_err();
        assert_eq!(bench.llm.bodies().len(), 1 + 3, "{provider}");
    }
}
