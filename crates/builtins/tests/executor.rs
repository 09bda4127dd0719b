//! Runs the default tools through the registry and the executor, which validates arguments and sets
//! defaults.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::{Value, json};

async fn run(tool: &str, arguments: Value) -> ToolResult {
    let registry = Arc::new(ToolRegistry::new());
    let names = registry
        .register_missing(pillion_builtins::all())
        .expect("the registry is empty");
    assert_eq!(names.len(), 3);
    Executor::new(registry, ExecutorConfig::default())
        .execute_one(ToolCall::new("1", tool, arguments), &CallContext::default())
        .await
}

#[test]
fn n1_the_calculator_has_its_own_time_limit() {
    let registry = ToolRegistry::new();
    registry.register_missing(pillion_builtins::all()).unwrap();
    let limit = |name: &str| registry.get(name).unwrap().tool().time_limit();
    assert_eq!(limit("calculator"), Some(Duration::from_secs(5)));
    assert_eq!(limit("roll_dice"), None);
}

#[test]
fn h3_aliases_belong_to_registered_tools() {
    let registry = ToolRegistry::new();
    registry.register_missing(pillion_builtins::all()).unwrap();
    pillion_builtins::set_aliases(&registry).unwrap();
    assert_eq!(
        registry.get("time_tool").unwrap().name().as_str(),
        "get_time"
    );
    for (alias, _) in &pillion_builtins::ALIASES {
        assert_eq!(registry.contains(alias), *alias == "time_tool");
    }
}

#[tokio::test]
async fn d1_through_the_executor() {
    let result = run("calculator", json!({"expression": "47.50 * 0.15"})).await;
    assert_eq!(result.to_message(), "7.125");
    let result = run("calculator", json!({"expression": "9**9**9"})).await;
    assert_eq!(
        result.to_message(),
        "Error: Calculation error: number too large"
    );
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    let result = run("calculator", json!({})).await;
    assert_eq!(
        result.to_message(),
        "Error: Missing required parameter: expression"
    );
}

#[tokio::test]
async fn d2_through_the_executor() {
    let result = run("get_time", json!({"timezone": "Asia/Tokyo"})).await;
    assert!(result.to_message().ends_with(" JST"), "{result:?}");
    let result = run("get_time", json!({"format": "timestamp"})).await;
    assert!(result.data.unwrap()["formatted"].is_i64());
    let result = run("get_time", json!({"timezone": "../etc/passwd"})).await;
    assert_eq!(
        result.to_message(),
        "Error: Unknown timezone: ../etc/passwd"
    );
    let result = run("get_time", json!({"format": "long"})).await;
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
}

#[tokio::test]
async fn d3_through_the_executor() {
    let result = run("roll_dice", json!({"dice": "1d6"})).await;
    assert!(
        result.to_message().starts_with("Rolled 1d6: **"),
        "{result:?}"
    );
    let result = run("roll_dice", json!({})).await;
    assert_eq!(result.to_message(), "Error: No dice notation provided");
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    let result = run("roll_dice", json!({"dice": "1d6", "seed": "x"})).await;
    assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
}
