//! The memory tools, over a store that is a list and can be made to fail.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pillion_builtins::memory::memory;
use pillion_core::executor::{CacheRule, CacheScope, Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::store::{Memory, MemorySearch, MemoryStore, StoreError, Timestamp};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolResult};
use serde_json::{Value, json};

/// A store that finds all memories that the user may see, regardless of the query.
#[derive(Default)]
struct List {
    memories: Mutex<Vec<Memory>>,
    is_gone: bool,
}

impl List {
    fn check_available(&self) -> Result<(), StoreError> {
        if self.is_gone {
            return Err(StoreError::unavailable("no socket at /secret/path"));
        }
        Ok(())
    }
}

#[async_trait]
impl MemoryStore for List {
    async fn insert_memory(&self, memory: &Memory, max: u32) -> Result<bool, StoreError> {
        self.check_available()?;
        let mut memories = self.memories.lock();
        let is_full = memories.len() >= usize::try_from(max).unwrap();
        memories.push(memory.clone());
        Ok(!is_full)
    }

    async fn search_memories(
        &self,
        search: &MemorySearch,
        _: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        self.check_available()?;
        let mut found = self.memories.lock().clone();
        found.retain(|memory| {
            memory.channel == search.channel
                && (memory.user.is_none() || memory.user == search.user)
        });
        found.truncate(search.limit.try_into().unwrap());
        Ok(found)
    }

    async fn remove_memory(
        &self,
        channel: &str,
        user: Option<&str>,
        id: &str,
    ) -> Result<(), StoreError> {
        self.check_available()?;
        let mut memories = self.memories.lock();
        let before = memories.len();
        memories.retain(|memory| {
            let is_visible = memory.user.is_none() || memory.user.as_deref() == user;
            !(memory.id == id && memory.channel == channel && is_visible)
        });
        if memories.len() == before {
            return Err(StoreError::not_found("no memory has this ID"));
        }
        Ok(())
    }
}

fn executor(store: List) -> Executor {
    let registry = Arc::new(ToolRegistry::new());
    let store: Arc<dyn MemoryStore> = Arc::new(store);
    registry.register_missing(memory(&store)).unwrap();
    let mut config = ExecutorConfig::default();
    let rule = CacheRule {
        ttl: std::time::Duration::from_secs(60),
        scope: CacheScope::Public,
    };
    // This cache rule is a misconfiguration; even so, no user may receive another user's memories.
    config.cache.tools.insert("search_memory".to_owned(), rule);
    Executor::new(registry, config)
}

fn caller(user: &str, channel: &str) -> CallContext {
    CallContext {
        user: (!user.is_empty()).then(|| user.to_owned()),
        is_user_verified: true,
        channel: (!channel.is_empty()).then(|| channel.to_owned()),
        ..CallContext::default()
    }
}

async fn call(
    executor: &Executor,
    context: &CallContext,
    tool: &str,
    arguments: Value,
) -> ToolResult {
    let call = ToolCall::new("1", tool, arguments);
    Box::pin(executor.execute_one(call, context)).await
}

async fn found(executor: &Executor, context: &CallContext, limit: u8) -> Vec<String> {
    let arguments = json!({"query": "x", "limit": limit});
    let result = call(executor, context, "search_memory", arguments).await;
    let data = result.data.unwrap();
    let memories = data["memories"].as_array().unwrap().iter();
    memories
        .map(|memory| memory["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn d5_users_cannot_find_or_remove_memories_of_other_users() {
    let executor = executor(List::default());
    let (alice, bob) = (caller("alice", "table"), caller("bob", "table"));
    let content = json!({"content": " Likes dice\0 "});
    let remembered = call(&executor, &alice, "remember", content).await;
    let data = remembered.data.unwrap();
    assert_eq!(data["content"], "Likes dice");
    assert_eq!(
        (&data["category"], &data["importance"]),
        (&json!("fact"), &json!(1))
    );
    assert_eq!(data["shared"], false);
    let id = data["id"].as_str().unwrap();
    assert_eq!(remembered.result, format!("Remembered (id {id})"));
    let arguments = json!({"content": "We play on Fridays", "shared": true, "importance": 5.0,
        "category": "topic"});
    let result = call(&executor, &bob, "remember", arguments).await;
    let shared = result.data.unwrap();
    assert_eq!(
        (&shared["shared"], &shared["importance"]),
        (&json!(true), &json!(5))
    );

    assert_eq!(
        found(&executor, &alice, 5).await,
        ["Likes dice", "We play on Fridays"]
    );
    for (context, memories) in [
        (&bob, vec!["We play on Fridays"]),
        (&caller("", "table"), vec!["We play on Fridays"]),
        (&caller("alice", "elsewhere"), vec![]),
        (&caller("alice", ""), vec![]),
    ] {
        // The arguments are those of alice's call, whose result is cached.
        assert_eq!(found(&executor, context, 5).await, memories, "{context:?}");
    }
    let forget = json!({"id": id});
    for context in [&bob, &caller("", "table"), &caller("alice", "elsewhere")] {
        let result = call(&executor, context, "forget", forget.clone()).await;
        assert_eq!(result.error_code, Some(ErrorCode::NotFound));
        assert_eq!(result.error.unwrap(), format!("Memory not found: {id}"));
    }
    let result = call(&executor, &alice, "forget", forget).await;
    assert_eq!((result.success, result.result), (true, json!("Forgotten")));
    assert_eq!(found(&executor, &alice, 4).await, ["We play on Fridays"]);
}

#[tokio::test]
async fn d5_a_claimed_user_cannot_use_the_memory_tools() {
    let executor = executor(List::default());
    let claimed = CallContext {
        is_user_verified: false,
        ..caller("alice", "table")
    };
    for (tool, arguments) in [
        ("remember", json!({"content": "x"})),
        ("search_memory", json!({"query": "x"})),
        ("forget", json!({"id": "x"})),
    ] {
        let result = call(&executor, &claimed, tool, arguments).await;
        assert_eq!(result.error_code, Some(ErrorCode::Denied), "{tool}");
    }
}

#[tokio::test]
async fn d5_a_search_returns_its_hits_as_text() {
    let executor = executor(List::default());
    let alice = caller("alice", "table");
    let result = call(&executor, &alice, "search_memory", json!({"query": "dice"})).await;
    assert_eq!(result.result, "No memories found");
    for number in 0..30 {
        let arguments = json!({"content": format!("Fact {number}"), "importance": 3});
        assert!(call(&executor, &alice, "remember", arguments).await.success);
    }
    let arguments = json!({"query": "fact", "limit": 1});
    let result = call(&executor, &alice, "search_memory", arguments).await;
    let text = result.result.as_str().unwrap();
    assert!(
        text.starts_with("- Fact 0 (fact, importance 3, id "),
        "{text}"
    );
    for (limit, count) in [(0, 1), (7, 7), (200, 20)] {
        assert_eq!(found(&executor, &alice, limit).await.len(), count);
    }
    let by_default = call(&executor, &alice, "search_memory", json!({"query": "fact"})).await;
    assert_eq!(by_default.result.as_str().unwrap().lines().count(), 5);
}

#[tokio::test]
async fn d5_invalid_memories_are_rejected() {
    let executor = executor(List::default());
    let alice = caller("alice", "table");
    let importance = |importance: u8| json!({"content": "x", "importance": importance});
    let too_long = json!({"content": "x".repeat(2001)});
    let unknown = json!({"content": "x", "category": "rumour"});
    let unknown_category =
        "Invalid value for category: must be one of ['fact', 'preference', 'topic']";
    for (tool, arguments, message) in [
        (
            "remember",
            json!({"content": " \u{7} "}),
            "No content provided",
        ),
        (
            "remember",
            too_long,
            "The content is longer than 2000 characters",
        ),
        ("remember", importance(6), "importance must be from 1 to 5"),
        ("remember", importance(0), "importance must be from 1 to 5"),
        ("remember", unknown, unknown_category),
        ("remember", json!({}), "Missing required parameter: content"),
        ("search_memory", json!({"query": "  "}), "No query provided"),
        ("forget", json!({}), "Missing required parameter: id"),
    ] {
        let result = call(&executor, &alice, tool, arguments).await;
        assert_eq!(result.error.as_deref(), Some(message));
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    }
}

#[tokio::test]
async fn d5_a_failing_store_is_unavailable_without_details() {
    let executor = executor(List {
        is_gone: true,
        ..List::default()
    });
    for (tool, arguments) in [
        ("remember", json!({"content": "x"})),
        ("search_memory", json!({"query": "x"})),
        ("forget", json!({"id": "x"})),
    ] {
        let result = call(&executor, &caller("alice", "c"), tool, arguments).await;
        assert_eq!(result.error_code, Some(ErrorCode::Unavailable), "{tool}");
        assert_eq!(
            result.error.unwrap(),
            "The memory store is unavailable: retry later"
        );
    }
}
