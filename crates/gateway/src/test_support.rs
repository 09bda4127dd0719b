//! Values for the unit tests of several modules.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::store::{ApprovalDecision, ApprovalRecord, Timestamp, Verdict};
use pillion_core::tool::{FnTool, Tool, ToolDefinition, ToolOutput};
use pillion_store::{SqlStore, StoreLocation, StoreOptions};

/// Opens an empty store in memory.
pub(crate) async fn memory_store() -> Arc<SqlStore> {
    let options = StoreOptions::new(StoreLocation::Memory);
    Arc::new(SqlStore::open(&options).await.unwrap())
}

/// Returns a tool whose description and result are `text`.
pub(crate) fn tool(name: &str, text: &'static str) -> Arc<dyn Tool> {
    let definition = ToolDefinition::builder(name, text).build().unwrap();
    let run = move |_, _| async move { Ok(ToolOutput::text(text)) };
    Arc::new(FnTool::new(definition, run))
}

/// Returns an undecided approval that is created `expires_after` from now.
pub(crate) fn approval(id: &str, expires_after: Duration) -> ApprovalRecord {
    let created_at = Timestamp::now().plus(expires_after);
    ApprovalRecord {
        id: id.to_owned(),
        call: None,
        tool: "send".to_owned(),
        server: None,
        arguments_hash: "hash".to_owned(),
        arguments: "{}".to_owned(),
        user: None,
        user_is_verified: false,
        principal: None,
        channel: None,
        forwarded: None,
        created_at,
        expires_at: created_at.plus(Duration::from_secs(900)),
        decision: None,
        used_at: None,
    }
}

/// Returns a decision of Alice.
pub(crate) fn decision(verdict: Verdict, decided_at: Timestamp) -> ApprovalDecision {
    ApprovalDecision {
        verdict,
        decider: "alice".to_owned(),
        decided_at,
        reason: None,
        arguments: None,
    }
}
