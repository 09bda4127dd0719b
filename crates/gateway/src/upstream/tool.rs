use std::sync::Arc;

use pillion_core::digest::sha256_hex;
use pillion_core::tool::{
    ActingIdentityFuture, CallContext, ForwardedParameters, JsonObject, Tool, ToolDefinition,
    ToolFailure, ToolFuture, ToolOrigin, ToolOutput,
};
use pillion_mcp_client::{CheckedEntry, EntryKind, ProtocolVersion};
use pillion_mcp_tools::{McpTool, McpToolError};
use serde_json::value::RawValue;

use super::Server;
use crate::calling_client::link::ClientLink;
use crate::calling_client::listed_tool::ListedTool;
use crate::pins::{self, Definition};

/// A tool of an MCP server. The request and the response of a call from an MCP client are forwarded
/// unchanged.
#[derive(Debug)]
pub struct UpstreamTool {
    mcp_tool: Arc<McpTool>,
    server: Arc<Server>,
    /// The entry of `tools/list`, as the server wrote it, with necessary repairs.
    listed_tool: ListedTool,
    /// The SHA-256 hash of the definition, which pins compare.
    hash: String,
    /// Warnings about hidden text in the definition.
    warnings: Vec<String>,
}

impl UpstreamTool {
    /// Reads a tool and its definition from an entry of `tools/list`. Returns `None`, with a
    /// warning, if the tool cannot be offered.
    pub(super) fn parse(
        server: &Arc<Server>,
        raw_tool: &RawValue,
    ) -> Option<(Arc<Self>, Definition)> {
        let entry = server.entries.check(EntryKind::Tool, raw_tool)?;
        match Self::new(server, entry) {
            Ok((tool, definition)) => Some((Arc::new(tool), definition)),
            Err(error) => {
                server.report_dropped_tool(raw_tool, &error);
                None
            }
        }
    }

    fn new(
        server: &Arc<Server>,
        CheckedEntry { entry, value, .. }: CheckedEntry,
    ) -> Result<(Self, Definition), McpToolError> {
        let client = server.shared_connection.client.clone();
        let mcp_tool = McpTool::from_listed(client, &server.tool_prefix, &entry)?;
        let warnings = pins::find_warnings(&value);
        let definition = Definition::new(mcp_tool.remote_name(), value);
        let tool = Self {
            mcp_tool: Arc::new(mcp_tool),
            server: Arc::clone(server),
            hash: definition.hash.clone(),
            warnings,
            listed_tool: ListedTool::new(&entry)?,
        };
        Ok((tool, definition))
    }

    /// Returns the tool's name on the server.
    pub fn remote_name(&self) -> &str {
        self.mcp_tool.remote_name()
    }

    /// Returns whether `self` and `other` have equal `tools/list` entries.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.listed_tool.is_same(&other.listed_tool)
    }

    /// Returns the warnings about hidden text in the definition.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the tool's server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the entry of `tools/list` under another name, in the form for clients of the
    /// revision `version`.
    pub fn to_entry(
        &self,
        name: &str,
        version: ProtocolVersion,
    ) -> Result<Box<RawValue>, serde_json::Error> {
        self.listed_tool.to_entry(name, version)
    }

    /// Returns the size of the entry of `tools/list`, in bytes.
    pub fn listed_bytes(&self) -> usize {
        self.listed_tool.size()
    }

    async fn send_call(
        &self,
        arguments: JsonObject,
        context: CallContext,
        link: Option<Arc<ClientLink>>,
    ) -> Result<ToolOutput, ToolFailure> {
        let connection = self.server.connections.for_caller(&context).await?;
        let client = &connection.client;
        let call = async {
            match &link {
                Some(link) => {
                    let trace = context.trace.as_ref();
                    let is_approved = context.approval_id.is_some();
                    let name = self.remote_name();
                    let params = link.forwarded_call(trace, name, &arguments, is_approved);
                    let options = link.options();
                    self.mcp_tool.forward(client, &params, &options).await
                }
                None => {
                    self.mcp_tool
                        .call_with_client(client, &arguments, context)
                        .await
                }
            }
        };
        connection.route_messages(link.clone(), call).await
    }
}

impl Tool for UpstreamTool {
    fn definition(&self) -> &ToolDefinition {
        self.mcp_tool.definition()
    }

    fn origin(&self) -> ToolOrigin {
        self.mcp_tool.origin()
    }

    fn acting_identity(&self, context: &CallContext) -> Option<ActingIdentityFuture> {
        if !self.server.uses_user_credentials() {
            return None;
        }
        let (server, context) = (Arc::clone(&self.server), context.clone());
        Some(Box::pin(async move {
            server.connections.acting_identity(&context).await
        }))
    }

    fn name_on_server(&self) -> Option<&str> {
        Some(self.remote_name())
    }

    /// Returns a digest that identifies the server's endpoint and the tool's definition.
    fn digest(&self) -> Option<String> {
        let endpoint = self.server.section.server.endpoint_digest();
        Some(sha256_hex(&format!("{endpoint} {}", self.hash)))
    }

    fn forwarded(&self, context: &CallContext) -> Result<Option<ForwardedParameters>, ToolFailure> {
        client_link(context).map_or(Ok(None), |link| link.forwarded_params())
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        let link = client_link(&context).cloned();
        let (tool, parent) = (Some(self.remote_name()), context.trace.as_ref());
        let (span, trace) = self.server.start_span("tools/call", tool, parent);
        let context = CallContext { trace, ..context };
        Box::pin(async move {
            let outcome = self.send_call(arguments, context, link).await;
            if let Some(span) = span {
                span.end_tool_span(&outcome);
            }
            outcome
        })
    }
}

/// Returns the link to the client if the client's own request is forwarded, and not a call that a
/// composed tool makes.
pub(crate) fn client_link(context: &CallContext) -> Option<&Arc<ClientLink>> {
    let link = context.link.as_ref().filter(|_| context.nesting.is_none());
    link.and_then(|link| link.get::<Arc<ClientLink>>())
}
