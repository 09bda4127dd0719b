//! Whose resources and prompts somebody may see.

use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::tool::CallContext;

use super::{Server, Upstreams};
use crate::visibility::Visibility;

/// The servers that are there for somebody: those that have a tool which it may see (L3). What
/// others have is not there for it, as with [packs](Visibility::packs).
///
/// A server without tools is there for whoever may see every name that begins with its prefix.
#[derive(Debug)]
pub(crate) struct Seen {
    /// By the addresses of their [`Arc`]s; none for all.
    servers: Option<HashSet<usize>>,
}

impl Seen {
    pub(crate) fn has(&self, server: &Arc<Server>) -> bool {
        let servers = self.servers.as_ref();
        servers.is_none_or(|servers| servers.contains(&address(server)))
    }
}

fn address(server: &Arc<Server>) -> usize {
    Arc::as_ptr(server).addr()
}

impl Upstreams {
    /// The servers that are there for this caller. Where their tools decide, servers that have
    /// not been asked for them are asked now.
    pub(crate) async fn seen(&self, context: &CallContext, visibility: &Visibility) -> Seen {
        if visibility.is_all() {
            return Seen { servers: None };
        }
        let mut seen = HashSet::new();
        let mut undecided = false;
        for server in &self.latest().servers {
            let prefix = server.tool_prefix();
            if visibility.admits_named(prefix, prefix, &server.origin()) {
                seen.insert(address(server));
            } else {
                undecided = true;
            }
        }
        if undecided {
            self.discover().await;
            let own = self.own(context).await;
            for (name, tool) in self.tools().iter().chain(&own.listed) {
                let server = tool.server();
                if visibility.admits_named(name.as_str(), tool.remote_name(), &server.origin()) {
                    seen.insert(address(server));
                }
            }
        }
        Seen {
            servers: Some(seen),
        }
    }
}
