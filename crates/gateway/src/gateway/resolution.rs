//! Looks up the tools that callers name. All APIs use this lookup.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::executor::Executor;
use pillion_core::registry::{RegisteredTool, repaired_names};
use pillion_core::tool::{CallContext, Nesting, ToolFailure};
use pillion_wire::UnavailableServer;

use super::Gateway;
use crate::upstream::{Absent, Blocked, Own, Upstreams};
use crate::visibility::Visibility;

/// The names by which a caller may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// The names and aliases of the registry, and misspelled names that are
    /// [repaired](repaired_names) to one of them.
    Registered,
    /// Also the names that MCP clients see: a server's own name for a tool, if no other server has
    /// the name or could have it, and the server has no configured prefix.
    ListedToClients,
}

/// The tools that were found for the names that one caller gave.
#[derive(Debug)]
pub struct Resolution {
    /// For each name, in order, the tool or why there is none.
    pub tools: Vec<Result<Arc<RegisteredTool>, MissingTool>>,
    /// The tools that only the caller has; `None` if every tool was found without them.
    pub own: Option<Own>,
    /// The shared MCP servers that failed when the lookup requested their tools.
    pub unavailable_servers: Vec<UnavailableServer>,
    /// How long the lookup took, which counts toward the deadlines of the calls.
    pub took: Duration,
}

/// Why a caller has no tool with a name. Does not reveal a tool that the caller may not see.
#[derive(Debug)]
pub enum MissingTool {
    /// The caller has no credential for the tool's server.
    NoCredential(Box<ToolFailure>),
    /// The tool's definition differs from its pin.
    Blocked(Blocked),
    /// The tool's server is unavailable.
    Unavailable(Absent),
    /// No tool has the name.
    Unknown,
}

impl Resolution {
    /// Returns the only tool of a lookup with one name.
    pub fn take_only(&mut self) -> Result<Arc<RegisteredTool>, MissingTool> {
        self.tools.pop().unwrap_or(Err(MissingTool::Unknown))
    }

    /// Returns the executor for calls of the tools: their nested calls may use the tools that only
    /// this caller has.
    pub fn executor(&self, gateway: &Gateway) -> Executor {
        match &self.own {
            Some(own) => gateway.executor().with_caller_tools(Arc::clone(&own.tools)),
            None => gateway.executor().clone(),
        }
    }
}

/// A lookup of tools for one caller.
pub(super) struct ToolLookup<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) visibility: &'a Visibility,
    pub(super) scope: NameScope,
    pub(super) names: &'a [&'a str],
}

impl ToolLookup<'_> {
    /// Looks up the tools. If a tool is missing, or calls a missing tool, first lists the tools of
    /// the MCP servers that may have the missing tool.
    pub(super) async fn resolve(&self, context: &CallContext) -> Resolution {
        let tools = self.visible();
        let missing = self.missing(&tools);
        if missing.is_empty() {
            return Resolution {
                tools,
                own: None,
                unavailable_servers: Vec::new(),
                took: Duration::ZERO,
            };
        }
        // Boxed, because the future of every call would be larger otherwise.
        Box::pin(self.resolve_missing(context, &missing)).await
    }

    /// Lists the tools of the MCP servers that may have the `missing` tools, then looks up the
    /// tools.
    async fn resolve_missing(&self, context: &CallContext, missing: &[String]) -> Resolution {
        let upstreams = self.gateway.upstreams();
        let started_at = Instant::now();
        let limit = self.gateway.timeout_of_calls(self.names.iter().copied());
        let discovery = upstreams.discover_named_within(missing, limit);
        let unavailable_servers = discovery.await;
        let tools = self.visible();
        let mut missing = self.missing(&tools);
        let mut own = Own::default();
        if !missing.is_empty() {
            let remaining = limit.saturating_sub(started_at.elapsed());
            let lookup = upstreams.user_tools_named_within(context, &missing, remaining);
            own = lookup.await;
            missing.retain(|name| !self.names.contains(&name.as_str()));
            own.add_unavailable(upstreams, &missing);
        }
        let tools = self.names.iter().zip(tools).map(|(name, shared)| {
            let other = || self.own_or_not_offered(&own, name);
            shared
                .ok()
                .or_else(other)
                .ok_or_else(|| self.missing_tool(&own, name, &unavailable_servers))
        });
        Resolution {
            tools: tools.collect(),
            own: Some(own),
            unavailable_servers,
            took: started_at.elapsed(),
        }
    }

    /// Returns the shared tool of each name, if the caller may see the tool.
    fn visible(&self) -> Vec<Result<Arc<RegisteredTool>, MissingTool>> {
        let tools = self.names.iter().map(|name| {
            self.known(name)
                .filter(|tool| self.visibility.admits(tool, name))
                .ok_or(MissingTool::Unknown)
        });
        tools.collect()
    }

    /// Returns the shared tool with this name, without checking whether the caller may see the tool.
    fn known(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        let registry = self.gateway.registry();
        let tool = registry.get(name);
        match self.scope {
            NameScope::Registered => tool.or_else(|| {
                let mut tools = repaired_names(name).filter_map(|name| registry.get(name));
                tools.find(|tool| tool.is_offered())
            }),
            NameScope::ListedToClients => tool.filter(|tool| tool.is_offered()).or_else(|| {
                let name = self.gateway.upstreams().only_named(name)?;
                registry.get(name.as_str())
            }),
        }
    }

    /// Returns the caller's own tool with this name, or else a registered tool that is not offered,
    /// whose calls return an error that says what it needs.
    fn own_or_not_offered(&self, own: &Own, name: &str) -> Option<Arc<RegisteredTool>> {
        if self.known(name).is_some() {
            // The name belongs to a tool that the caller may not see.
            return None;
        }
        let listed = || match self.scope {
            NameScope::Registered => {
                repaired_names(name).find_map(|name| own.tools.get(name).cloned())
            }
            NameScope::ListedToClients => own.only_named(self.gateway.upstreams(), name),
        };
        let named = own.tools.get(name).cloned().or_else(listed);
        named
            .or_else(|| self.gateway.registry().get(name))
            .filter(|tool| self.visibility.admits(tool, name))
    }

    /// Returns why the caller has no tool with this name.
    fn missing_tool(
        &self,
        own: &Own,
        name: &str,
        unavailable: &[UnavailableServer],
    ) -> MissingTool {
        let upstreams = self.gateway.upstreams();
        match MissingTool::find(upstreams, self.visibility, own, name, unavailable) {
            MissingTool::Unknown if self.scope == NameScope::ListedToClients => {
                let absent = upstreams.absent_own_name(name, unavailable);
                MissingTool::from_absent(absent, self.visibility, name)
            }
            missing => missing,
        }
    }

    /// Returns the names without a tool, and the missing tools that the found tools call.
    fn missing(&self, tools: &[Result<Arc<RegisteredTool>, MissingTool>]) -> Vec<String> {
        let mut missing = Vec::new();
        for (name, tool) in self.names.iter().zip(tools) {
            match tool {
                Ok(tool) => self.missing_below(tool, Nesting::MAX_DEPTH, &mut missing),
                Err(_) => missing.push((*name).to_owned()),
            }
        }
        missing
    }

    fn missing_below(&self, tool: &RegisteredTool, depth: usize, missing: &mut Vec<String>) {
        for name in tool.tool().called_tools() {
            match self.gateway.registry().get(name) {
                Some(called) if depth > 0 => self.missing_below(&called, depth - 1, missing),
                Some(_) => {}
                None if missing.iter().any(|other| other == name) => {}
                None => missing.push(name.to_owned()),
            }
        }
    }
}

impl MissingTool {
    /// Returns why a caller, whose own tools are `own`, has no tool with this name.
    pub fn find(
        upstreams: &Upstreams,
        visibility: &Visibility,
        own: &Own,
        name: &str,
        unavailable: &[UnavailableServer],
    ) -> Self {
        let missing_credential = own
            .missing_credential(upstreams, name)
            .filter(|server| visibility.is_name_visible(name, name, &server.origin));
        if let Some(server) = missing_credential {
            return Self::NoCredential(Box::new(server.failure.clone()));
        }
        let blocked = upstreams
            .blocked(name)
            .filter(|blocked| visibility.is_name_visible(&blocked.name(), name, &blocked.origin()));
        if let Some(blocked) = blocked {
            return Self::Blocked(blocked);
        }
        let absent = upstreams.absent(name, unavailable.iter().chain(&own.unavailable));
        Self::from_absent(absent, visibility, name)
    }

    fn from_absent(absent: Option<Absent>, visibility: &Visibility, name: &str) -> Self {
        match absent.filter(|absent| visibility.is_name_visible(name, name, &absent.origin)) {
            Some(absent) => Self::Unavailable(absent),
            None => Self::Unknown,
        }
    }
}
