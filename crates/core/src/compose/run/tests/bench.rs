//! Helpers for the tests of composed tools.

#![expect(
    clippy::needless_pass_by_value,
    reason = "what json! makes is handed over"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::compose::{ComposedTool, Composition, MemoryCheckpoints};
use crate::executor::{
    ApprovalPolicy, CacheRule, CacheScope, Executor, ExecutorConfig, RateWindows,
};
use crate::registry::ToolRegistry;
use crate::tests::{add, call, definition};
use crate::tool::{
    CallContext, ErrorCode, JsonObject, Tool, ToolFailure, ToolFilter, ToolOutput, ToolResult,
};

/// A registry with tools to compose, and counters of their calls.
pub(super) struct Bench {
    pub(super) registry: Arc<ToolRegistry>,
    /// Number of `echo` and `pause` calls that started and ended.
    began: Arc<AtomicUsize>,
    pub(super) ended: Arc<AtomicUsize>,
    pub(super) max_running: Arc<AtomicUsize>,
    pub(super) config: ExecutorConfig,
}

/// Counts a call as ended when dropped.
struct Counts(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Bench {
    /// Creates the tools: `echo` returns its arguments, `pause` first waits for `ms`, `fail` fails,
    /// and `who` returns the user.
    pub(super) fn new() -> Self {
        let bench = Self {
            registry: Arc::default(),
            began: Arc::default(),
            ended: Arc::default(),
            max_running: Arc::default(),
            config: ExecutorConfig::default(),
        };
        for name in ["echo", "pause", "delete"] {
            let (began, ended) = (Arc::clone(&bench.began), Arc::clone(&bench.ended));
            let running = Arc::new(AtomicUsize::new(0));
            let max_running = Arc::clone(&bench.max_running);
            bench.add(name, move |arguments, _| {
                began.fetch_add(1, Ordering::SeqCst);
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                max_running.fetch_max(now, Ordering::SeqCst);
                let counts = Counts(Arc::clone(&ended), Arc::clone(&running));
                async move {
                    let _counts = counts;
                    let pause = arguments.get("ms").and_then(Value::as_u64).unwrap_or(0);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    Ok(ToolOutput::text("said").with_data(Value::Object(arguments)))
                }
            });
        }
        bench.add("fail", |_, _| async {
            Err(ToolFailure::new(ErrorCode::NotFound, "No such city"))
        });
        bench.add("who", |_, context: CallContext| async move {
            let is_verified = context.verified_user().is_some();
            let who =
                json!({"user": context.user, "call": context.call_id, "is_verified": is_verified});
            Ok(ToolOutput::value(who))
        });
        bench
    }

    pub(super) fn add<F, Fut>(&self, name: &str, function: F)
    where
        F: Fn(JsonObject, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
    {
        add(&self.registry, definition(name), function);
    }

    pub(super) fn compose(&self, name: &str, rest: Value) {
        let mut declared = json!({"name": name, "description": "A test"});
        let rest = rest.as_object().unwrap().clone();
        declared.as_object_mut().unwrap().extend(rest);
        let composition = Composition::parse(declared).unwrap();
        let checkpoints = Arc::new(MemoryCheckpoints::new(Duration::from_secs(60)));
        let tool: Arc<dyn Tool> = Arc::new(ComposedTool::new(composition, checkpoints));
        self.registry.register(tool).unwrap();
    }

    pub(super) fn executor(&self) -> Executor {
        Executor::new(Arc::clone(&self.registry), self.config.clone())
    }

    pub(super) async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        let alice = CallContext::for_user("alice");
        call(&self.executor(), name, arguments, &alice).await
    }

    /// Caches the results of a tool for a minute.
    pub(super) fn cache(&mut self, name: &str, scope: CacheScope) {
        let rule = CacheRule {
            ttl: Duration::from_secs(60),
            scope,
        };
        self.config.cache.tools.insert(name.to_owned(), rule);
    }

    /// Makes each call of a tool need an approval.
    pub(super) fn ask_before(&mut self, name: &str) {
        let tools = &mut self.config.approvals.tools;
        tools.insert(name.to_owned(), ApprovalPolicy::AlwaysAsk);
    }

    /// Sets a rate limit per minute for a tool.
    pub(super) fn limit(&mut self, name: &str, per_minute: u32) {
        let windows = RateWindows {
            per_minute: Some(per_minute),
            ..RateWindows::default()
        };
        let tools = &mut self.config.rate_limits.tools;
        tools.insert(name.to_owned(), windows);
    }

    pub(super) fn began(&self) -> usize {
        self.began.load(Ordering::SeqCst)
    }
}

/// Returns a step that calls `echo`.
pub(super) fn echo(name: &str, arguments: Value) -> Value {
    json!({"name": name, "tool": "echo", "arguments": arguments})
}

/// Returns the context of Alice, who may use the tools in `names`.
pub(super) fn alice_with(names: &'static [&'static str]) -> CallContext {
    let filter = ToolFilter::new(names.join(","), |name, _| names.contains(&name));
    CallContext {
        may_use: Some(filter),
        ..CallContext::for_user("alice")
    }
}
