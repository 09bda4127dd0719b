//! Looks up the tools that callers name: the single lookup of every API.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::executor::Executor;
use pillion_core::registry::{RegisteredTool, repaired_names};
use pillion_core::tool::{CallContext, Nesting, ToolFailure};
use pillion_wire::UnavailableServer;

use super::Gateway;
use crate::upstream::{Absent, Blocked, Own};
use crate::visibility::Visibility;

/// The names by which a caller may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameScope {
    /// The names and aliases of the registry, and the names that are
    /// [repaired](repaired_names) to them.
    Registered,
    /// Also the names that MCP clients see: a server's own name for a tool, if no other server has
    /// the name or could have it, and the server has no configured prefix.
    ListedToClients,
}

/// The tools that one caller means by some names.
#[derive(Debug)]
pub struct Resolution {
    /// For each name, in order, the tool or why there is none.
    pub tools: Vec<Result<Arc<RegisteredTool>, MissingTool>>,
    /// The tools that only this caller has; `None` if every tool was found without them.
    pub own: Option<Own>,
    /// The shared MCP servers that failed when they were asked for the names.
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
    /// There is no such tool.
    Unknown,
}

impl Resolution {
    /// Returns the tool of a lookup of one name.
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

impl Gateway {
    /// Looks up the tools with these names for a caller. If a tool is missing, or calls a missing
    /// tool, first lists the tools of the MCP servers that may have the missing tool.
    pub async fn resolve(
        &self,
        context: &CallContext,
        visibility: &Visibility,
        scope: NameScope,
        names: &[&str],
    ) -> Resolution {
        let tools = self.visible(visibility, scope, names);
        let missing = self.missing(names, &tools);
        if missing.is_empty() {
            return Resolution {
                tools,
                own: None,
                unavailable_servers: Vec::new(),
                took: Duration::ZERO,
            };
        }
        // Boxed, because the future of every call would be larger otherwise.
        Box::pin(self.resolve_missing(context, visibility, scope, names, &missing)).await
    }

    /// Returns the maximum duration of one call of these tools, of which only the names are given, or
    /// of a call of any tool if there are none.
    pub fn timeout_of_calls<'a>(&self, names: impl Iterator<Item = &'a str>) -> Duration {
        let limits = names.map(|name| self.executor().timeout_of(name));
        limits
            .max()
            .unwrap_or_else(|| self.executor().timeout_of(""))
    }

    /// Lists the tools of the MCP servers that may have the `missing` tools, then looks up the
    /// tools with these names.
    async fn resolve_missing(
        &self,
        context: &CallContext,
        visibility: &Visibility,
        scope: NameScope,
        names: &[&str],
        missing: &[String],
    ) -> Resolution {
        let upstreams = &self.shared.upstreams;
        let began = Instant::now();
        let limit = self.timeout_of_calls(names.iter().copied());
        let discovery = upstreams.discover_named_within(missing, limit);
        let unavailable_servers = discovery.await;
        let tools = self.visible(visibility, scope, names);
        let mut missing = self.missing(names, &tools);
        let mut own = Own::default();
        if !missing.is_empty() {
            let remaining = limit.saturating_sub(began.elapsed());
            let lookup = upstreams.user_tools_named_within(context, &missing, remaining);
            own = lookup.await;
            missing.retain(|name| !names.contains(&name.as_str()));
            own.add_unavailable(upstreams, &missing);
        }
        let tools = names.iter().zip(tools).map(|(name, shared)| {
            let other = || self.own_or_not_offered(&own, visibility, scope, name);
            shared.ok().or_else(other).ok_or_else(|| {
                match self.missing_tool(visibility, &own, name, &unavailable_servers) {
                    MissingTool::Unknown if scope == NameScope::ListedToClients => {
                        self.missing_own_name(visibility, name, &unavailable_servers)
                    }
                    missing => missing,
                }
            })
        });
        Resolution {
            tools: tools.collect(),
            own: Some(own),
            unavailable_servers,
            took: began.elapsed(),
        }
    }

    /// Returns the shared tool of each name, if the caller may see the tool.
    fn visible(
        &self,
        visibility: &Visibility,
        scope: NameScope,
        names: &[&str],
    ) -> Vec<Result<Arc<RegisteredTool>, MissingTool>> {
        let tools = names.iter().map(|name| {
            self.known(name, scope)
                .filter(|tool| visibility.admits(tool, name))
                .ok_or(MissingTool::Unknown)
        });
        tools.collect()
    }

    /// Returns the shared tool with this name, without checking whether the caller may see the tool.
    fn known(&self, name: &str, scope: NameScope) -> Option<Arc<RegisteredTool>> {
        let tool = self.registry().get(name);
        match scope {
            NameScope::Registered => tool.or_else(|| {
                let mut tools = repaired_names(name).filter_map(|name| self.registry().get(name));
                tools.find(|tool| tool.is_offered())
            }),
            NameScope::ListedToClients => tool.filter(|tool| tool.is_offered()).or_else(|| {
                let name = self.shared.upstreams.only_named(name)?;
                self.registry().get(name.as_str())
            }),
        }
    }

    /// Returns the caller's own tool with this name, or else a registered tool that is not offered,
    /// whose calls return an error that says what it needs.
    fn own_or_not_offered(
        &self,
        own: &Own,
        visibility: &Visibility,
        scope: NameScope,
        name: &str,
    ) -> Option<Arc<RegisteredTool>> {
        if self.known(name, scope).is_some() {
            // The name belongs to a tool that the caller may not see.
            return None;
        }
        let listed = || match scope {
            NameScope::Registered => {
                repaired_names(name).find_map(|name| own.tools.get(name).cloned())
            }
            NameScope::ListedToClients => own.only_named(&self.shared.upstreams, name),
        };
        let named = own.tools.get(name).cloned().or_else(listed);
        named
            .or_else(|| self.registry().get(name))
            .filter(|tool| visibility.admits(tool, name))
    }

    /// Returns why a caller with these own tools has no tool with this name.
    pub fn missing_tool(
        &self,
        visibility: &Visibility,
        own: &Own,
        name: &str,
        unavailable: &[UnavailableServer],
    ) -> MissingTool {
        let upstreams = &self.shared.upstreams;
        let missing_credential = own
            .missing_credential(upstreams, name)
            .filter(|server| visibility.is_name_visible(name, name, &server.origin));
        if let Some(server) = missing_credential {
            return MissingTool::NoCredential(Box::new(server.failure.clone()));
        }
        let blocked = upstreams
            .blocked(name)
            .filter(|blocked| visibility.is_name_visible(&blocked.name(), name, &blocked.origin()));
        if let Some(blocked) = blocked {
            return MissingTool::Blocked(blocked);
        }
        let unavailable = unavailable.iter().chain(&own.unavailable);
        let absent = upstreams.absent(name, unavailable);
        match absent.filter(|absent| visibility.is_name_visible(name, name, &absent.origin)) {
            Some(absent) => MissingTool::Unavailable(absent),
            None => MissingTool::Unknown,
        }
    }

    /// Returns why MCP clients cannot call a tool by its server's own name.
    fn missing_own_name(
        &self,
        visibility: &Visibility,
        name: &str,
        unavailable: &[UnavailableServer],
    ) -> MissingTool {
        let absent = self.shared.upstreams.absent_own_name(name, unavailable);
        match absent.filter(|absent| visibility.is_name_visible(name, name, &absent.origin)) {
            Some(absent) => MissingTool::Unavailable(absent),
            None => MissingTool::Unknown,
        }
    }

    /// Returns the names without a tool, and the missing tools that the found tools call.
    fn missing(
        &self,
        names: &[&str],
        tools: &[Result<Arc<RegisteredTool>, MissingTool>],
    ) -> Vec<String> {
        let mut missing = Vec::new();
        for (name, tool) in names.iter().zip(tools) {
            match tool {
                Ok(tool) => self.missing_below(tool, Nesting::MAX_DEPTH, &mut missing),
                Err(_) => missing.push((*name).to_owned()),
            }
        }
        missing
    }

    fn missing_below(&self, tool: &RegisteredTool, depth: usize, missing: &mut Vec<String>) {
        for name in tool.tool().called_tools() {
            match self.registry().get(name) {
                Some(called) if depth > 0 => self.missing_below(&called, depth - 1, missing),
                Some(_) => {}
                None if missing.iter().any(|other| other == name) => {}
                None => missing.push(name.to_owned()),
            }
        }
    }
}
