use std::collections::HashMap;
use std::num::NonZeroUsize;

use super::ToolSource;
use crate::executor::ToolSettings;
use crate::tool::ToolName;

/// Limits of running and queued calls.
#[derive(Debug, Clone)]
pub(in crate::executor) struct QueueLimits {
    /// Maximum number of running calls, of all tools.
    pub(in crate::executor) places: usize,
    /// Maximum number of running calls of tools that belong to no MCP server.
    pub(in crate::executor) local_places: usize,
    /// Maximum number of running calls of each MCP server's tools.
    pub(in crate::executor) server_places: usize,
    /// Maximum number of running calls of single MCP servers, by label; overrides `server_places`.
    pub(in crate::executor) places_of_servers: HashMap<String, NonZeroUsize>,
    /// Maximum number of running calls of single tools, by name; other tools have their source's
    /// limit.
    pub(in crate::executor) tool_places: ToolSettings<NonZeroUsize>,
    /// Maximum number of running calls of each account.
    pub(in crate::executor) account_places: usize,
    /// Maximum number of queued calls.
    pub(in crate::executor) most_waiting: usize,
}

impl QueueLimits {
    /// Returns limits that do not depend on the source or the tool, only on the account.
    pub(in crate::executor) fn by_account(
        places: usize,
        account_places: usize,
        most_waiting: usize,
    ) -> Self {
        Self {
            places,
            local_places: places,
            server_places: places,
            places_of_servers: HashMap::new(),
            tool_places: ToolSettings::default(),
            account_places,
            most_waiting,
        }
    }

    /// Returns the maximum number of running calls of one source.
    pub(in crate::executor) fn max_of_source(&self, source: &ToolSource) -> usize {
        let own = match source {
            ToolSource::Local => self.local_places,
            ToolSource::Server(label) => {
                let own = self.places_of_servers.get(label).copied();
                own.map_or(self.server_places, NonZeroUsize::get)
                    .min(self.max_of_all_servers())
            }
        };
        own.min(self.places)
    }

    /// Returns the maximum number of running calls of all MCP servers together. One permit is
    /// reserved for local tools, so that servers that do not respond cannot block local tools.
    pub(super) fn max_of_all_servers(&self) -> usize {
        self.places.saturating_sub(1).max(1)
    }

    /// Returns the maximum number of running calls of one tool, if that is less than its source's.
    pub(super) fn max_of_tool(&self, tool: &ToolName) -> Option<usize> {
        self.tool_places
            .get(tool.as_str())
            .copied()
            .map(NonZeroUsize::get)
    }
}
