//! Arguments that a model has written in another form than the tool's schema requires.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ApprovalPolicy, Executor, ExecutorConfig};
use crate::registry::ToolRegistry;
use crate::tests::{add_echo, call};
use crate::tool::{CallContext, ErrorCode, ToolDefinition, ToolResult};

fn executor(policy: ApprovalPolicy) -> Executor {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "rows": {"type": "array", "items": {"type": "integer"}},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "unit": {"type": "string", "default": "m"},
    }});
    let builder = ToolDefinition::builder("tell", "Returns its arguments").schema(schema);
    let registry = ToolRegistry::new();
    add_echo(&registry, builder.build().unwrap());
    let mut config = ExecutorConfig::default();
    config.approvals.default = policy;
    Executor::new(Arc::new(registry), config)
}

async fn run(executor: &Executor, arguments: Value, is_by_model: bool) -> ToolResult {
    let context = CallContext {
        is_by_model,
        ..CallContext::default()
    };
    call(executor, "tell", arguments, &context).await
}

/// Arguments as models are known to write them, and what they mean.
fn odd_arguments() -> Vec<(Value, Value)> {
    let twice = |value: Value| json!(json!(value.to_string()).to_string());
    vec![
        (json!("[]"), json!({"unit": "m"})),
        (json!("\"\""), json!({"unit": "m"})),
        (json!("\"null\""), json!({"unit": "m"})),
        (twice(json!({"n": 1})), json!({"n": 1, "unit": "m"})),
        (
            json!(twice(json!({"n": 1})).to_string()),
            json!({"n": 1, "unit": "m"}),
        ),
        (json!({"n": "10"}), json!({"n": 10, "unit": "m"})),
        (
            json!("{\"rows\": \"[1,2]\"}"),
            json!({"rows": [1, 2], "unit": "m"}),
        ),
        (
            twice(json!({"rows": "[1]"})),
            json!({"rows": [1], "unit": "m"}),
        ),
        (
            json!({"n": "10", "either": "10", "unit": "1"}),
            json!({"n": 10, "either": "10", "unit": "1"}),
        ),
    ]
}

#[tokio::test]
async fn c3_the_arguments_of_a_model_are_repaired_and_those_of_programs_are_not() {
    let executor = executor(ApprovalPolicy::Auto);
    for (arguments, meant) in odd_arguments() {
        let result = run(&executor, arguments.clone(), true).await;
        assert_eq!(result.result, meant, "{arguments}: {result:?}");
        assert_eq!(result.metadata[ToolResult::REPAIRED_ARGUMENTS], meant);
        let result = run(&executor, arguments.clone(), false).await;
        let code = result.error_code;
        assert_eq!(code, Some(ErrorCode::InvalidInput), "{arguments}");
        assert_eq!(result.metadata.get(ToolResult::REPAIRED_ARGUMENTS), None);
    }
}

#[tokio::test]
async fn c3_valid_and_unclear_arguments_of_a_model_stay() {
    let executor = executor(ApprovalPolicy::Auto);
    for arguments in [
        json!(null),
        json!(""),
        json!([]),
        json!("null"),
        json!("{\"n\": 1}"),
        json!({"either": "10", "unit": "[1]"}),
        json!({"unknown": "10"}),
    ] {
        let result = run(&executor, arguments.clone(), true).await;
        assert!(result.success, "{arguments}: {result:?}");
        let repaired = result.metadata.get(ToolResult::REPAIRED_ARGUMENTS);
        assert_eq!(repaired, None, "{arguments}");
    }
    for (arguments, error) in [
        (json!("[1]"), "The arguments must be a JSON object"),
        (json!("\"{bad\""), "The arguments must be a JSON object"),
        (json!("{bad"), "Invalid JSON in arguments"),
        (json!({"n": "ten"}), "Invalid type for n: expected integer"),
        (
            json!({"n": "1", "rows": 5}),
            "Invalid type for n: expected integer",
        ),
    ] {
        let result = run(&executor, arguments.clone(), true).await;
        let message = result.error.unwrap_or_default();
        assert!(message.starts_with(error), "{arguments}: {message}");
    }
}

#[tokio::test]
async fn g3_an_approval_shows_the_repaired_arguments() {
    let executor = executor(ApprovalPolicy::AlwaysAsk);
    let result = run(&executor, json!({"n": "10"}), true).await;
    assert_eq!(result.error_code, Some(ErrorCode::ApprovalRequired));
    let meant = json!({"n": 10, "unit": "m"});
    assert_eq!(result.metadata["arguments"], meant);
    assert_eq!(result.metadata[ToolResult::REPAIRED_ARGUMENTS], meant);
    // The approval is valid for the call as the model repeats it, in whichever form.
    let id = result.metadata["approval_id"].as_str().unwrap().to_owned();
    for arguments in [json!({"n": "10"}), json!({"n": 10})] {
        let context = CallContext {
            is_by_model: true,
            approved: [id.clone()].into(),
            ..CallContext::default()
        };
        let result = call(&executor, "tell", arguments, &context).await;
        assert_eq!(result.result, meant);
    }
}
