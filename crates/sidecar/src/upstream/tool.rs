use std::sync::Arc;

use pillion_core::mcp::{McpTool, McpToolError};
use pillion_core::tool::{
    CallContext, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOrigin, ToolOutput,
};
use serde_json::value::{RawValue, to_raw_value};

use super::Server;
use crate::mcp_server::link::Link;
use crate::mcp_server::message::Members;
use crate::pins;

/// A tool of an MCP server. For a call that came through our own MCP server everything
/// passes as it is, in both directions; for any other it is an [`McpTool`].
#[derive(Debug)]
pub(crate) struct UpstreamTool {
    inner: Arc<McpTool>,
    server: Arc<Server>,
    /// The entry of `tools/list`, as the server wrote it.
    listed: Members,
    /// What nobody would see who looks at it.
    warnings: Vec<String>,
}

impl UpstreamTool {
    /// # Errors
    /// [`McpToolError`], as for [`McpTool::from_listed`].
    pub(super) fn new(server: &Arc<Server>, listed: &RawValue) -> Result<Self, McpToolError> {
        let tool = McpTool::from_listed(server.client.clone(), &server.tool_prefix, listed)?;
        Ok(Self {
            inner: Arc::new(tool),
            server: Arc::clone(server),
            warnings: pins::warnings(&serde_json::from_str(listed.get())?),
            listed: serde_json::from_str(listed.get())?,
        })
    }

    /// The name that the server knows the tool by.
    pub(crate) fn remote_name(&self) -> &str {
        self.inner.remote_name()
    }

    /// Whether the other is described in the same words.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let of = |tool: &Self| serde_json::to_string(&tool.listed).ok();
        of(self) == of(other)
    }

    /// What is hidden in its definition.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The entry of `tools/list` under another name.
    pub(crate) fn listed_as(&self, name: &str) -> Result<Box<RawValue>, serde_json::Error> {
        let mut listed = self.listed.clone();
        listed.insert("name".to_owned(), to_raw_value(name)?);
        to_raw_value(&listed)
    }

    async fn relay(
        &self,
        arguments: JsonObject,
        link: Arc<Link>,
    ) -> Result<ToolOutput, ToolFailure> {
        let unwritten = |error: serde_json::Error| ToolFailure::internal(error.to_string());
        let name = to_raw_value(self.remote_name()).map_err(unwritten)?;
        let arguments = to_raw_value(&arguments).map_err(unwritten)?;
        let params = link.params([("name", name), ("arguments", arguments)]);
        let options = link.options();
        let client = &self.server.client;
        let request = client.request_with("tools/call", &params, &options);
        let called = self.server.desk.during(Arc::clone(&link), request).await;
        let outcome = McpTool::outcome(called.as_deref());
        match called {
            Ok(result) => link.deposit(Ok(result)),
            Err(error) => {
                if let Some(error) = error.rpc_error() {
                    link.deposit(Err(error.clone()));
                }
            }
        }
        outcome
    }
}

impl Tool for UpstreamTool {
    fn definition(&self) -> &ToolDefinition {
        self.inner.definition()
    }

    fn origin(&self) -> ToolOrigin {
        self.inner.origin()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        let link = context.link.as_ref();
        match link.and_then(|link| link.get::<Arc<Link>>()).cloned() {
            Some(link) => Box::pin(async move { self.relay(arguments, link).await }),
            None => Arc::clone(&self.inner).call(arguments, context),
        }
    }
}
