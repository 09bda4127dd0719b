//! MCP servers that a model's provider calls by itself (H1). It is told of those of their tools that
//! the model and the caller may see, and of no others; a call that needs approval it has to ask
//! about, and that goes through the executor as any other, but for its last step.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use pillion_chat::{NativeServer, ToolRunner};
use pillion_core::executor::{Executor, OwnTools};
use pillion_core::provider::{NativeApproval, NativeMcpServer, Provider};
use pillion_core::registry::RegisteredTool;
use pillion_core::tool::{
    ActsAs, ActsAsFuture, CallContext, JsonObject, Tool, ToolCall, ToolDefinition, ToolFuture,
    ToolName, ToolOrigin, ToolOutput, ToolResult,
};

use super::Model;
use crate::config::{McpServerSection, native_url_of};

/// A server of which the configuration says that the model's provider calls it.
#[derive(Debug, Clone)]
pub(super) struct NativeEndpoint {
    server: NativeMcpServer,
    tool_prefix: String,
}

impl NativeEndpoint {
    pub(super) fn of(section: &McpServerSection) -> Option<Self> {
        let description = section.server.description.trim();
        let native = section.native.as_ref();
        let server = NativeMcpServer {
            description: (!description.is_empty()).then(|| description.to_owned()),
            token: native.and_then(|native| native.token.clone()),
            ..NativeMcpServer::new(section.label(), native_url_of(section)?.as_str())
        };
        Some(Self {
            server,
            tool_prefix: section.tool_prefix(),
        })
    }
}

/// The tools of a chat that its provider calls by itself.
#[derive(Debug, Default)]
pub(crate) struct NativeTools {
    servers: Vec<NativeServer>,
    /// What runs in their place when the provider wants to be allowed a call.
    stand_ins: OwnTools,
}

impl NativeTools {
    /// Those among these tools, which the model may see. At a provider that asks nobody before it
    /// calls a tool those that need approval are none of them: they are run here.
    pub(crate) fn of(model: &Model, executor: &Executor, tools: &[Arc<RegisteredTool>]) -> Self {
        let mut native = Self::default();
        let Some(api) = model.api else {
            return native;
        };
        let asks_us = api == Provider::OpenAiResponses;
        for endpoint in &model.native {
            let mut names = Vec::new();
            let mut free = Vec::new();
            for tool in tools {
                let Some(there) = endpoint.name_of(tool) else {
                    continue;
                };
                let asks = executor.asks(tool);
                if asks && !asks_us {
                    continue;
                }
                if !asks {
                    free.push(there.clone());
                }
                names.push((there, tool.name().to_string()));
                native.stand_in(api, tool);
            }
            if names.is_empty() {
                continue;
            }
            let allowed = names.iter().map(|(there, _)| there.clone()).collect();
            let server = NativeMcpServer {
                allowed_tools: Some(allowed),
                require_approval: match free.len() {
                    0 => NativeApproval::Always,
                    count if count == names.len() => NativeApproval::Never,
                    _ => NativeApproval::Except(free),
                },
                ..endpoint.server.clone()
            };
            native.servers.push(NativeServer {
                server,
                tools: names,
            });
        }
        native
    }

    fn stand_in(&mut self, api: Provider, tool: &RegisteredTool) {
        let stand_in = StandIn {
            definition: tool.definition().clone(),
            origin: tool.origin().clone(),
            digest: tool.tool().digest(),
            api,
        };
        match RegisteredTool::new(Arc::new(stand_in)) {
            Ok(stand_in) => {
                self.stand_ins
                    .insert(tool.name().clone(), Arc::new(stand_in));
            }
            // Its calls are refused.
            Err(error) => {
                tracing::warn!(tool.name = %tool.name(), %error, "A tool has no stand-in");
            }
        }
    }

    /// Whether the provider calls the tool of that name by itself.
    pub(crate) fn has(&self, name: &ToolName) -> bool {
        self.stand_ins.contains_key(name)
    }

    /// How the provider is told of them, and what runs the chat's calls.
    pub(crate) fn take_apart(self, executor: Executor) -> (Vec<NativeServer>, Arc<dyn ToolRunner>) {
        if self.servers.is_empty() {
            return (Vec::new(), Arc::new(executor));
        }
        let runner = Runner {
            permits: executor.with_stand_ins(Arc::new(self.stand_ins)),
            executor,
        };
        (self.servers, Arc::new(runner))
    }
}

impl NativeEndpoint {
    /// The server's name of the tool, if it is one of the server's.
    fn name_of(&self, tool: &RegisteredTool) -> Option<String> {
        let ToolOrigin::Mcp { server_label, .. } = tool.origin() else {
            return None;
        };
        let is_ours = *server_label == self.server.label;
        let there = tool.name().as_str().strip_prefix(&self.tool_prefix);
        there.filter(|_| is_ours).map(str::to_owned)
    }
}

/// Runs a chat's calls, and allows its provider what may run.
struct Runner {
    executor: Executor,
    /// The same, with stand-ins for what the provider calls.
    permits: Executor,
}

#[async_trait]
impl ToolRunner for Runner {
    fn canonical_name(&self, name: &str) -> Option<String> {
        ToolRunner::canonical_name(&self.executor, name)
    }

    fn at_once(&self) -> NonZeroUsize {
        self.executor.at_once()
    }

    async fn run(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.executor.run(call, context).await
    }

    async fn permit(&self, call: ToolCall, context: &CallContext) -> ToolResult {
        self.permits.execute_one(call, context).await
    }
}

/// Stands in for a tool that the provider calls: what it would do is done there.
struct StandIn {
    definition: ToolDefinition,
    origin: ToolOrigin,
    digest: Option<String>,
    api: Provider,
}

impl Tool for StandIn {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        self.origin.clone()
    }

    fn digest(&self) -> Option<String> {
        self.digest.clone()
    }

    /// In the provider's name: what is approved of or kept for its calls is for none of ours.
    fn acts_as(&self, _context: &CallContext) -> Option<ActsAsFuture> {
        let name = format!("provider {}", self.api);
        Some(Box::pin(async move {
            Ok(ActsAs {
                identity: name.clone(),
                credential: name,
            })
        }))
    }

    fn call(self: Arc<Self>, _arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::text("The provider makes the call by itself")) })
    }
}
