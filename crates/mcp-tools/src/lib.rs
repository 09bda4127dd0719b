//! Tools of MCP servers as tools of the engine. [`McpTool`] calls a server's tool through an
//! [`McpClient`], and [`error_code`] returns the engine's error code for a class of the client's
//! errors.

use std::sync::Arc;

use pillion_core::compute;
use pillion_core::tool::{
    ApprovalPolicy, CallContext, DefinitionError, ErrorCode, JsonObject, ServerResponse, Tool,
    ToolDefinition, ToolFailure, ToolFuture, ToolName, ToolOrigin, ToolOutput, shortened_name,
};
use pillion_mcp_client::{ErrorClass, McpClient, McpError, RequestOptions, ToolCallResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A tool of an MCP server, as a [`Tool`].
///
/// The output of a call is the unchanged JSON-RPC result. A result with `isError` makes the call
/// fail; the failure contains the result. If structured content does not match the tool's
/// `outputSchema`, the call still succeeds, with the reason as `output_mismatch` in the metadata.
#[derive(Debug)]
pub struct McpTool {
    client: McpClient,
    definition: ToolDefinition,
    /// The tool's name on the server.
    remote_name: String,
    approval_policy: Option<ApprovalPolicy>,
}

/// Why an entry of `tools/list` cannot be used. The other entries are unaffected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpToolError {
    /// The entry of `tools/list` is not an object with a name.
    #[error("the entry has an unexpected form: {0}")]
    InvalidEntry(#[from] serde_json::Error),
    /// The tool's name or schema is invalid.
    #[error(transparent)]
    InvalidDefinition(#[from] DefinitionError),
}

/// The members of a `tools/list` entry. A `title` or `description` that is not a string is ignored.
#[derive(Deserialize)]
struct ListedToolEntry {
    name: String,
    #[serde(default)]
    title: Value,
    #[serde(default)]
    description: Value,
    #[serde(rename = "inputSchema", default)]
    input_schema: Option<Value>,
}

/// Returns the name of a server's tool in a registry: `prefix` followed by the name on the server.
/// Characters that [`ToolName`] does not allow, such as dots, become `_`. Without a prefix, a name
/// that does not begin with a letter gets a leading `_`. A name that is too long is shortened.
///
/// ```
/// use pillion_mcp_tools::registered_name;
/// assert_eq!(registered_name("work_", "calendar.add-event"), "work_calendar_add-event");
/// assert_eq!(registered_name("", "3d_render"), "_3d_render");
/// ```
#[must_use]
pub fn registered_name(prefix: &str, name: &str) -> String {
    let to_allowed = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let mut tool_name = prefix.to_owned();
    if prefix.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    {
        tool_name.push('_');
    }
    tool_name.extend(name.chars().map(to_allowed));
    if tool_name.len() > ToolName::MAX_LENGTH {
        return shortened_name(&tool_name, name, ToolName::MAX_LENGTH);
    }
    tool_name
}

impl McpTool {
    /// Creates a tool from an entry of `tools/list`, with its [`registered_name`].
    ///
    /// ```
    /// use pillion_core::tool::Tool;
    /// use pillion_mcp_client::{McpClient, ServerConfig};
    /// use pillion_mcp_tools::McpTool;
    /// use serde_json::value::RawValue;
    /// let client = McpClient::new(ServerConfig::new("work", "https://mcp.example/mcp")?);
    /// let entry = r#"{"name": "calendar.add", "inputSchema": {"type": "object"}}"#;
    /// let tool = McpTool::from_listed(client, "work_", &RawValue::from_string(entry.to_owned())?)?;
    /// assert_eq!(tool.definition().name().as_str(), "work_calendar_add");
    /// assert_eq!(tool.remote_name(), "calendar.add");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The entry has no valid name, or its definition is not a valid tool definition.
    pub fn from_listed(
        client: McpClient,
        prefix: &str,
        entry_json: &RawValue,
    ) -> Result<Self, McpToolError> {
        let entry: ListedToolEntry = serde_json::from_str(entry_json.get())?;
        let mut descriptions = [&entry.description, &entry.title]
            .into_iter()
            .filter_map(Value::as_str);
        let description = descriptions.find(|text| !text.trim().is_empty());
        let definition = ToolDefinition::builder(
            registered_name(prefix, &entry.name),
            description.unwrap_or(&entry.name),
        )
        .schema(entry.input_schema.unwrap_or_else(|| serde_json::json!({})))
        .category("mcp")
        .build()?;
        Ok(Self {
            client,
            definition,
            remote_name: entry.name,
            approval_policy: None,
        })
    }

    /// Lists all tools of a server. Skips invalid entries with a warning.
    ///
    /// # Errors
    /// [`McpError`] if the list cannot be fetched.
    pub async fn discover(
        client: &McpClient,
        prefix: &str,
    ) -> Result<Vec<Arc<dyn Tool>>, McpError> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for entry in client.list_tools().await? {
            match Self::from_listed(client.clone(), prefix, &entry) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(error) => tracing::warn!(
                    mcp.server = client.config().label, %error,
                    "Skipped an unusable tool of MCP server `{}`", client.config().label
                ),
            }
        }
        Ok(tools)
    }

    /// Sets the approval policy from the configuration of the server.
    #[must_use]
    pub fn with_approval_policy(mut self, policy: Option<ApprovalPolicy>) -> Self {
        self.approval_policy = policy;
        self
    }

    /// Returns the tool's name on the server.
    #[must_use]
    pub fn remote_name(&self) -> &str {
        &self.remote_name
    }

    /// Calls the tool through another client of its server, for example with another credential.
    ///
    /// # Errors
    /// The tool failed or could not be called; [`error_code`] defines the code of an error.
    pub async fn call_with_client(
        &self,
        client: &McpClient,
        arguments: &JsonObject,
        context: CallContext,
    ) -> Result<ToolOutput, ToolFailure> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a JsonObject,
        }
        let params = Params {
            name: &self.remote_name,
            arguments,
        };
        let trace_members = context.trace.map(|trace| trace.to_meta());
        let mut options = RequestOptions::default();
        options.meta = trace_members.unwrap_or_default();
        let call = client.call_tool_with_params(&self.remote_name, &params, &options);
        let (_, outcome) = to_outcome(client, call.await).await;
        outcome
    }

    /// Calls the tool for a client whose request is forwarded with all its parameters. The outcome
    /// contains the server's response, which the client gets unchanged.
    ///
    /// `params` must serialize to an object with the members `name`, which is the tool's
    /// [name on the server](Self::remote_name), and `arguments`, which is an object.
    ///
    /// # Errors
    /// The tool failed or could not be called; [`error_code`] defines the code of an error.
    pub async fn forward<P: Serialize + ?Sized>(
        &self,
        client: &McpClient,
        params: &P,
        options: &RequestOptions,
    ) -> Result<ToolOutput, ToolFailure> {
        let call = client.call_tool_with_params(&self.remote_name, params, options);
        let (server_outcome, outcome) = to_outcome(client, call.await).await;
        let response = match server_outcome {
            Ok(tool_result) => Some(ServerResponse::Result(tool_result.result)),
            Err(error) => {
                let raw_error = error.rpc_error().and_then(|error| to_raw_value(error).ok());
                raw_error.map(ServerResponse::Error)
            }
        };
        match response {
            Some(response) => response.add_to(outcome),
            None => outcome,
        }
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Mcp {
            server_label: self.client.config().label.clone(),
            server_url: self.client.config().display_url(),
        }
    }

    fn name_on_server(&self) -> Option<&str> {
        Some(&self.remote_name)
    }

    fn digest(&self) -> Option<String> {
        Some(self.client.config().endpoint_digest())
    }

    fn approval_policy(&self) -> Option<ApprovalPolicy> {
        self.approval_policy
    }

    fn call(self: Arc<Self>, arguments: JsonObject, context: CallContext) -> ToolFuture {
        Box::pin(async move {
            self.call_with_client(&self.client, &arguments, context)
                .await
        })
    }
}

/// Returns the engine's error code for the class of an [`McpError`] or an `OAuthError`.
///
/// ```
/// use pillion_core::tool::ErrorCode;
/// use pillion_mcp_client::ErrorClass;
/// assert_eq!(pillion_mcp_tools::error_code(ErrorClass::Internal), ErrorCode::InternalError);
/// ```
#[must_use]
pub fn error_code(class: ErrorClass) -> ErrorCode {
    match class {
        ErrorClass::InvalidInput => ErrorCode::InvalidInput,
        ErrorClass::NotFound => ErrorCode::NotFound,
        ErrorClass::RateLimited => ErrorCode::RateLimited,
        ErrorClass::Timeout => ErrorCode::Timeout,
        ErrorClass::Denied => ErrorCode::Denied,
        ErrorClass::Unavailable => ErrorCode::Unavailable,
        ErrorClass::Cancelled => ErrorCode::Cancelled,
        ErrorClass::Internal => ErrorCode::InternalError,
    }
}

/// Converts a server's response to `tools/call` into the outcome of the call. Returns the response
/// and the outcome. Parses a long result on another thread.
async fn to_outcome(
    client: &McpClient,
    server_outcome: Result<ToolCallResult, McpError>,
) -> (
    Result<ToolCallResult, McpError>,
    Result<ToolOutput, ToolFailure>,
) {
    match server_outcome {
        Err(error) => {
            let failure = to_failure(&error);
            (Err(error), Err(failure))
        }
        Ok(tool_result) => {
            let (server_label, bytes) = (&client.config().label, tool_result.result.get().len());
            let parse = move || {
                let outcome = parse_result(&tool_result);
                (Ok(tool_result), outcome)
            };
            compute::run(server_label, bytes, parse).await
        }
    }
}

/// Parses a tool's result. The MCP client has already limited the number of values in the result.
///
/// # Errors
/// The result has `isError`, or is not valid JSON. The failure of a result with `isError` contains
/// the result; the message of the failure consists of the text blocks of the result.
fn parse_result(tool_result: &ToolCallResult) -> Result<ToolOutput, ToolFailure> {
    let result: Value = serde_json::from_str(tool_result.result.get()).map_err(|error| {
        ToolFailure::internal(format!(
            "The MCP server's result is not valid JSON: {error}"
        ))
    })?;
    if result.get("isError") == Some(&Value::Bool(true)) {
        let message = join_text_blocks(&result);
        return Err(ToolFailure::new(ErrorCode::InternalError, message).with_result(result));
    }
    let output = ToolOutput::value(result);
    Ok(match &tool_result.output_mismatch {
        Some(mismatch) => output.with_metadata("output_mismatch", mismatch.as_str().into()),
        None => output,
    })
}

fn to_failure(error: &McpError) -> ToolFailure {
    let failure = ToolFailure::new(error_code(error.class()), error.to_string());
    match error.retry_after() {
        Some(retry_after) => failure.with_retry_after(retry_after),
        None => failure,
    }
}

/// Returns the text blocks of a result, joined by newlines, or a default message if there are none.
fn join_text_blocks(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array);
    let texts: Vec<_> = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    if texts.is_empty() {
        "The tool reported an error".to_owned()
    } else {
        texts.join("\n")
    }
}
