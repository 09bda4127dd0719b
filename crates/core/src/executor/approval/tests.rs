use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::executor::{Executor, ExecutorConfig, ExecutorHooks};
use crate::registry::ToolRegistry;
use crate::tests::{add_echo, assert_failure, call, definition};
use crate::tool::{
    ActingIdentity, ActingIdentityFuture, ForwardedParameters, Link, ParameterType, Tool,
    ToolDefinition, ToolFuture, ToolOrigin, ToolOutput, ToolParameter, ToolResult,
};

/// A tool of an MCP server that returns its arguments.
struct RemoteTool {
    definition: ToolDefinition,
    server: &'static str,
    digest: &'static str,
    policy: Option<ApprovalPolicy>,
}

impl RemoteTool {
    /// Returns the tool `move` of the server `games`.
    fn new() -> Self {
        Self {
            definition: definition("move"),
            server: "games",
            digest: "here",
            policy: None,
        }
    }

    /// Returns an executor with only this tool.
    fn executor(self, policy: &Value) -> Executor {
        let registry = ToolRegistry::new();
        registry.register(Arc::new(self)).unwrap();
        Executor::new(Arc::new(registry), config(policy))
    }
}

impl Tool for RemoteTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp {
            server_label: self.server.to_owned(),
            server_url: "https://games.example/mcp".to_owned(),
        }
    }

    fn digest(&self) -> Option<String> {
        Some(self.digest.to_owned())
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.policy
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { Ok(ToolOutput::value(Value::Object(arguments))) })
    }
}

/// `roll`, `echo`, `delete` (requires confirmation), and `move` of the server `games`.
fn registry() -> Arc<ToolRegistry> {
    let registry = ToolRegistry::new();
    for name in ["roll", "echo", "delete"] {
        let what = ToolParameter::new("what", ParameterType::String).default_value(json!("all"));
        let definition = ToolDefinition::builder(name, "A test")
            .parameter(what.optional())
            .requires_confirmation(name == "delete");
        add_echo(&registry, definition.build().unwrap());
    }
    registry.register(Arc::new(RemoteTool::new())).unwrap();
    Arc::new(registry)
}

fn config(policy: &Value) -> ExecutorConfig {
    ExecutorConfig {
        approvals: serde_json::from_value(policy.clone()).unwrap(),
        ..ExecutorConfig::default()
    }
}

fn executor(config: ExecutorConfig, approver: Option<Arc<dyn Approver>>) -> Executor {
    let hooks = ExecutorHooks {
        approver,
        ..ExecutorHooks::default()
    };
    Executor::with_hooks(registry(), config, hooks)
}

/// Returns an executor whose calls all need approval.
fn strict_executor(approver: Option<Arc<dyn Approver>>) -> Executor {
    executor(config(&json!({"default": "always-ask"})), approver)
}

async fn run(executor: &Executor, name: &str, context: &CallContext) -> ToolResult {
    call(executor, name, json!({"what": "x"}), context).await
}

fn add_tool(executor: &Executor, tool: impl Tool) {
    executor.registry().register(Arc::new(tool)).unwrap();
}

fn id_in(result: &ToolResult) -> String {
    result.metadata["approval_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn g1_each_policy_requires_approval_as_documented() {
    let cases = [
        (json!({"default": "auto"}), [true, true, false, true]),
        (json!({"default": "always-ask"}), [false; 4]),
        (
            json!({"default": "trusted-only", "trusted_tools": ["roll", "delete"]}),
            [true, false, false, false],
        ),
        (
            json!({"default": "auto", "tools": {"roll": "always-ask"}}),
            [false, true, false, true],
        ),
        (
            json!({"default": "auto", "servers": {"games": "prompt"}}),
            [true, true, false, false],
        ),
        (
            json!({"default": "always-ask", "servers": {"games": "never"}, "tools": {"echo": "never", "delete": "never"}}),
            [false, true, false, true],
        ),
        (
            json!({"default": "auto", "servers": {"games": "never"}, "tools": {"move": "always"}}),
            [true, true, false, false],
        ),
    ];
    for (policy, runs) in cases {
        let executor = executor(config(&policy), None);
        let mut ran = Vec::new();
        for name in ["roll", "echo", "delete", "move"] {
            let result = run(&executor, name, &CallContext::default()).await;
            let expected = (!result.success).then_some(ErrorCode::ApprovalRequired);
            assert_eq!(result.error_code, expected, "{policy} {name}");
            ran.push(result.success);
        }
        assert_eq!(ran, runs, "{policy}");
    }
}

#[tokio::test]
async fn g3_an_approval_is_valid_for_one_tool_its_arguments_and_its_user() {
    let executor = strict_executor(None);
    let mut alice = CallContext::for_user("alice");
    let pending = run(&executor, "roll", &alice).await;
    let message = "The call to tool 'roll' needs approval";
    assert_failure(&pending, ErrorCode::ApprovalRequired, message);
    assert_eq!(pending.metadata["arguments"], json!({"what": "x"}));
    alice.approved.insert(id_in(&pending));
    let approved = run(&executor, "roll", &alice).await;
    assert_eq!(approved.result, json!({"what": "x"}));

    assert!(!run(&executor, "echo", &alice).await.success);
    let other = call(&executor, "roll", json!({"what": "y"}), &alice).await;
    assert!(!other.success);
    for user in [Some("bob".to_owned()), None] {
        let other = CallContext {
            user,
            ..alice.clone()
        };
        assert!(!run(&executor, "roll", &other).await.success);
    }
}

#[tokio::test]
async fn g3_an_approval_for_a_claimed_user_is_valid_only_for_its_principal() {
    let executor = strict_executor(None);
    let id = async |principal: &str, user: Option<&str>, is_user_verified| {
        let context = CallContext {
            principal: Some(principal.to_owned()),
            user: user.map(str::to_owned),
            is_user_verified,
            ..CallContext::default()
        };
        id_in(&run(&executor, "roll", &context).await)
    };
    let alice = Some("alice");
    let claimed = id("token:a", alice, false).await;
    assert_eq!(claimed, id("token:a", alice, false).await);
    assert_ne!(claimed, id("token:b", alice, false).await);
    let verified = id("token:a", alice, true).await;
    assert_ne!(claimed, verified);
    // A verified user has one ID, whichever principal verified the user.
    assert_eq!(verified, id("uid:33", alice, true).await);
    // Calls without a user are separate for each principal, too.
    let other = id("token:b", None, false).await;
    assert_ne!(id("token:a", None, false).await, other);
}

/// A tool with a fixed acting identity and a new credential for each call. The tool returns the
/// identity that the executor passed to it, and whether it has the connection with the credential.
struct ActsFor(ToolDefinition);

impl Tool for ActsFor {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        let identity = context.channel.clone()?;
        let credential = uuid::Uuid::new_v4().to_string();
        Some(Box::pin(async move {
            Ok(ActingIdentity {
                connection: Some(Link::new(())),
                ..ActingIdentity::new(identity, credential)
            })
        }))
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, context: CallContext) -> ToolFuture {
        let acting_identity = context.acting_identity;
        let seen = acting_identity.map(|it| (it.identity, it.connection.is_some()));
        Box::pin(async move { Ok(ToolOutput::value(json!(seen))) })
    }
}

#[tokio::test]
async fn g3_an_approval_is_valid_for_one_acting_identity() {
    let executor = strict_executor(None);
    add_tool(&executor, ActsFor(definition("mail")));
    let alice = |name: Option<&str>| CallContext {
        channel: name.map(str::to_owned),
        ..CallContext::for_user("alice")
    };
    let mut ids = std::collections::HashSet::new();
    for name in [None, Some("the user"), Some("the server")] {
        let pending = run(&executor, "mail", &alice(name)).await;
        assert!(ids.insert(id_in(&pending)), "{name:?}");
        let approved = CallContext {
            approved: [id_in(&pending)].into(),
            ..alice(name)
        };
        // The credential has changed, but the acting identity has not.
        let result = run(&executor, "mail", &approved).await;
        assert_eq!(result.result, json!(name.map(|name| (name, true))));
        let elsewhere = CallContext {
            channel: Some("another user".to_owned()),
            ..approved
        };
        let rejected = run(&executor, "mail", &elsewhere).await;
        assert_eq!(rejected.error_code, Some(ErrorCode::ApprovalRequired));
    }
}

#[tokio::test]
async fn l1_a_call_that_waited_for_a_decision_runs_without_its_connection() {
    let approver = once(Ok(()));
    for (policy, has_connection) in [("always-ask", false), ("auto", true)] {
        let config = config(&json!({"default": policy}));
        let executor = executor(config, Some(approver.clone()));
        add_tool(&executor, ActsFor(definition("mail")));
        let context = CallContext {
            channel: Some("the user".to_owned()),
            ..CallContext::for_user("alice")
        };
        let result = run(&executor, "mail", &context).await;
        assert_eq!(result.result, json!(["the user", has_connection]));
    }
}

#[tokio::test]
async fn g3_the_approval_id_depends_on_the_tool_that_would_run() {
    let executor = strict_executor(None);
    let id = async |arguments: Value| {
        id_in(&call(&executor, "roll", arguments, &CallContext::default()).await)
    };
    assert_eq!(id(json!({})).await, id(json!({"what": "all"})).await);
    assert_eq!(id(json!("{\"what\": \"all\"}")).await, id(json!({})).await);
    assert_ne!(id(json!({"what": "All"})).await, id(json!({})).await);
    assert_eq!(
        id(json!({"what": "é", "b": {"y": [1, 1.5], "x": null}})).await,
        id(json!({"b": {"x": null, "y": [1, 1.5]}, "what": "é"})).await,
    );
    // printf '{"arguments":{"what":"all"},"definition":["A test",{"properties":{"what":{"default":
    // "all","type":"string"}},"required":[],"type":"object"}],"digest":null,"server":null,
    // "tool":"roll","user":null}' | sha256sum, all in one line
    let expected = "786c4e7c36a7ed9dfbf6167fd84d690d1e8a18aa123114e9c0f6c9cb0519a376";
    assert_eq!(id(json!({})).await, expected);
}

#[tokio::test]
async fn g3_an_approval_is_not_valid_for_another_server_or_a_replacement_of_the_tool() {
    let id = async |server, description: &str, digest| {
        let definition = ToolDefinition::builder("move", description).build();
        let remote = RemoteTool {
            definition: definition.unwrap(),
            server,
            digest,
            policy: None,
        };
        let executor = remote.executor(&json!({"default": "always-ask"}));
        id_in(&run(&executor, "move", &CallContext::default()).await)
    };
    let granted = id("games", "Moves a piece", "here").await;
    assert_eq!(granted, id("games", "Moves a piece", "here").await);
    assert_ne!(granted, id("other", "Moves a piece", "here").await);
    assert_ne!(granted, id("games", "Moves all your money", "here").await);
    assert_ne!(granted, id("games", "Moves a piece", "elsewhere").await);
}

#[tokio::test]
async fn g3_a_denial_wins_over_an_approval_and_over_the_policy() {
    let asking = strict_executor(None);
    let mut context = CallContext::default();
    let id = id_in(&run(&asking, "roll", &context).await);
    context.approved.insert(id.clone());
    context.denied.insert(id.clone());
    let auto = executor(ExecutorConfig::default(), None);
    for executor in [&asking, &auto] {
        let denied = run(executor, "roll", &context).await;
        let message = "The call to tool 'roll' was denied";
        assert_failure(&denied, ErrorCode::Denied, message);
        assert_eq!(id_in(&denied), id);
    }
    assert!(run(&auto, "echo", &context).await.success);
}

/// Returns the same decision for every request, and records the requests.
struct FixedDecision {
    decision: Result<Decision, ToolFailure>,
    requests: Mutex<Vec<(String, String)>>,
}

impl FixedDecision {
    fn new(decision: Result<Decision, ToolFailure>) -> Arc<Self> {
        let requests = Mutex::default();
        Arc::new(Self { decision, requests })
    }
}

impl Approver for FixedDecision {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let request = (request.tool.name().to_string(), request.context.call_id);
        self.requests.lock().push(request);
        let decision = self.decision.clone();
        Box::pin(async move { decision })
    }
}

#[tokio::test]
async fn g3_the_approver_decides_undecided_calls() {
    let failure = ToolFailure::internal("the store is down");
    for (decision, code) in [
        (Ok(Decision::Approved), None),
        (Ok(Decision::Denied), Some(ErrorCode::Denied)),
        (Ok(Decision::Undecided), Some(ErrorCode::ApprovalRequired)),
        (Err(failure), Some(ErrorCode::InternalError)),
    ] {
        let approver = FixedDecision::new(decision);
        let executor = executor(ExecutorConfig::default(), Some(approver.clone()));
        let result = run(&executor, "delete", &CallContext::default()).await;
        assert_eq!(result.error_code, code);
        let result = run(&executor, "roll", &CallContext::default()).await;
        assert!(result.success);
        let requests = approver.requests.lock().clone();
        assert_eq!(requests, [("delete".to_owned(), "c".to_owned())]);
    }
}

#[tokio::test]
async fn g3_a_call_without_approval_counts_towards_no_limit() {
    let mut config = ExecutorConfig::default();
    config.rate_limits.default.per_minute = Some(1);
    let executor = executor(config, None);
    let mut context = CallContext::default();
    for _ in 0..3 {
        let pending = run(&executor, "delete", &context).await;
        assert_eq!(pending.error_code, Some(ErrorCode::ApprovalRequired));
    }
    let pending = run(&executor, "delete", &context).await;
    context.approved.insert(id_in(&pending));
    assert!(run(&executor, "delete", &context).await.success);
    let limited = run(&executor, "delete", &context).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
}

#[tokio::test]
async fn bad_arguments_and_unknown_tools_need_no_approval() {
    let approver = FixedDecision::new(Ok(Decision::Approved));
    let executor = strict_executor(Some(approver.clone()));
    for (name, arguments) in [("nope", json!({})), ("roll", json!({"what": 5}))] {
        let result = call(&executor, name, arguments, &CallContext::default()).await;
        assert!(!result.success);
    }
    assert!(approver.requests.lock().is_empty());
}

#[tokio::test]
async fn g2_the_tools_own_policy_ranks_between_rules_and_the_default() {
    use ApprovalPolicy::{AlwaysAsk, Auto, TrustedOnly};
    let always = json!({"default": "always-ask", "trusted_tools": ["move"]});
    let auto = json!({"default": "auto", "trusted_tools": []});
    let of_server = json!({"default": "auto", "servers": {"games": "auto"}});
    let of_tool =
        json!({"default": "auto", "servers": {"games": "auto"}, "tools": {"move": "always-ask"}});
    let cases = [
        (Some(AlwaysAsk), &auto, false),
        (Some(Auto), &always, true),
        (Some(TrustedOnly), &auto, false),
        (Some(TrustedOnly), &always, true),
        (None, &auto, true),
        (None, &always, false),
        (Some(AlwaysAsk), &of_server, true),
        (Some(Auto), &of_tool, false),
    ];
    for (own_policy, policy, runs) in cases {
        let remote = RemoteTool {
            policy: own_policy,
            ..RemoteTool::new()
        };
        let executor = remote.executor(policy);
        let result = run(&executor, "move", &CallContext::default()).await;
        assert_eq!(result.success, runs, "{own_policy:?} {policy}");
    }
}

#[tokio::test]
async fn g1_a_rule_may_use_an_alias_and_the_strictest_rule_wins() {
    let registry = registry();
    registry.set_alias("dice", "roll").unwrap();
    let ask_for = |name: &str| json!({"default": "auto", "tools": {name: "always-ask"}});
    let both = json!({"default": "auto", "tools": {"dice": "always-ask", "roll": "auto"}});
    let trusted = json!({"default": "trusted-only", "trusted_tools": ["dice"]});
    let cases = [
        (ask_for("dice"), false),
        (both, false),
        (ask_for("echo"), true),
        (trusted, true),
    ];
    for (policy, runs) in cases {
        let executor = Executor::new(Arc::clone(&registry), config(&policy));
        for name in ["roll", "dice"] {
            let result = run(&executor, name, &CallContext::default()).await;
            assert_eq!(result.success, runs, "{policy} {name}");
        }
    }
}

/// Approves every request, and counts the used approvals; `spent` is the result of each use.
struct Once {
    used: Mutex<usize>,
    spent: Result<(), ToolFailure>,
}

impl Approver for Once {
    fn decide(&self, _: ApprovalRequest) -> ApprovalFuture {
        Box::pin(async { Ok(Decision::Approved) })
    }

    fn spend(&self, _: &ApprovalRequest) -> SpendFuture {
        *self.used.lock() += 1;
        let spent = self.spent.clone();
        Box::pin(async move { spent })
    }
}

fn once(spent: Result<(), ToolFailure>) -> Arc<Once> {
    let used = Mutex::default();
    Arc::new(Once { used, spent })
}

#[tokio::test]
async fn g3_a_call_that_does_not_run_leaves_its_approval_unused() {
    let approver = once(Ok(()));
    let mut config = config(&json!({"default": "always-ask"}));
    config.rate_limits.default.per_minute = Some(1);
    let executor = executor(config, Some(approver.clone()));
    let first = run(&executor, "roll", &CallContext::default()).await;
    assert!(first.success);
    let limited = run(&executor, "roll", &CallContext::default()).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(*approver.used.lock(), 1);
}

#[tokio::test]
async fn g3_a_missing_approval_runs_nothing_and_approvals_of_the_context_count() {
    let gone = ToolFailure::new(ErrorCode::ApprovalRequired, "Another call has used it");
    let approver = once(Err(gone));
    let executor = strict_executor(Some(approver.clone()));
    let mut alice = CallContext::for_user("alice");
    let result = run(&executor, "roll", &alice).await;
    assert_eq!(result.error.as_deref(), Some("Another call has used it"));
    let roll = executor.registry().get("roll").unwrap();
    let arguments = json!({"what": "x"});
    let id = id::compute(&roll, arguments.as_object().unwrap(), &alice, None);
    alice.approved.insert(id);
    assert!(run(&executor, "roll", &alice).await.success);
    assert_eq!(*approver.used.lock(), 1);
}

/// A tool that gets the channel's text as further parameters, if it is approved.
struct Forwards(ToolDefinition);

impl Tool for Forwards {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn forwarded(&self, context: &CallContext) -> Result<Option<ForwardedParameters>, ToolFailure> {
        let Some(variant) = &context.variant else {
            return Ok(None);
        };
        if variant == "unclear" {
            return Err(ToolFailure::invalid_input("unclear"));
        }
        Ok(Some(ForwardedParameters {
            parameters: json!({"variant": variant}),
            digest: variant.clone(),
        }))
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, context: CallContext) -> ToolFuture {
        let state = context.trace.map(|trace| json!(trace.to_meta()));
        let seen = json!({"approval": context.approval_id, "trace": state});
        Box::pin(async move { Ok(ToolOutput::value(seen)) })
    }
}

#[tokio::test]
async fn g3_an_approval_is_valid_for_the_channel_and_the_forwarded_parameters() {
    let executor = strict_executor(None);
    add_tool(&executor, Forwards(definition("pass")));
    let mut ids = std::collections::HashSet::new();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (channel, variant) in [
        (None, None),
        (Some("a"), None),
        (Some("b"), None),
        (None, Some("a")),
        (None, Some("b")),
        (Some("a"), Some("b")),
    ] {
        let mut context = CallContext {
            channel: channel.map(str::to_owned),
            variant: variant.map(str::to_owned),
            trace: crate::tool::TraceContext::parse(parent, Some("pay=1")),
            approval_id: Some("the caller cannot set this".to_owned()),
            ..CallContext::for_user("alice")
        };
        let id = id_in(&run(&executor, "pass", &context).await);
        assert!(ids.insert(id.clone()), "{channel:?} {variant:?}");
        context.approved.insert(id.clone());
        let result = run(&executor, "pass", &context).await.result;
        // The approver has not seen the tracestate.
        let seen = json!({"approval": id, "trace": {"traceparent": parent}});
        assert_eq!(result, seen);
    }
    let unclear = CallContext {
        variant: Some("unclear".to_owned()),
        ..CallContext::default()
    };
    let rejected = run(&executor, "pass", &unclear).await;
    assert_eq!(rejected.error_code, Some(ErrorCode::InvalidInput));
}

/// Approves every call with other arguments, and records for which arguments each approval was
/// spent.
struct Edits(Value, Mutex<Vec<Option<JsonObject>>>);

impl Approver for Edits {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        assert_eq!(request.edited_arguments, None);
        let edited = self.0.as_object().cloned().unwrap();
        Box::pin(async move { Ok(Decision::Edited(edited)) })
    }

    fn spend(&self, request: &ApprovalRequest) -> SpendFuture {
        self.1.lock().push(request.edited_arguments.clone());
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn g3_a_call_runs_with_the_arguments_of_the_approver_if_they_are_valid() {
    let edits = Arc::new(Edits(json!({"what": "y"}), Mutex::default()));
    let executor = strict_executor(Some(edits.clone()));
    let result = run(&executor, "roll", &CallContext::default()).await;
    assert_eq!(result.result, json!({"what": "y"}));
    assert_eq!(result.metadata["approved_arguments"], json!({"what": "y"}));
    assert_eq!(result.to_message().matches("Note: ").count(), 1);
    assert!(
        result
            .content()
            .ends_with(r#"The call ran with: {"what":"y"}"#)
    );
    assert_eq!(*edits.1.lock(), [json!({"what": "y"}).as_object().cloned()]);
    // Defaults are filled in, and a call with invalid arguments does not run.
    let invalid =
        "The arguments from the approver were rejected: Invalid type for what: expected string";
    for (edited, outcome) in [
        (json!({}), Ok(json!({"what": "all"}))),
        (json!({"what": 7}), Err(invalid)),
    ] {
        let edits = Arc::new(Edits(edited, Mutex::default()));
        let executor = strict_executor(Some(edits.clone()));
        let result = run(&executor, "roll", &CallContext::default()).await;
        match outcome {
            Ok(arguments) => assert_eq!(result.result, arguments),
            Err(error) => {
                assert_failure(&result, ErrorCode::InvalidInput, error);
                let is_unspent = edits.1.lock().is_empty();
                assert!(is_unspent, "an approval was spent for nothing");
            }
        }
    }
}

#[tokio::test]
async fn g3_the_arguments_of_the_context_belong_to_their_approval() {
    let executor = strict_executor(None);
    let mut alice = CallContext::for_user("alice");
    let id = id_in(&run(&executor, "roll", &alice).await);
    let edited = json!({"what": "y"}).as_object().cloned().unwrap();
    alice.approved_arguments.insert(id.clone(), edited);
    let pending = run(&executor, "roll", &alice).await;
    assert_eq!(pending.error_code, Some(ErrorCode::ApprovalRequired));
    alice.approved.insert(id);
    let approved = run(&executor, "roll", &alice).await;
    assert_eq!(approved.result, json!({"what": "y"}));
    let other = run(&executor, "echo", &alice).await;
    assert_eq!(other.error_code, Some(ErrorCode::ApprovalRequired));
}

/// A tool whose calls run elsewhere, with their own arguments.
struct Fixed(ToolDefinition);

impl Tool for Fixed {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn accepts_edited_arguments(&self) -> bool {
        false
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::text("ran")) })
    }
}

#[tokio::test]
async fn g3_a_call_whose_arguments_cannot_be_changed_is_denied() {
    let edits = Arc::new(Edits(json!({"what": "y"}), Mutex::default()));
    let executor = strict_executor(Some(edits.clone()));
    add_tool(&executor, Fixed(definition("fixed")));
    let result = run(&executor, "fixed", &CallContext::default()).await;
    assert_eq!(result.error_code, Some(ErrorCode::Denied), "{result:?}");
    assert!(edits.1.lock().is_empty());
}
