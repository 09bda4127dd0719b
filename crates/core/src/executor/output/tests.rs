use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::{OversizedResult, ResultStore, StoreResultFuture, StoredResult};
use crate::executor::{Executor, ExecutorConfig, ExecutorHooks};
use crate::registry::ToolRegistry;
use crate::tool::{
    CallContext, ErrorCode, FnTool, ToolCall, ToolDefinition, ToolFailure, ToolOutput, ToolResult,
};

/// Stores results in memory, or rejects them as full.
#[derive(Default)]
struct Shelf {
    is_full: bool,
    results: Mutex<Vec<OversizedResult>>,
}

impl ResultStore for Shelf {
    fn put(&self, result: OversizedResult) -> StoreResultFuture {
        self.results.lock().push(result);
        let is_full = self.is_full;
        Box::pin(async move {
            if is_full {
                return Err(ToolFailure::new(ErrorCode::Unavailable, "No room"));
            }
            Ok(StoredResult {
                id: "7".to_owned(),
                bytes: 5_000,
                media_type: "text/plain".to_owned(),
                url: "/results/7".to_owned(),
            })
        })
    }
}

async fn run(shelf: Option<Arc<Shelf>>, bytes: usize) -> ToolResult {
    let definition = ToolDefinition::builder("long", "Goes on").build().unwrap();
    let long = FnTool::new(definition, move |_, _| async move {
        // Two-byte characters, so that the limit may fall inside a character.
        Ok(ToolOutput::text("\u{e9}".repeat(bytes / 2)).with_metadata("source", json!("s")))
    });
    let registry = ToolRegistry::new();
    registry.register(Arc::new(long)).unwrap();
    let config = ExecutorConfig {
        max_result_bytes: Some(1_001),
        ..ExecutorConfig::default()
    };
    let hooks = ExecutorHooks {
        result_store: shelf.map(|shelf| shelf as Arc<dyn ResultStore>),
        ..ExecutorHooks::default()
    };
    let executor = Executor::with_hooks(Arc::new(registry), config, hooks);
    let call = ToolCall::new("c", "long", json!({}));
    executor
        .execute_one(call, &CallContext::for_user("alice"))
        .await
}

#[tokio::test]
async fn a_result_that_is_too_large_is_offloaded_and_its_start_returned() {
    let shelf = Arc::new(Shelf::default());
    let small = run(Some(Arc::clone(&shelf)), 900).await;
    assert_eq!(small.result.as_str().unwrap().len(), 900);
    let large = run(Some(Arc::clone(&shelf)), 5_000).await;
    assert!(large.success);
    let text = large.result.as_str().unwrap();
    let beginning = "\u{e9}".repeat(500);
    assert!(text.starts_with(&beginning) && text.len() < 1_200, "{text}");
    assert_eq!(
        large.metadata["stored_result"],
        json!({"id": "7", "bytes": 5000, "mediaType": "text/plain", "url": "/results/7"})
    );
    assert_eq!(large.metadata["source"], json!("s"));
    let kept = shelf.results.lock();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].output.result.as_str().unwrap().len(), 5_000);
    assert_eq!(kept[0].context.user.as_deref(), Some("alice"));
}

#[tokio::test]
async fn c5_a_large_result_that_cannot_be_stored_is_a_failure_with_its_start() {
    let nowhere = run(None, 5_000).await;
    assert_eq!(nowhere.error_code, Some(ErrorCode::InternalError));
    assert_eq!(nowhere.result.as_str().unwrap().len(), 1_000);
    let full = Arc::new(Shelf {
        is_full: true,
        ..Shelf::default()
    });
    let full = run(Some(full), 5_000).await;
    assert_eq!(full.error_code, Some(ErrorCode::Unavailable));
    assert_eq!(full.result.as_str().unwrap().len(), 1_000);
}

/// Runs a tool that fails with a message and a result of this size.
async fn fail(bytes: usize, config: ExecutorConfig) -> ToolResult {
    let definition = ToolDefinition::builder("wails", "Fails").build().unwrap();
    let wails = FnTool::new(definition, move |_, _| async move {
        let text = "\u{e9}".repeat(bytes / 2);
        let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        Err(ToolFailure::internal(text).with_result(result))
    });
    let registry = ToolRegistry::new();
    registry.register(Arc::new(wails)).unwrap();
    let executor = Executor::new(Arc::new(registry), config);
    let call = ToolCall::new("c", "wails", json!({}));
    Box::pin(executor.execute_one(call, &CallContext::default())).await
}

#[tokio::test]
async fn c5_a_failure_that_is_too_large_is_truncated() {
    let small = fail(1_900, ExecutorConfig::default()).await;
    assert_eq!(small.error.unwrap().len(), 1_900);
    assert_eq!(small.result["isError"], json!(true));
    assert_eq!(small.metadata.get("truncated"), None);
    let of_outputs = ExecutorConfig {
        max_output_bytes: 4_000,
        ..ExecutorConfig::default()
    };
    let of_results = ExecutorConfig {
        max_result_bytes: Some(4_000),
        ..ExecutorConfig::default()
    };
    for config in [of_outputs, of_results] {
        let whole = fail(3_000, config.clone()).await;
        assert_eq!(whole.error.unwrap().len(), 3_000);
        let large = fail(15_001, config).await;
        assert_eq!(large.error_code, Some(ErrorCode::InternalError));
        let error = large.error.unwrap();
        let beginning = "\u{e9}".repeat(1_024);
        assert_eq!(
            error,
            format!("{beginning}\n[Truncated: 15000 bytes in total]")
        );
        assert_eq!(large.result, json!(beginning));
        assert_eq!(large.metadata["truncated"], json!(true));
    }
}
