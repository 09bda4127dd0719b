//! The names of tools that MCP clients may use without the prefix of the server.

use std::sync::Arc;

use pillion_core::tool::ToolName;
use pillion_wire::UnavailableServer;

use super::{CallerTools, Server, UnavailableTool, UpstreamTool, Upstreams};

impl Upstreams {
    /// Returns why a server may not offer a tool under the registered name `name`, or `None` if the
    /// server may offer it. Names and aliases of tools without a server belong to those tools, even
    /// if they are not offered; [`NameOwners`](super::name_owners::NameOwners) decides on all other
    /// names.
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

    /// Returns whether MCP clients may use the unprefixed name of a tool. They may if the
    /// configuration sets no prefix for the tool's server, and no other tool has the name or could
    /// have it.
    ///
    /// The result does not depend on which servers are reachable, because a server that has not
    /// listed its tools yet, and whose pins are unknown, could have any name.
    pub fn allows_unprefixed_name(&self, tool: &UpstreamTool) -> bool {
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
            Arc::ptr_eq(other_server, server) || !other_server.may_have_unprefixed_name(name)
        })
    }

    /// Returns the registered name of the tool that MCP clients know by this unprefixed name.
    pub fn find_registered_name(&self, unprefixed_name: &str) -> Option<ToolName> {
        let tools = self.server_tools.tools.read();
        let named_tool = tools.iter().find(|(name, tool)| {
            tool.remote_name() == unprefixed_name
                && self.allows_unprefixed_name(tool)
                && self.is_registered(name, tool)
        });
        named_tool.map(|(name, _)| name.clone())
    }

    /// Returns the tool `unprefixed_name` as unavailable if MCP clients may not use this name
    /// because of an unavailable server. As long as such a server has not listed its tools, it
    /// could have a tool with this name, so MCP clients may not use the name for another server's
    /// tool.
    pub fn find_unavailable_unprefixed_tool(
        &self,
        unprefixed_name: &str,
        unavailable_servers: &[UnavailableServer],
    ) -> Option<UnavailableTool> {
        let latest = self.latest();
        let server = latest.unlisted_server(unprefixed_name)?;
        let mut servers = unavailable_servers.iter();
        let unavailable_server = servers.find(|other| other.label == server.label)?;
        Some(UnavailableTool {
            origin: server.origin(),
            server: unavailable_server.clone(),
        })
    }

    /// Returns the first server whose tools are unknown and that could have a tool with this
    /// unprefixed name. Returns `None` if no known tool has this unprefixed name.
    fn unlisted_server(&self, unprefixed_name: &str) -> Option<&Arc<Server>> {
        let tools = self.server_tools.tools.read();
        let is_named = |tool: &Arc<UpstreamTool>| {
            tool.remote_name() == unprefixed_name && tool.server().configured_prefix.is_none()
        };
        if self.registry.contains(unprefixed_name) || !tools.values().any(is_named) {
            return None;
        }
        let mut servers = self.servers.iter();
        servers.find(|server| server.is_unlisted() && server.uses_unprefixed_names())
    }
}

impl CallerTools {
    /// Returns whether MCP clients may use the unprefixed name of one of the caller's tools.
    pub fn allows_unprefixed_name(&self, upstreams: &Upstreams, tool: &UpstreamTool) -> bool {
        let is_other_server = |label: &String| *label != tool.server().label;
        !self.unlisted_server_labels.iter().any(is_other_server)
            && upstreams.allows_unprefixed_name(tool)
    }
}
