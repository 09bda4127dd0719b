use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{McpClient, RequestOptions, ToolCallResult, as_object};
use crate::mcp::{Feature, McpError, McpErrorKind};

/// A deadline after this is none, and could not be told by the clock.
const LONGEST_DEADLINE: Duration = Duration::from_secs(24 * 3600);

/// How serious a log message is (RFC 5424), from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of RFC 5424")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl McpClient {
    /// Calls a tool and gives the JSON-RPC result as the server wrote it; a result with
    /// `isError` is a result. Empty arguments go out as `{}` (E11).
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let options = RequestOptions::default();
        let called = self.call_tool_with(name, arguments, &options).await?;
        Ok(called.result)
    }

    /// [`call_tool`](Self::call_tool), with options, and with a word on structured content
    /// that does not fit the tool's `outputSchema`, as far as the tool has been listed.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn call_tool_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: &RequestOptions,
    ) -> Result<ToolCallResult, McpError> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a RawValue,
        }
        let time = options.timeout.unwrap_or(self.shared.config.timeout);
        let until = tokio::time::Instant::now() + time.min(LONGEST_DEADLINE);
        let arguments = as_object(arguments).map_err(|kind| self.error(kind))?;
        let arguments = &arguments;
        let params = Params { name, arguments };
        let result = self.request_with("tools/call", &params, options).await?;
        let tool = self.shared.tools.get(name);
        let output_mismatch = match tool.and_then(|tool| tool.output.clone()) {
            // Seldom, and large.
            Some(schema) => Box::pin(schema.mismatch(&result, until)).await,
            None => None,
        };
        if let Some(mismatch) = &output_mismatch {
            let server = &self.shared.config.label;
            tracing::warn!(
                mcp.server = server,
                tool = name,
                mismatch,
                "A result does not fit its schema"
            );
        }
        Ok(ToolCallResult {
            result,
            output_mismatch,
        })
    }

    /// Tells the server something that it does not answer.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), McpError> {
        let notify = async {
            let params = as_object(params)?;
            let session = self.shared.connections.session().await?;
            session.notify(method, &params).await
        };
        let name = || self.operation_name(method, params);
        self.in_time(&RequestOptions::default(), name, notify).await
    }

    /// Reads a resource: `ReadResourceResult` as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`]; of code `not_found` when there is no such resource, which servers say
    /// as -32002 and as -32602.
    pub async fn read_resource(&self, uri: &str) -> Result<Box<RawValue>, McpError> {
        self.request("resources/read", &json!({ "uri": uri })).await
    }

    /// Fills in a prompt: `GetPromptResult` as the server wrote it. Arguments are strings.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn get_prompt<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let arguments = as_object(arguments).map_err(|kind| self.error(kind))?;
        let params = json!({"name": name, "arguments": arguments});
        self.request("prompts/get", &params).await
    }

    /// Asks how an argument of a prompt (`{"type": "ref/prompt", "name": ...}`) or a
    /// resource template (`{"type": "ref/resource", "uri": ...}`) may go on:
    /// `CompleteResult` as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn complete(
        &self,
        reference: &Value,
        argument: &str,
        value: &str,
    ) -> Result<Box<RawValue>, McpError> {
        let argument = json!({"name": argument, "value": value});
        let params = json!({"ref": reference, "argument": argument});
        self.request("completion/complete", &params).await
    }

    /// Asks the server for its log messages from `level` up; they come as
    /// `notifications/message`. Since 2026-07-28 every later request says so.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), McpError> {
        let options = RequestOptions::default();
        let set = async {
            self.shared.connections.standing().set_log_level(level);
            let session = self.shared.connections.session().await?;
            if session.has(Feature::Handshake) {
                let params = as_object(&json!({ "level": level }))?;
                self.run("logging/setLevel", &params, &RequestOptions::default())
                    .await?;
            }
            Ok(())
        };
        let name = || self.operation_name("logging/setLevel", &());
        self.in_time(&options, name, set).await
    }

    /// Asks for a sign of life: `ping`, and `server/discover` where that took its place.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn ping(&self) -> Result<(), McpError> {
        let options = RequestOptions::default();
        let ping = async {
            let session = self.shared.connections.session().await?;
            let stateless = session.has(Feature::RequestMetadata);
            let method = if stateless { "server/discover" } else { "ping" };
            self.run(
                method,
                &as_object(&Value::Null)?,
                &RequestOptions::default(),
            )
            .await?;
            Ok::<_, McpErrorKind>(())
        };
        let name = || self.operation_name("ping", &());
        self.in_time(&options, name, ping).await
    }
}
