use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::executor::{Executor, ExecutorConfig, ExecutorHooks, RateLimits, RateWindows};
use crate::registry::ToolRegistry;
use crate::tool::{
    ActingIdentity, ActingIdentityFuture, FnTool, ForwardedParameters, Link, ParameterType, Tool,
    ToolCall, ToolDefinition, ToolFuture, ToolOrigin, ToolOutput, ToolParameter, ToolResult,
};

/// A tool of the MCP server `games` that answers with its arguments.
struct Remote(
    ToolDefinition,
    &'static str,
    &'static str,
    Option<ApprovalPolicy>,
);

impl Tool for Remote {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp {
            server_label: self.1.to_owned(),
            server_url: "https://games.example/mcp".to_owned(),
        }
    }

    fn digest(&self) -> Option<String> {
        Some(self.2.to_owned())
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.3
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { Ok(ToolOutput::value(Value::Object(arguments))) })
    }
}

/// `roll`, `echo`, `delete` (requires confirmation), and `move` of the server `games`.
fn registry(server: &'static str) -> Arc<ToolRegistry> {
    let registry = ToolRegistry::new();
    for name in ["roll", "echo", "delete"] {
        let what = ToolParameter::new("what", ParameterType::String).default_value(json!("all"));
        let definition = ToolDefinition::builder(name, "A test")
            .parameter(what.optional())
            .requires_confirmation(name == "delete");
        let tool = FnTool::new(definition.build().unwrap(), |arguments, _| async move {
            Ok(ToolOutput::value(Value::Object(arguments)))
        });
        registry.register(Arc::new(tool)).unwrap();
    }
    let remote = ToolDefinition::builder("move", "A test").build().unwrap();
    registry
        .register(Arc::new(Remote(remote, server, "here", None)))
        .unwrap();
    Arc::new(registry)
}

fn rules(value: &Value) -> ApprovalRules {
    let policies = |key: &str| -> std::collections::HashMap<String, ApprovalPolicy> {
        let policies = value.get(key).cloned().unwrap_or_else(|| json!({}));
        serde_json::from_value(policies).unwrap()
    };
    ApprovalRules {
        default: serde_json::from_value(value["default"].clone()).unwrap(),
        trusted_tools: value
            .get("trusted")
            .map(|trusted| serde_json::from_value(trusted.clone()).unwrap())
            .unwrap_or_default(),
        tools: policies("tools").into(),
        servers: policies("servers"),
    }
}

fn executor(approvals: ApprovalRules, approver: Option<Arc<dyn Approver>>) -> Executor {
    let config = ExecutorConfig {
        approvals,
        ..ExecutorConfig::default()
    };
    let hooks = ExecutorHooks {
        approver,
        ..ExecutorHooks::default()
    };
    Executor::with_hooks(registry("games"), config, hooks)
}

async fn run(executor: &Executor, name: &str, context: &CallContext) -> ToolResult {
    let call = ToolCall::new("c", name, json!({"what": "x"}));
    executor.execute_one(call, context).await
}

fn id_in(result: &ToolResult) -> String {
    result.metadata["approval_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn g1_each_policy_requires_approval_as_documented() {
    let cases = [
        (json!({"default": "auto"}), [true, true, false, true]),
        (
            json!({"default": "always-ask"}),
            [false, false, false, false],
        ),
        (
            json!({"default": "trusted-only", "trusted": ["roll", "delete"]}),
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
        let executor = executor(rules(&policy), None);
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
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
    let mut alice = CallContext::for_user("alice");
    let asked = run(&executor, "roll", &alice).await;
    assert_eq!(
        asked.error.as_deref(),
        Some("The call to tool 'roll' needs approval")
    );
    assert_eq!(asked.metadata["arguments"], json!({"what": "x"}));
    alice.approved.insert(id_in(&asked));
    let approved = run(&executor, "roll", &alice).await;
    assert_eq!(approved.result, json!({"what": "x"}));

    assert!(!run(&executor, "echo", &alice).await.success);
    let other = ToolCall::new("c", "roll", json!({"what": "y"}));
    assert!(!executor.execute_one(other, &alice).await.success);
    let bob = CallContext {
        user: Some("bob".to_owned()),
        ..alice.clone()
    };
    assert!(!run(&executor, "roll", &bob).await.success);
    let nobody = CallContext {
        user: None,
        ..alice.clone()
    };
    assert!(!run(&executor, "roll", &nobody).await.success);
}

#[tokio::test]
async fn g3_an_approval_for_a_claimed_user_is_valid_only_for_its_principal() {
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
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
    // A verified user has one id, whichever principal verified the user.
    assert_eq!(verified, id("uid:33", alice, true).await);
    // Calls without a user are separate for each principal, too.
    assert_ne!(
        id("token:a", None, false).await,
        id("token:b", None, false).await
    );
}

/// A tool with a fixed acting identity and a new credential for each call. It returns the identity
/// that the executor passed to it, and whether it has the connection with the credential.
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
        let acting_identity = acting_identity.map(|acting_identity| {
            (
                acting_identity.identity,
                acting_identity.connection.is_some(),
            )
        });
        Box::pin(async move { Ok(ToolOutput::value(json!(acting_identity))) })
    }
}

#[tokio::test]
async fn g3_an_approval_is_valid_for_one_acting_identity() {
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
    let definition = ToolDefinition::builder("mail", "A test").build().unwrap();
    let registry = executor.registry();
    registry.register(Arc::new(ActsFor(definition))).unwrap();
    let alice = |name: Option<&str>| CallContext {
        channel: name.map(str::to_owned),
        ..CallContext::for_user("alice")
    };
    let mut ids = std::collections::HashSet::new();
    for name in [None, Some("the user"), Some("the server")] {
        let asked = run(&executor, "mail", &alice(name)).await;
        assert!(ids.insert(id_in(&asked)), "{name:?}");
        let approved = CallContext {
            approved: [id_in(&asked)].into(),
            ..alice(name)
        };
        // The credential has changed, but the acting identity has not.
        let result = run(&executor, "mail", &approved).await;
        assert_eq!(result.result, json!(name.map(|name| (name, true))));
        let elsewhere = CallContext {
            channel: Some("somebody else".to_owned()),
            ..approved
        };
        let refused = run(&executor, "mail", &elsewhere).await;
        assert_eq!(refused.error_code, Some(ErrorCode::ApprovalRequired));
    }
}

#[tokio::test]
async fn l1_a_call_that_waited_for_a_decision_runs_without_its_connection() {
    let approver = once(Ok(()));
    for (policy, has_connection) in [("always-ask", false), ("auto", true)] {
        let executor = executor(rules(&json!({"default": policy})), Some(approver.clone()));
        let definition = ToolDefinition::builder("mail", "A test").build().unwrap();
        let registry = executor.registry();
        registry.register(Arc::new(ActsFor(definition))).unwrap();
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
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
    let id = async |arguments: Value| {
        let call = ToolCall::new("c", "roll", arguments);
        id_in(&executor.execute_one(call, &CallContext::default()).await)
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
    assert_eq!(
        id(json!({})).await,
        "786c4e7c36a7ed9dfbf6167fd84d690d1e8a18aa123114e9c0f6c9cb0519a376"
    );
}

#[tokio::test]
async fn g3_an_approval_is_not_valid_for_another_server() {
    let id = async |server| {
        let config = ExecutorConfig {
            approvals: rules(&json!({"default": "always-ask"})),
            ..ExecutorConfig::default()
        };
        let executor = Executor::new(registry(server), config);
        id_in(&run(&executor, "move", &CallContext::default()).await)
    };
    assert_ne!(id("games").await, id("other").await);
}

#[tokio::test]
async fn g3_an_approval_is_not_valid_for_a_replacement_of_the_tool() {
    let id = async |description: &str, digest| {
        let config = ExecutorConfig {
            approvals: rules(&json!({"default": "always-ask"})),
            ..ExecutorConfig::default()
        };
        let registry = ToolRegistry::new();
        let remote = ToolDefinition::builder("move", description).build();
        let remote = Remote(remote.unwrap(), "games", digest, None);
        registry.register(Arc::new(remote)).unwrap();
        let executor = Executor::new(Arc::new(registry), config);
        id_in(&run(&executor, "move", &CallContext::default()).await)
    };
    let granted = id("Moves a piece", "here").await;
    assert_eq!(granted, id("Moves a piece", "here").await);
    assert_ne!(granted, id("Moves all your money", "here").await);
    assert_ne!(granted, id("Moves a piece", "elsewhere").await);
}

#[tokio::test]
async fn g3_a_denial_wins_over_an_approval_and_over_the_policy() {
    let asking = executor(rules(&json!({"default": "always-ask"})), None);
    let mut context = CallContext::default();
    let id = id_in(&run(&asking, "roll", &context).await);
    context.approved.insert(id.clone());
    context.denied.insert(id.clone());
    let auto = executor(ApprovalRules::default(), None);
    for executor in [&asking, &auto] {
        let denied = run(executor, "roll", &context).await;
        assert_eq!(denied.error_code, Some(ErrorCode::Denied));
        assert_eq!(
            denied.error.as_deref(),
            Some("The call to tool 'roll' was denied")
        );
        assert_eq!(id_in(&denied), id);
    }
    assert!(run(&auto, "echo", &context).await.success);
}

/// Returns the same decision for every request, and records the requests.
struct Says(
    Result<Decision, ToolFailure>,
    Arc<Mutex<Vec<(String, String)>>>,
);

impl Approver for Says {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        let asked = (request.tool.name().to_string(), request.context.call_id);
        self.1.lock().push(asked);
        let answer = self.0.clone();
        Box::pin(async move { answer })
    }
}

#[tokio::test]
async fn g3_the_approver_decides_undecided_calls() {
    let answers = [
        (Ok(Decision::Approved), None),
        (Ok(Decision::Denied), Some(ErrorCode::Denied)),
        (Ok(Decision::Undecided), Some(ErrorCode::ApprovalRequired)),
        (
            Err(ToolFailure::internal("the store is down")),
            Some(ErrorCode::InternalError),
        ),
    ];
    for (answer, code) in answers {
        let asked = Arc::default();
        let says = Says(answer, Arc::clone(&asked));
        let executor = executor(ApprovalRules::default(), Some(Arc::new(says)));
        let result = run(&executor, "delete", &CallContext::default()).await;
        assert_eq!(result.error_code, code);
        assert!(
            run(&executor, "roll", &CallContext::default())
                .await
                .success
        );
        let asked = asked.lock().clone();
        assert_eq!(asked, [("delete".to_owned(), "c".to_owned())]);
    }
}

#[tokio::test]
async fn g3_a_call_without_approval_counts_towards_no_limit() {
    let per_minute = Some(1);
    let default = RateWindows {
        per_minute,
        ..RateWindows::default()
    };
    let config = ExecutorConfig {
        rate_limits: RateLimits {
            default,
            ..RateLimits::default()
        },
        ..ExecutorConfig::default()
    };
    let executor = Executor::new(registry("games"), config);
    let mut context = CallContext::default();
    for _ in 0..3 {
        let asked = run(&executor, "delete", &context).await;
        assert_eq!(asked.error_code, Some(ErrorCode::ApprovalRequired));
    }
    let asked = run(&executor, "delete", &context).await;
    context.approved.insert(id_in(&asked));
    assert!(run(&executor, "delete", &context).await.success);
    let limited = run(&executor, "delete", &context).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
}

#[tokio::test]
async fn bad_arguments_and_unknown_tools_need_no_approval() {
    let asked = Arc::default();
    let says = Says(Ok(Decision::Approved), Arc::clone(&asked));
    let executor = executor(
        rules(&json!({"default": "always-ask"})),
        Some(Arc::new(says)),
    );
    for (name, arguments) in [("nope", json!({})), ("roll", json!({"what": 5}))] {
        let call = ToolCall::new("c", name, arguments);
        let result = executor.execute_one(call, &CallContext::default()).await;
        assert!(!result.success);
    }
    assert_eq!(asked.lock().len(), 0);
}

#[tokio::test]
async fn g2_the_tools_own_policy_ranks_between_rules_and_the_default() {
    use ApprovalPolicy::{AlwaysAsk, Auto, TrustedOnly};
    let always = json!({"default": "always-ask", "trusted": ["move"]});
    let auto = json!({"default": "auto", "trusted": []});
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
    for (brings, policy, runs) in cases {
        let registry = ToolRegistry::new();
        let definition = ToolDefinition::builder("move", "A test").build().unwrap();
        let tool = Remote(definition, "games", "here", brings);
        registry.register(Arc::new(tool)).unwrap();
        let config = ExecutorConfig {
            approvals: rules(policy),
            ..ExecutorConfig::default()
        };
        let executor = Executor::new(Arc::new(registry), config);
        let result = run(&executor, "move", &CallContext::default()).await;
        assert_eq!(result.success, runs, "{brings:?} {policy}");
    }
}

#[tokio::test]
async fn g1_a_rule_may_use_an_alias_and_the_strictest_rule_wins() {
    let registry = registry("games");
    registry.alias("dice", "roll").unwrap();
    let cases = [
        (
            json!({"default": "auto", "tools": {"dice": "always-ask"}}),
            false,
        ),
        (
            json!({"default": "auto", "tools": {"dice": "always-ask", "roll": "auto"}}),
            false,
        ),
        (
            json!({"default": "auto", "tools": {"echo": "always-ask"}}),
            true,
        ),
        (
            json!({"default": "trusted-only", "trusted": ["dice"]}),
            true,
        ),
    ];
    for (policy, runs) in cases {
        let config = ExecutorConfig {
            approvals: rules(&policy),
            ..ExecutorConfig::default()
        };
        let executor = Executor::new(Arc::clone(&registry), config);
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

    fn spend(&self, _: &ApprovalRequest) -> ConsumeFuture {
        *self.used.lock() += 1;
        let spent = self.spent.clone();
        Box::pin(async move { spent })
    }
}

fn once(spent: Result<(), ToolFailure>) -> Arc<Once> {
    Arc::new(Once {
        used: Mutex::default(),
        spent,
    })
}

#[tokio::test]
async fn g3_a_call_that_does_not_run_leaves_its_approval_unused() {
    let approver = once(Ok(()));
    let rate_limits = RateLimits {
        default: RateWindows {
            per_minute: Some(1),
            ..RateWindows::default()
        },
        ..RateLimits::default()
    };
    let config = ExecutorConfig {
        approvals: rules(&json!({"default": "always-ask"})),
        rate_limits,
        ..ExecutorConfig::default()
    };
    let hooks = ExecutorHooks {
        approver: Some(Arc::clone(&approver) as _),
        ..ExecutorHooks::default()
    };
    let executor = Executor::with_hooks(registry("games"), config, hooks);
    assert!(
        run(&executor, "roll", &CallContext::default())
            .await
            .success
    );
    let limited = run(&executor, "roll", &CallContext::default()).await;
    assert_eq!(limited.error_code, Some(ErrorCode::RateLimited));
    assert_eq!(*approver.used.lock(), 1);
}

#[tokio::test]
async fn g3_a_missing_approval_runs_nothing_and_approvals_of_the_context_count() {
    let gone = ToolFailure::new(ErrorCode::ApprovalRequired, "Somebody else has used it");
    let approver = once(Err(gone));
    let executor = executor(
        rules(&json!({"default": "always-ask"})),
        Some(Arc::clone(&approver) as _),
    );
    let mut alice = CallContext::for_user("alice");
    let result = run(&executor, "roll", &alice).await;
    assert_eq!(result.error.as_deref(), Some("Somebody else has used it"));
    let roll = executor.registry().get("roll").unwrap();
    let arguments = json!({"what": "x"});
    let id = id::of(
        &roll,
        arguments.as_object().unwrap(),
        &CallContext::for_user("alice"),
        None,
    );
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
            shown: json!({"variant": variant}),
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
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
    let definition = ToolDefinition::builder("pass", "A test").build().unwrap();
    let registry = executor.registry();
    registry.register(Arc::new(Forwards(definition))).unwrap();
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
        let asked = run(&executor, "pass", &context).await;
        let id = id_in(&asked);
        assert!(ids.insert(id.clone()), "{channel:?} {variant:?}");
        context.approved.insert(id.clone());
        let result = run(&executor, "pass", &context).await.result;
        // The approver has not seen the tracestate.
        assert_eq!(
            result,
            json!({"approval": id, "trace": {"traceparent": parent}})
        );
    }
    let unclear = CallContext {
        variant: Some("unclear".to_owned()),
        ..CallContext::default()
    };
    let refused = run(&executor, "pass", &unclear).await;
    assert_eq!(refused.error_code, Some(ErrorCode::InvalidInput));
}

/// Approves every call with other arguments, and records for which arguments it was spent.
struct Edits(Value, Mutex<Vec<Option<JsonObject>>>);

impl Approver for Edits {
    fn decide(&self, request: ApprovalRequest) -> ApprovalFuture {
        assert_eq!(request.edited, None);
        let edited = self.0.as_object().cloned().unwrap();
        Box::pin(async move { Ok(Decision::Edited(edited)) })
    }

    fn spend(&self, request: &ApprovalRequest) -> ConsumeFuture {
        self.1.lock().push(request.edited.clone());
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn g3_a_call_runs_with_the_arguments_of_the_approver_if_they_are_valid() {
    let always = || rules(&json!({"default": "always-ask"}));
    let edits = Arc::new(Edits(json!({"what": "y"}), Mutex::default()));
    let executor = executor(always(), Some(Arc::clone(&edits) as _));
    let result = run(&executor, "roll", &CallContext::default()).await;
    assert_eq!(result.result, json!({"what": "y"}));
    assert_eq!(result.metadata["approved_arguments"], json!({"what": "y"}));
    assert_eq!(result.to_message().matches("Note: ").count(), 1);
    assert!(result.content().ends_with(r#"It ran with: {"what":"y"}"#));
    assert_eq!(*edits.1.lock(), [json!({"what": "y"}).as_object().cloned()]);
    // Defaults are filled in, and invalid arguments do not run.
    for (edited, outcome) in [
        (json!({}), Ok(json!({"what": "all"}))),
        (
            json!({"what": 7}),
            Err("The arguments of the approver: Invalid type for what: expected string"),
        ),
    ] {
        let edits = Arc::new(Edits(edited, Mutex::default()));
        let executor = self::executor(always(), Some(Arc::clone(&edits) as _));
        let result = run(&executor, "roll", &CallContext::default()).await;
        match outcome {
            Ok(arguments) => assert_eq!(result.result, arguments),
            Err(error) => {
                assert_eq!(result.error.as_deref(), Some(error));
                assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
                assert!(
                    edits.1.lock().is_empty(),
                    "an approval was spent for nothing"
                );
            }
        }
    }
}

#[tokio::test]
async fn g3_the_arguments_of_the_context_belong_to_their_approval() {
    let executor = executor(rules(&json!({"default": "always-ask"})), None);
    let mut alice = CallContext::for_user("alice");
    let id = id_in(&run(&executor, "roll", &alice).await);
    let edited = json!({"what": "y"}).as_object().cloned().unwrap();
    alice.approved_arguments.insert(id.clone(), edited);
    let asked = run(&executor, "roll", &alice).await;
    assert_eq!(asked.error_code, Some(ErrorCode::ApprovalRequired));
    alice.approved.insert(id);
    assert_eq!(
        run(&executor, "roll", &alice).await.result,
        json!({"what": "y"})
    );
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
    let rules = rules(&json!({"default": "always-ask"}));
    let executor = executor(rules, Some(Arc::clone(&edits) as _));
    let definition = ToolDefinition::builder("fixed", "A test").build().unwrap();
    let registry = executor.registry();
    registry.register(Arc::new(Fixed(definition))).unwrap();
    let result = run(&executor, "fixed", &CallContext::default()).await;
    assert_eq!(result.error_code, Some(ErrorCode::Denied), "{result:?}");
    assert!(edits.1.lock().is_empty());
}
