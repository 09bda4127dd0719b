use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::{Bench, reloaded, results};
use crate::{ChatEvent, ChatState, WaitingCall};

/// Returns a chat that waits for the approval of `wipe`, after `echo` has run.
async fn waiting() -> (Bench, ChatState, Vec<WaitingCall>) {
    let calls =
        LlmResponse::call("wipe", &json!({"text": "disk"})).and_call("echo", "{\"text\": \"a\"}");
    let mut bench = Bench::new([calls, LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    let waiting = bench.waiting(&mut state).await;
    (bench, state, waiting)
}

#[tokio::test]
async fn g3_a_chat_waits_for_an_approval_after_all_other_calls_ran() {
    let (mut bench, state, waiting) = waiting().await;
    assert_eq!((bench.tools.wiped(), bench.tools.echoed()), (0, 1));
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].call.name, "wipe");
    let arguments = &waiting[0].result.metadata["arguments"];
    assert_eq!(*arguments, json!({"text": "disk"}));
    assert!(waiting[0].approval_id.is_some());
    let is_waiting = |event: &ChatEvent| matches!(event, ChatEvent::ToolWaiting(_));
    assert!(bench.events.iter().any(is_waiting));
    assert!(results(state.messages()).is_empty());

    // Without a decision, the chat keeps waiting and sends no request.
    let mut state = reloaded(&state);
    assert_eq!(state.waiting_calls(), waiting);
    bench.waiting(&mut state).await;
    assert_eq!((bench.tools.wiped(), bench.tools.echoed()), (0, 1));
    assert_eq!(bench.llm.bodies().len(), 1);
}

#[tokio::test]
async fn g3_an_approved_call_runs_and_another_process_continues_the_chat() {
    let (mut bench, state, waiting) = waiting().await;
    let mut state = reloaded(&state);
    let id = waiting[0].approval_id.clone();
    bench.context.approved.extend(id);
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!((bench.tools.wiped(), bench.tools.echoed()), (1, 1));
    assert_eq!(results(state.messages()), ["wiped", "a"]);
    assert!(state.waiting_calls().is_empty());
    // A run of an answered chat returns the same response.
    let mut state = reloaded(&state);
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(bench.llm.bodies().len(), 2);
}

#[tokio::test]
async fn g3_an_approval_allows_one_call_and_not_its_repetition() {
    let wipe = || LlmResponse::call("wipe", &json!({"text": "disk"}));
    let twice = wipe().and_call("wipe", "{\"text\": \"disk\"}");
    let mut bench = Bench::new([twice, wipe(), LlmResponse::text("Done.")]).await;
    let mut state = bench.begin();
    for wiped in 0..3 {
        let waiting = bench.waiting(&mut state).await;
        assert_eq!(bench.tools.wiped(), wiped);
        // The two calls of the round need one approval each, and the call of the next round
        // another.
        assert_eq!(waiting.len(), if wiped == 0 { 2 } else { 1 });
        bench.context.approved = waiting[0].approval_id.clone().into_iter().collect();
    }
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(bench.tools.wiped(), 3);
}

#[tokio::test]
async fn g3_the_model_receives_a_denial_and_the_chat_continues() {
    let (mut bench, mut state, waiting) = waiting().await;
    bench.context.denied.extend(waiting[0].approval_id.clone());
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!((bench.tools.wiped(), bench.tools.echoed()), (0, 1));
    let results = results(state.messages());
    assert!(results[0].contains("was denied"), "{results:?}");
    let mut codes = bench.ended().map(|ended| ended.result.error_code);
    assert!(codes.any(|code| code == Some(ErrorCode::Denied)));
}

#[tokio::test]
async fn g3_a_waiting_call_may_get_its_result_from_outside() {
    let (mut bench, mut state, _) = waiting().await;
    let result = |id: &str| ToolResult::success(id, "wipe", json!("seen to"));
    assert!(!state.resolve_waiting(result("call_2")));
    assert!(state.resolve_waiting(result("call_1")));
    assert!(!state.resolve_waiting(result("call_1")));
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!((bench.tools.wiped(), bench.tools.echoed()), (0, 1));
    assert_eq!(results(state.messages()), ["seen to", "a"]);
}

#[tokio::test]
async fn g3_a_resumed_call_names_its_approval() {
    use std::num::NonZeroUsize;
    use std::sync::{Arc, Mutex};

    use pillion_core::tool::{CallContext, ToolCall};

    use crate::ToolRunner;

    /// Records the approval that each call names, and requires approval 7 the first time.
    #[derive(Default)]
    struct Named(Mutex<Vec<Option<String>>>);

    #[async_trait::async_trait]
    impl ToolRunner for Named {
        fn canonical_name(&self, _: &str) -> Option<String> {
            None
        }

        fn max_concurrent_calls(&self) -> NonZeroUsize {
            NonZeroUsize::MIN
        }

        async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
            let named = context.approval.named.clone();
            self.0.lock().unwrap().push(named.clone());
            if named.is_some() {
                return ToolResult::success(call.id, call.name, json!("ran"));
            }
            let mut result =
                ToolResult::failure(call.id, call.name, ErrorCode::ApprovalRequired, "ask");
            result.metadata.insert("approval_id".to_owned(), json!("7"));
            result
        }
    }

    let runner = Arc::new(Named::default());
    let mut bench = Bench::new([LlmResponse::calls(1, "wipe"), LlmResponse::text("Done.")]).await;
    bench.chat.runner = Arc::clone(&runner) as Arc<dyn ToolRunner>;
    let mut state = bench.begin();
    bench.waiting(&mut state).await;
    assert_eq!(bench.respond(&mut state).await, "Done.");
    assert_eq!(*runner.0.lock().unwrap(), [None, Some("7".to_owned())]);
}
