use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::{OversizedResult, ResultStore, StoreResultFuture, StoredResult};
use crate::executor::{Executor, ExecutorConfig, ExecutorHooks};
use crate::registry::ToolRegistry;
use crate::tests::{add, assert_failure, call_for, definition};
use crate::tool::{ErrorCode, ToolFailure, ToolOutput, ToolResult};

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
    let registry = ToolRegistry::new();
    add(&registry, definition("long"), move |_, _| async move {
        // Two-byte characters, so that the limit may fall inside a character.
        Ok(ToolOutput::text("\u{e9}".repeat(bytes / 2)).with_metadata("source", json!("s")))
    });
    let config = ExecutorConfig {
        max_result_bytes: Some(1_001),
        ..ExecutorConfig::default()
    };
    let hooks = ExecutorHooks {
        result_store: shelf.map(|shelf| shelf as Arc<dyn ResultStore>),
        ..ExecutorHooks::default()
    };
    let executor = Executor::with_hooks(Arc::new(registry), config, hooks);
    call_for(&executor, "alice", "long").await
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
    let entry = json!({"id": "7", "bytes": 5000, "mediaType": "text/plain", "url": "/results/7"});
    assert_eq!(large.metadata["stored_result"], entry);
    assert_eq!(large.metadata["source"], json!("s"));
    let stored = shelf.results.lock();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].output.result.as_str().unwrap().len(), 5_000);
    assert_eq!(stored[0].context.user.as_deref(), Some("alice"));
}

#[tokio::test]
async fn c5_a_large_result_that_cannot_be_stored_is_a_failure_with_its_start() {
    let full = Shelf {
        is_full: true,
        ..Shelf::default()
    };
    for (shelf, code) in [
        (None, ErrorCode::InternalError),
        (Some(Arc::new(full)), ErrorCode::Unavailable),
    ] {
        let result = run(shelf, 5_000).await;
        assert_eq!(result.error_code, Some(code));
        assert_eq!(result.result.as_str().unwrap().len(), 1_000);
    }
}

/// Runs a tool that fails with a message and a result of this size.
async fn fail(bytes: usize, config: ExecutorConfig) -> ToolResult {
    let registry = ToolRegistry::new();
    add(&registry, definition("wails"), move |_, _| async move {
        let text = "\u{e9}".repeat(bytes / 2);
        let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        Err(ToolFailure::internal(text).with_result(result))
    });
    let executor = Executor::new(Arc::new(registry), config);
    Box::pin(call_for(&executor, "alice", "wails")).await
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
        let start = "\u{e9}".repeat(1_024);
        let truncated = format!("{start}\n[Truncated: 15000 bytes in total]");
        assert_failure(&large, ErrorCode::InternalError, &truncated);
        assert_eq!(large.result, json!(start));
        assert_eq!(large.metadata["truncated"], json!(true));
    }
}
