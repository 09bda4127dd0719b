use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::ToolRunner;
use pillion_core::executor::Executor;
use pillion_core::tool::{CallContext, ToolCall, ToolResult};

use crate::switchboard::Switchboard;

/// An executor of PHP: native and MCP tools run side by side, beside them those in PHP one after
/// the other. Each one's time limit starts when its turn comes.
pub(super) struct PhpRunner {
    pub(super) executor: Executor,
    /// The names of the tools that are PHP code.
    pub(super) in_php: HashSet<String>,
    pub(super) switchboard: Arc<Switchboard>,
}

#[async_trait]
impl ToolRunner for PhpRunner {
    fn canonical_name(&self, name: &str) -> Option<String> {
        Some(self.executor.find(name)?.name().to_string())
    }

    fn at_once(&self) -> NonZeroUsize {
        self.executor.max_concurrent()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        let name = self.canonical_name(&call.name);
        let is_php = name.is_some_and(|name| self.in_php.contains(&name));
        let line = self.switchboard.find(context);
        let Some(line) = line.filter(|_| is_php) else {
            return self.executor.execute_one(call, context).await;
        };
        let mut context = context.clone();
        let _turn = line.turn(&mut context).await;
        self.executor.execute_one(call, &context).await
    }
}
