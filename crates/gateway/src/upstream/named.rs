//! Finds the servers of unknown tools by the tools' names.

use std::sync::Arc;

use futures_util::future::join_all;
use pillion_core::registry::RegisteredTool;
use pillion_wire::UnavailableServer;

use super::discovery::Reason;
use super::{Absent, Own, Server, Upstreams};

impl Upstreams {
    /// Lists the tools of the servers whose prefix one of the names begins with, even after a
    /// recent failure. If no server has such a prefix, or a server has no prefix, lists the tools
    /// of every server whose list is missing or stale. Returns the servers that failed.
    pub async fn discover_named(&self, names: &[String]) -> Vec<UnavailableServer> {
        let latest = self.latest();
        let named = latest.named_by(names);
        join_all(named.iter().map(|server| latest.ask(server, Reason::Use))).await;
        let is_named = |name: &String| {
            latest.registry.contains(name) || named.iter().any(|server| server.matches_prefix(name))
        };
        // Without a prefix, the tools of a server may have any name.
        let has_any_name = |server: &Arc<Server>| server.tool_prefix.is_empty();
        if names.iter().all(is_named) && !latest.servers.iter().any(has_any_name) {
            return latest.unavailable();
        }
        latest.discover().await
    }

    /// Returns the servers whose prefix one of the names begins with.
    pub(super) fn named_by(&self, names: &[String]) -> Vec<Arc<Server>> {
        let servers = self.servers.iter();
        servers
            .filter(|server| names.iter().any(|name| server.matches_prefix(name)))
            .cloned()
            .collect()
    }

    /// Returns the tool with this name as a tool of one of these unavailable servers, if the name
    /// begins with a server's prefix.
    pub fn absent<'a>(
        &self,
        name: &str,
        unavailable: impl IntoIterator<Item = &'a UnavailableServer>,
    ) -> Option<Absent> {
        let latest = self.latest();
        let mut unavailable = unavailable.into_iter();
        unavailable.find_map(|unavailable| {
            let mut servers = latest.servers.iter();
            let server = servers.find(|server| server.label == unavailable.label)?;
            server.matches_prefix(name).then(|| Absent {
                origin: server.origin(),
                server: unavailable.clone(),
            })
        })
    }
}

impl Own {
    /// For a composed tool: adds failing tools for those names that begin with the prefix of an
    /// unavailable server.
    pub fn add_unavailable(&mut self, upstreams: &Upstreams, names: &[String]) {
        let unavailable = upstreams.latest().unavailable();
        let tools = Arc::make_mut(&mut self.tools);
        for name in names
            .iter()
            .filter(|name| !upstreams.registry.contains(name))
        {
            let absent = upstreams.absent(name, unavailable.iter().chain(&self.unavailable));
            let tool = absent.and_then(|absent| absent.to_tool(name));
            let tool = tool.and_then(|tool| RegisteredTool::new(tool).ok());
            if let Some(tool) = tool.filter(|tool| !tools.contains_key(tool.name())) {
                tools.insert(tool.name().clone(), Arc::new(tool));
            }
        }
    }
}

impl Server {
    /// Returns whether the name begins with this server's prefix.
    pub(super) fn matches_prefix(&self, name: &str) -> bool {
        !self.tool_prefix.is_empty() && name.starts_with(&self.tool_prefix)
    }
}
