use std::collections::HashMap;
use std::num::NonZeroUsize;

use super::ToolSource;
use crate::executor::ToolSettings;
use crate::tool::ToolName;

/// Limits of running and queued calls.
#[derive(Debug, Clone)]
pub(in crate::executor) struct QueueLimits {
    /// Maximum number of running calls, of all tools.
    pub(in crate::executor) max_running: usize,
    /// Maximum number of running calls of tools that belong to no MCP server.
    pub(in crate::executor) max_local: usize,
    /// Maximum number of running calls of each MCP server's tools.
    pub(in crate::executor) max_per_server: usize,
    /// Maximum number of running calls of individual MCP servers, by label; overrides
    /// `max_per_server`.
    pub(in crate::executor) server_limits: HashMap<String, NonZeroUsize>,
    /// Maximum number of running calls of individual tools, by name, in addition to the maximum of
    /// the tool's source.
    pub(in crate::executor) tool_limits: ToolSettings<NonZeroUsize>,
    /// Maximum number of running calls of each account.
    pub(in crate::executor) max_per_account: usize,
    /// Maximum number of queued calls.
    pub(in crate::executor) max_queued: usize,
}

impl QueueLimits {
    /// Returns limits that do not depend on the source or the tool, only on the account.
    pub(in crate::executor) fn by_account(
        max_running: usize,
        max_per_account: usize,
        max_queued: usize,
    ) -> Self {
        Self {
            max_running,
            max_local: max_running,
            max_per_server: max_running,
            server_limits: HashMap::new(),
            tool_limits: ToolSettings::default(),
            max_per_account,
            max_queued,
        }
    }

    /// Returns the maximum number of running calls of one source.
    pub(in crate::executor) fn max_of_source(&self, source: &ToolSource) -> usize {
        let max_of_source = match source {
            ToolSource::Local => self.max_local,
            ToolSource::Server(label) => {
                let own_limit = self.server_limits.get(label).copied();
                own_limit
                    .map_or(self.max_per_server, NonZeroUsize::get)
                    .min(self.max_of_all_servers())
            }
        };
        max_of_source.min(self.max_running)
    }

    /// Returns the maximum number of running calls of all MCP servers together. One permit is
    /// reserved for local tools, so that servers that do not respond cannot block local tools.
    pub(super) fn max_of_all_servers(&self) -> usize {
        self.max_running.saturating_sub(1).max(1)
    }

    /// Returns the configured maximum number of running calls of one tool, which applies in
    /// addition to the maximum of the tool's source. `None` if no maximum is configured for the
    /// tool.
    pub(super) fn max_of_tool(&self, tool: &ToolName) -> Option<usize> {
        self.tool_limits
            .get(tool.as_str())
            .copied()
            .map(NonZeroUsize::get)
    }
}
