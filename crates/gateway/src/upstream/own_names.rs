//! The names of tools that MCP clients may use without the prefix of the server.

use std::sync::Arc;

use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;

use super::{CallerTools, Server, UnavailableTool, UpstreamTool, Upstreams};

impl Upstreams {
    /// Returns why a server may not offer a tool under the registered name `name`, or `None` if it
    /// may. Names and aliases of tools without a server belong to those tools, even if they are not
    /// offered; [`NameOwners`](super::name_owners::NameOwners) decides on all other names.
    pub(super) fn name_conflict(&self, server: &Server, name: &str) -> Option<String> {
        let mut aliases = pillion_builtins::ALIASES.iter();
        let is_builtin = aliases.any(|(alias, tool)| name == *alias || name == *tool);
        let holder = self.registry.get(name);
        if is_builtin || holder.is_some_and(|holder| !holder.origin().is_mcp()) {
            return Some(format!("the name {name} belongs to a tool of this sidecar"));
        }
        self.owner_conflict(server, name)
    }

    /// Returns why a server may not offer a tool or prompt under this name, or `None` if no other
    /// server owns the name.
    pub fn owner_conflict(&self, server: &Server, name: &str) -> Option<String> {
        let owners = &self.owners;
        let owner = owners.owner(name)?;
        let conflict = || format!("the name {name} belongs to MCP server `{owner}`");
        (!owners.may_offer(&server.label, name)).then(conflict)
    }

    /// Returns whether MCP clients may use the server's own name for a tool. They may if the
    /// configuration sets no prefix for the server, and no other tool or server has the name or
    /// could have it.
    ///
    /// The result does not depend on which servers are reachable, because a server that has not
    /// listed its tools yet, and whose pins are unknown, could have any name.
    pub fn allows_own_name(&self, tool: &UpstreamTool) -> bool {
        let (server, name) = (tool.server(), tool.remote_name());
        let latest = self.latest();
        if server.configured_prefix.is_some() || latest.registry.contains(name) {
            return false;
        }
        // The name is not allowed if another tool of this server has or had this name as its
        // registered name, which includes the prefix.
        let is_prefixed_name = server.has_listed_without_prefix(name);
        if is_prefixed_name || latest.name_conflict(server, name).is_some() {
            return false;
        }
        let mut servers = latest.servers.iter();
        servers.all(|other_server| {
            Arc::ptr_eq(other_server, server) || !other_server.may_have_own_name(name)
        })
    }

    /// Returns the registered name of the tool that MCP clients know by its server's own name.
    pub fn find_registered_name(&self, own_name: &str) -> Option<ToolName> {
        let tools = self.server_tools.tools.read();
        let named_tool = tools.iter().find(|(name, tool)| {
            tool.remote_name() == own_name
                && self.allows_own_name(tool)
                && self.is_registered(name, tool)
        });
        named_tool.map(|(name, _)| name.clone())
    }

    /// Returns the tool `own_name` as an unavailable tool of a server that has not listed its tools
    /// yet, if that server is the reason why MCP clients may not use another server's own name.
    pub fn unavailable_own_name(
        &self,
        own_name: &str,
        unavailable_servers: &[UnavailableServer],
    ) -> Option<UnavailableTool> {
        let latest = self.latest();
        let server = latest.unlisted_server(own_name)?;
        let mut servers = unavailable_servers.iter();
        let unavailable_server = servers.find(|other| other.label == server.label)?;
        Some(UnavailableTool {
            origin: server.origin(),
            server: unavailable_server.clone(),
        })
    }

    /// Returns the first server whose tools are unknown and that could have a tool with this own
    /// name. Returns `None` if no other server has a tool with this own name.
    fn unlisted_server(&self, own_name: &str) -> Option<&Arc<Server>> {
        let tools = self.server_tools.tools.read();
        let is_named = |tool: &Arc<UpstreamTool>| {
            tool.remote_name() == own_name && tool.server().configured_prefix.is_none()
        };
        if self.registry.contains(own_name) || !tools.values().any(is_named) {
            return None;
        }
        let mut servers = self.servers.iter();
        servers.find(|server| server.is_unlisted() && server.uses_own_names())
    }
}

impl CallerTools {
    /// Returns whether MCP clients may use the server's own name for one of the caller's tools.
    pub fn allows_own_name(&self, upstreams: &Upstreams, tool: &UpstreamTool) -> bool {
        let is_other_server = |label: &String| *label != tool.server().label;
        !self.unlisted_server_labels.iter().any(is_other_server) && upstreams.allows_own_name(tool)
    }
}
