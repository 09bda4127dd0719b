//! Tools that remember facts across conversations: `search_memory`, `remember` and `forget`, over a
//! [`MemoryStore`].
//!
//! A memory belongs to the channel of the call that created it, and to the call's user or, if
//! `shared`, to all users of the channel. A call can find and forget only its own user's memories
//! and the shared memories of its channel. The user must be verified; a call with an unverified
//! user name is rejected.

mod forget;
mod remember;
mod scope;
mod search;

use std::sync::Arc;

use pillion_core::store::{MemoryStore, StoreError};
use pillion_core::tool::{
    ActingIdentityFuture, CallContext, ErrorCode, JsonObject, Tool, ToolDefinition, ToolFailure,
    ToolFuture,
};

use scope::MemoryScope;

/// Maximum length of a memory, in characters.
const MAX_CONTENT_CHARS: usize = 2000;

/// Maximum number of memories of one user in one channel; also the maximum number of shared
/// memories of one channel. The number also limits how many memories a search reads.
const MAX_MEMORIES: u32 = 10_000;

/// Returns the tools `search_memory`, `remember` and `forget` over a store, in listing order.
#[must_use]
pub fn memory(store: &Arc<dyn MemoryStore>) -> [Arc<dyn Tool>; 3] {
    let create_tool = |definition, run: RunFn| -> Arc<dyn Tool> {
        let store = Arc::clone(store);
        Arc::new(MemoryTool {
            definition,
            store,
            run,
        })
    };
    [
        create_tool(search::definition(), |store, arguments, scope| {
            Box::pin(search::run(store, arguments, scope))
        }),
        create_tool(remember::definition(), |store, arguments, scope| {
            Box::pin(remember::run(store, arguments, scope))
        }),
        create_tool(forget::definition(), |store, arguments, scope| {
            Box::pin(forget::run(store, arguments, scope))
        }),
    ]
}

struct MemoryTool {
    definition: ToolDefinition,
    store: Arc<dyn MemoryStore>,
    run: RunFn,
}

type RunFn = fn(Arc<dyn MemoryStore>, JsonObject, MemoryScope) -> ToolFuture;

impl Tool for MemoryTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        Some(MemoryScope::acting_identity(context))
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        match MemoryScope::from_context(&context) {
            Ok(scope) => (self.run)(Arc::clone(&self.store), arguments, scope),
            Err(failure) => Box::pin(async { Err(failure) }),
        }
    }
}

/// Logs an error of the memory store, and returns a failure without the details of the error.
fn log_unavailable_store(error: &StoreError) -> ToolFailure {
    tracing::warn!(%error, "The memory store is unavailable");
    ToolFailure::new(
        ErrorCode::Unavailable,
        "The memory store is unavailable: retry later",
    )
}

/// Removes control characters except line breaks and tabs, and white space at both ends. Databases
/// cannot store some control characters, such as NUL.
fn sanitize(text: &str) -> String {
    let chars = text
        .chars()
        .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'));
    chars.collect::<String>().trim().to_owned()
}
