use std::sync::atomic::{AtomicBool, Ordering};

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::tool::{
    CallContext, FnTool, JsonObject, ToolCall, ToolDefinition, ToolFuture, ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;
use crate::events::{EventKinds, Listener};
use crate::test_support::tool;

struct Unoffered(ToolDefinition);

impl Tool for Unoffered {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn is_offered(&self) -> bool {
        false
    }

    fn call(self: Arc<Self>, _: JsonObject, _: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::text("unoffered")) })
    }
}

fn unoffered(name: &str) -> Arc<dyn Tool> {
    Arc::new(Unoffered(tool(name, "unoffered").definition().clone()))
}

/// A registry with the tools of the current configuration.
#[derive(Default)]
struct Bench {
    registry: Arc<ToolRegistry>,
    events: Arc<EventBus>,
    registered: RegisteredTools,
}

impl Bench {
    fn reload(&mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) {
        let tools = tools.into_iter().collect();
        let registered = &self.registered;
        self.registered = registered.replace_tools(tools, &self.registry, Some(&self.events));
    }

    /// Returns the description of the tool with the name `name`.
    fn what(&self, name: &str) -> Option<String> {
        let tool = self.registry.get(name)?;
        Some(tool.definition().description().to_owned())
    }
}

#[test]
fn b1_a_name_moves_between_kinds_of_tools_without_a_gap() {
    const KINDS: [&str; 4] = ["built-in", "composed", "http", "openapi"];
    let mut bench = Bench::default();
    bench.reload([tool("a", KINDS[0])]);
    let is_over = AtomicBool::new(false);
    let registry = Arc::clone(&bench.registry);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(registry.get("a").is_some());
            }
        });
        for _ in 0..20 {
            for from in KINDS {
                for to in KINDS {
                    bench.reload([tool("b", "other"), tool("a", from)]);
                    assert_eq!(bench.what("a").as_deref(), Some(from));
                    bench.reload([tool("a", to)]);
                    assert_eq!(bench.what("a").as_deref(), Some(to));
                    assert_eq!(bench.what("b"), None);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    bench.reload([]);
    assert!(bench.registry.is_empty());
}

#[test]
fn b1_a_name_in_use_stays_with_its_owner_until_the_owner_leaves() {
    let mut bench = Bench::default();
    bench.registry.register(tool("a", "worker")).unwrap();
    for what in ["built-in", "composed"] {
        bench.reload([tool("a", what)]);
        assert_eq!(bench.what("a").as_deref(), Some("worker"));
    }
    assert!(bench.registry.unregister("a"));
    assert_eq!(bench.what("a").as_deref(), Some("composed"));
    bench.reload([]);
    bench.registry.register(tool("a", "worker")).unwrap();
    // A declared tool whose name is taken waits, but not after a reload that no longer declares it.
    bench.reload([tool("a", "http")]);
    bench.reload([]);
    assert_eq!(bench.what("a").as_deref(), Some("worker"));
    assert!(bench.registry.unregister("a"));
    assert_eq!(bench.what("a"), None);
}

#[test]
fn b1_an_unavailable_built_in_tool_yields_its_name_to_any_other() {
    let mut bench = Bench::default();
    bench.reload([unoffered("a")]);
    assert!(bench.registry.is_empty() && bench.registry.contains("a"));
    bench.reload([unoffered("a"), tool("a", "http")]);
    assert_eq!(bench.what("a").as_deref(), Some("http"));
    bench.reload([unoffered("a")]);
    assert_eq!(bench.what("a").as_deref(), Some("unoffered"));
    bench.registry.register(tool("a", "worker")).unwrap();
    bench.reload([unoffered("a")]);
    assert_eq!(bench.what("a").as_deref(), Some("worker"));
    bench.registry.unregister("a");
    assert_eq!(bench.what("a").as_deref(), Some("unoffered"));
}

#[test]
fn b1_the_first_of_two_tools_with_one_name_wins() {
    let mut bench = Bench::default();
    bench.reload([tool("a", "built-in"), tool("a", "composed")]);
    assert_eq!(bench.what("a").as_deref(), Some("built-in"));
}

#[tokio::test]
async fn p_listeners_are_notified_only_of_changed_tools() {
    let mut bench = Bench::default();
    bench.reload([tool("a", "1"), tool("b", "1"), unoffered("c")]);
    let mut listener = bench.events.listen(None, EventKinds::default());
    assert!(listener.next().await.is_some(), "a greeting");
    bench.reload([tool("a", "1"), tool("b", "1"), unoffered("c")]);
    bench.reload([
        unoffered("a"),
        tool("b", "2"),
        tool("c", "1"),
        tool("d", "1"),
    ]);
    let expected = json!([["c", "d"], ["a"], ["b"]]);
    assert_eq!(changes(&mut listener).await, expected);
}

/// Returns the added, removed and changed tools of the next event.
async fn changes(listener: &mut Listener) -> Value {
    let text = String::from_utf8(listener.next().await.unwrap().to_vec()).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: "));
    let event: Value = serde_json::from_str(data.unwrap()).unwrap();
    json!(["added", "removed", "changed"].map(|key| event[key].clone()))
}

#[tokio::test]
async fn p_a_name_that_another_tool_takes_over_has_changed() {
    let mut bench = Bench::default();
    bench.reload([tool("a", "built-in"), tool("b", "built-in")]);
    let mut listener = bench.events.listen(None, EventKinds::default());
    assert!(listener.next().await.is_some(), "a greeting");
    // The built-in tool is removed, and a declared tool takes its name.
    bench.reload([unoffered("a"), tool("a", "composed"), tool("b", "built-in")]);
    assert_eq!(changes(&mut listener).await, json!([[], [], ["a"]]));

    // Changes that involve other tools, such as a worker's, are published as well.
    let registry = Arc::clone(&bench.registry);
    registry.register(tool("c", "worker")).unwrap();
    bench.reload([
        tool("a", "composed"),
        tool("b", "built-in"),
        tool("c", "http"),
    ]);
    registry.unregister("c");
    let gone = ToolChanges {
        removed_names: vec!["c".to_owned()],
        ..ToolChanges::default()
    };
    gone.publish(None, &registry, &bench.events);
    assert_eq!(changes(&mut listener).await, json!([[], [], ["c"]]));

    // A declared tool that waits and is then no longer offered was never visible.
    registry.replace(tool("d", "worker")).unwrap();
    bench.reload([tool("c", "http"), tool("d", "built-in")]);
    let expected = json!([[], ["a", "b"], []]);
    assert_eq!(changes(&mut listener).await, expected);
    bench.reload([tool("c", "http"), unoffered("d")]);
    bench.reload([tool("c", "another")]);
    assert_eq!(changes(&mut listener).await, json!([[], [], ["c"]]));
}

#[tokio::test]
async fn p_a_running_call_finishes_with_its_original_tool() {
    let mut bench = Bench::default();
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_begun, may_go) = (Arc::clone(&begun), Arc::clone(&go));
    let definition = ToolDefinition::builder("a", "old").build().unwrap();
    let old = FnTool::new(definition, move |_, _| {
        let (has_begun, may_go) = (Arc::clone(&has_begun), Arc::clone(&may_go));
        async move {
            has_begun.notify_one();
            may_go.notified().await;
            Ok(ToolOutput::text("old"))
        }
    });
    bench.reload([Arc::new(old) as Arc<dyn Tool>]);
    let executor = Executor::new(Arc::clone(&bench.registry), ExecutorConfig::default());
    let call = || ToolCall::new("1", "a", json!({}));
    let context = CallContext::default();
    let running = tokio::spawn({
        let (executor, context) = (executor.clone(), context.clone());
        async move { executor.execute_one(call(), &context).await }
    });
    begun.notified().await;
    bench.reload([tool("a", "new")]);
    let new = executor.execute_one(call(), &context).await;
    assert_eq!(new.result, json!("new"));
    go.notify_one();
    assert_eq!(running.await.unwrap().result, json!("old"));
}
