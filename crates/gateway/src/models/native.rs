//! MCP servers that a model's provider calls directly. The provider receives only those tools that
//! the model and the caller may see. For a tool that needs approval, the provider requests approval
//! before each call. The call then passes through the executor like any other call, except that the
//! provider runs the tool.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{NativeServer, ToolRunner};
use pillion_core::executor::{CallerOnlyTools, Executor};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{
    ActingIdentity, ActingIdentityFuture, CallContext, JsonObject, Tool, ToolCall, ToolDefinition,
    ToolFuture, ToolName, ToolOrigin, ToolOutput, ToolResult,
};
use pillion_providers::{NativeApproval, NativeMcpServer, Provider};

use super::Model;
use pillion_config::{McpServerSection, native_url};

/// A configured MCP server that the model's provider calls directly.
#[derive(Debug, Clone)]
pub(super) struct NativeEndpoint {
    server: NativeMcpServer,
}

impl NativeEndpoint {
    pub(super) fn from_section(section: &McpServerSection) -> Option<Self> {
        let description = section.server.description.trim();
        let native_settings = section.settings.native.as_ref();
        let server = NativeMcpServer {
            description: (!description.is_empty()).then(|| description.to_owned()),
            token: native_settings.and_then(|settings| settings.token.clone()),
            ..NativeMcpServer::new(section.label(), native_url(section)?.as_str())
        };
        Some(Self { server })
    }
}

/// The tools of a chat that the provider calls directly.
#[derive(Debug, Default)]
pub struct NativeTools {
    servers: Vec<NativeServer>,
    /// Replacements of the tools that the provider calls. The executor runs a replacement to check
    /// and record a call; the replacement itself does not call the tool.
    overrides: CallerOnlyTools,
}

impl NativeTools {
    /// Selects, from the `tools` that the model may see, those that the provider calls directly. If
    /// the provider cannot request approval, the tools that need approval are not selected, and the
    /// sidecar runs them.
    pub fn for_model(model: &Model, executor: &Executor, tools: &[Arc<RegisteredTool>]) -> Self {
        let mut native_tools = Self::default();
        let Some(api) = model.api else {
            return native_tools;
        };
        let can_request_approval = api.api().requests_approval();
        for endpoint in &model.native_endpoints {
            let mut names = Vec::new();
            let mut names_without_approval = Vec::new();
            for tool in tools {
                let Some(server_tool) = endpoint.server_tool_name(tool) else {
                    continue;
                };
                let needs_approval = executor.requires_approval(tool);
                if needs_approval && !can_request_approval {
                    continue;
                }
                if !needs_approval {
                    names_without_approval.push(server_tool.clone());
                }
                names.push((server_tool, tool.name().to_string()));
                native_tools.add_override(api, tool);
            }
            if names.is_empty() {
                continue;
            }
            let allowed_names = names.iter().map(|(server_tool, _)| server_tool.clone());
            let server = NativeMcpServer {
                allowed_tools: Some(allowed_names.collect()),
                require_approval: match names_without_approval.len() {
                    0 => NativeApproval::Always,
                    count if count == names.len() => NativeApproval::Never,
                    _ => NativeApproval::Except(names_without_approval),
                },
                ..endpoint.server.clone()
            };
            native_tools.servers.push(NativeServer {
                server,
                tools: names,
            });
        }
        native_tools
    }

    fn add_override(&mut self, api: Provider, tool: &RegisteredTool) {
        let tool_override = ToolOverride {
            definition: tool.definition().clone(),
            origin: tool.origin().clone(),
            digest: tool.tool().digest(),
            api,
        };
        let name = tool.name().clone();
        let registered_override = tool.with_tool(Arc::new(tool_override));
        self.overrides.insert(name, Arc::new(registered_override));
    }

    /// Returns whether the provider calls the tool with this name directly.
    pub fn has(&self, name: &ToolName) -> bool {
        self.overrides.contains_key(name)
    }

    /// Returns the servers for the provider, and the runner of the chat's calls.
    pub fn into_parts(self, executor: Executor) -> (Vec<NativeServer>, Arc<dyn ToolRunner>) {
        if self.servers.is_empty() {
            return (Vec::new(), Arc::new(executor));
        }
        let runner = NativeToolRunner {
            permit_executor: executor.with_overrides(Arc::new(self.overrides)),
            executor,
        };
        (self.servers, Arc::new(runner))
    }
}

impl NativeEndpoint {
    /// Returns the tool's name on the server, if this server has the tool.
    fn server_tool_name(&self, tool: &RegisteredTool) -> Option<String> {
        let ToolOrigin::Mcp { server_label, .. } = tool.origin() else {
            return None;
        };
        let is_on_server = *server_label == self.server.label;
        let server_tool = tool.tool().name_on_server();
        server_tool.filter(|_| is_on_server).map(str::to_owned)
    }
}

/// Runs a chat's calls, and approves or denies the calls for which the provider requests approval.
struct NativeToolRunner {
    executor: Executor,
    /// A copy of `executor` that checks and records the provider's own calls without running their
    /// tools.
    permit_executor: Executor,
}

#[async_trait]
impl ToolRunner for NativeToolRunner {
    fn canonical_name(&self, name: &str) -> Option<String> {
        ToolRunner::canonical_name(&self.executor, name)
    }

    fn max_concurrent_calls(&self) -> NonZeroUsize {
        self.executor.max_concurrent_calls()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.executor.run(call, context).await
    }

    async fn permit(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.permit_executor.execute_one(call, context).await
    }
}

/// Replaces a tool that the provider calls, so that the executor checks and records the call
/// without running the tool.
struct ToolOverride {
    definition: ToolDefinition,
    origin: ToolOrigin,
    digest: Option<String>,
    api: Provider,
}

impl Tool for ToolOverride {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn digest(&self) -> Option<String> {
        self.digest.clone()
    }

    /// Returns the provider as the acting identity, so that approvals and cached results are not
    /// shared with the sidecar's own calls.
    fn acting_identity(&self, _context: &CallContext) -> Option<ActingIdentityFuture> {
        let name = format!("provider {}", self.api);
        Some(Box::pin(async move {
            Ok(ActingIdentity::new(name.clone(), name))
        }))
    }

    /// Returns `false`, because the provider calls the tool with its own arguments, which an
    /// approver cannot change.
    fn accepts_edited_arguments(&self) -> bool {
        false
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::text("The provider calls this tool itself")) })
    }
}
