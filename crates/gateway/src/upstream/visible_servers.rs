//! Decides which servers' resources and prompts a caller may see.

use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::tool::CallContext;

use super::{Server, Upstreams};
use crate::visibility::Visibility;

/// The servers that are visible to a caller: those with a tool that the caller may see. Resources
/// and prompts of other servers are hidden, as with [packs](Visibility::packs).
///
/// A server without tools is visible to a caller who may see every name with the server's prefix.
#[derive(Debug)]
pub struct VisibleServers {
    /// The addresses of the visible servers' [`Arc`]s; `None` if all servers are visible.
    servers: Option<HashSet<usize>>,
}

impl VisibleServers {
    /// Returns whether the caller may see the resources and prompts of this server.
    pub fn has(&self, server: &Arc<Server>) -> bool {
        let servers = self.servers.as_ref();
        servers.is_none_or(|servers| servers.contains(&address(server)))
    }
}

fn address(server: &Arc<Server>) -> usize {
    Arc::as_ptr(server).addr()
}

impl Upstreams {
    /// Returns the servers that are visible to this caller. First lists the tools of the servers,
    /// if the visibility of a server depends on its tools.
    pub async fn visible_servers(
        self: &Arc<Self>,
        context: &CallContext,
        visibility: &Visibility,
    ) -> VisibleServers {
        if visibility.has_all_tools() {
            return VisibleServers { servers: None };
        }
        let mut visible_servers = HashSet::new();
        let mut needs_listing = false;
        for server in &self.latest().servers {
            let prefix = server.tool_prefix();
            if visibility.is_name_visible(prefix, prefix, &server.origin()) {
                visible_servers.insert(address(server));
            } else {
                needs_listing = true;
            }
        }
        if needs_listing {
            let (_, caller_tools) = self.list_with_timeout(self.list_timeout(), context).await;
            for (name, tool) in self.tools().iter().chain(&caller_tools.listed_tools) {
                let server = tool.server();
                if visibility.is_name_visible(name.as_str(), tool.remote_name(), &server.origin()) {
                    visible_servers.insert(address(server));
                }
            }
        }
        let servers = Some(visible_servers);
        VisibleServers { servers }
    }
}
