use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::delivery::Delivery;
use super::list_reader::ListKind;
use super::listing::{list, list_tools};
use super::{
    McpClient, McpLogLevel, RequestOptions, Subscription, SubscriptionFilter, ToolCallResult,
    as_object, rounds, subscription,
};
use crate::{Feature, McpError, McpErrorKind};

/// Longer deadlines are treated as this one, and would overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl McpClient {
    /// Calls a tool and returns the JSON-RPC result as the server wrote it, including results with
    /// `isError`. Empty arguments are sent as `{}`.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error. A result with `isError` is not
    /// an error.
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let options = RequestOptions::default();
        let called = self.call_tool_with(name, arguments, &options).await?;
        Ok(called.result)
    }

    /// Calls a tool like [`call_tool`](Self::call_tool), with options. Also returns why structured
    /// content does not match the tool's `outputSchema`, if the tool was listed before.
    ///
    /// # Errors
    /// As for [`call_tool`](Self::call_tool).
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
        let object = as_object(arguments).map_err(|kind| self.error(kind))?;
        let params = Params {
            name,
            arguments: &object,
        };
        self.call_tool_with_params(name, &params, options).await
    }

    /// Calls a tool like [`call_tool_with`](Self::call_tool_with), with all members of the
    /// request's parameters, for callers that forward a request. `params` must serialize to an
    /// object with the members `name`, which is `name`, and `arguments`, which is an object.
    ///
    /// # Errors
    /// As for [`call_tool`](Self::call_tool).
    pub async fn call_tool_with_params<P: Serialize + ?Sized>(
        &self,
        name: &str,
        params: &P,
        options: &RequestOptions,
    ) -> Result<ToolCallResult, McpError> {
        let time = options.timeout.unwrap_or(self.sender.config.timeout);
        let until = tokio::time::Instant::now() + time.min(MAX_TIMEOUT);
        let result = self.request_with("tools/call", params, options).await?;
        let tool = self.sender.tools.get(name);
        let output_mismatch = match tool.and_then(|tool| tool.output.clone()) {
            // Boxed, because it is rare and large.
            Some(schema) => Box::pin(schema.mismatch(&result, until)).await,
            None => None,
        };
        if let Some(mismatch) = &output_mismatch {
            let server = &self.sender.config.label;
            tracing::warn!(
                mcp.server = server,
                tool = name,
                mismatch,
                "A tool result does not match the tool's output schema"
            );
        }
        Ok(ToolCallResult {
            result,
            output_mismatch,
        })
    }

    /// Sends a notification, which has no response.
    ///
    /// # Errors
    /// The server is unreachable, or the notification cannot be sent in time.
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), McpError> {
        let notify = async {
            let params = as_object(params)?;
            let session = self.sender.connections.session().await?;
            session.notify(method, &params).await
        };
        let name = || self.operation_name(method, params);
        self.in_time(&RequestOptions::default(), name, notify).await
    }

    /// Reads a resource, and returns the `ReadResourceResult` as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`]; with code `not_found` if there is no such resource, which servers report as
    /// -32002 or -32602.
    pub async fn read_resource(&self, uri: &str) -> Result<Box<RawValue>, McpError> {
        self.request("resources/read", &json!({ "uri": uri })).await
    }

    /// Requests a rendered prompt, and returns the `GetPromptResult` as the server wrote it. Arguments are
    /// strings.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn get_prompt<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<Box<RawValue>, McpError> {
        let arguments = as_object(arguments).map_err(|kind| self.error(kind))?;
        let params = json!({"name": name, "arguments": arguments});
        self.request("prompts/get", &params).await
    }

    /// Requests completions for an argument of a prompt (`{"type": "ref/prompt", "name": ...}`) or
    /// of a resource template (`{"type": "ref/resource", "uri": ...}`), and returns the
    /// `CompleteResult` as the server wrote it.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
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

    /// Requests the server's log messages of `level` and above, which arrive as
    /// `notifications/message`. Since revision 2026-07-28, every later request carries the level.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn set_log_level(&self, level: McpLogLevel) -> Result<(), McpError> {
        let options = RequestOptions::default();
        let set = async {
            self.sender.connections.settings().set_log_level(level);
            let session = self.sender.connections.session().await?;
            if session.has(Feature::Handshake) {
                let params = as_object(&json!({ "level": level }))?;
                let options = RequestOptions::default();
                rounds::run(
                    &self.sender,
                    "logging/setLevel",
                    &params,
                    &options,
                    &Delivery::default(),
                )
                .await?;
            }
            Ok(())
        };
        let name = || self.operation_name("logging/setLevel", &());
        self.in_time(&options, name, set).await
    }

    /// Checks that the server responds, with `ping`, or with `server/discover`, which replaces it
    /// in newer revisions.
    ///
    /// # Errors
    /// The server is unreachable, too slow, or responds with an error.
    pub async fn ping(&self) -> Result<(), McpError> {
        let options = RequestOptions::default();
        let ping = async {
            let session = self.sender.connections.session().await?;
            let stateless = session.has(Feature::RequestMetadata);
            let method = if stateless { "server/discover" } else { "ping" };
            rounds::run(
                &self.sender,
                method,
                &as_object(&Value::Null)?,
                &RequestOptions::default(),
                &Delivery::default(),
            )
            .await?;
            Ok::<_, McpErrorKind>(())
        };
        let name = || self.operation_name("ping", &());
        self.in_time(&options, name, ping).await
    }

    /// Returns the server's tools of all pages, each as the server wrote it. Empty if the server
    /// does not know `tools/list`.
    ///
    /// The number and the size of the entries of every list are limited: to 10,000 tools, resources
    /// or prompts, or 1,000 resource templates, to 1 MiB for each entry, and to 16 MiB together. What
    /// exceeds a limit is dropped with a warning.
    ///
    /// A tool whose `x-mcp-header` annotations violate the rules of revision 2026-07-28 is skipped
    /// with a warning, as that revision requires.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_tools(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = list_tools(&self.sender);
        self.list_with_deadline("tools/list", list).await
    }

    /// Returns the server's resources of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resources(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = list(&self.sender, ListKind::RESOURCES);
        self.list_with_deadline("resources/list", list).await
    }

    /// Returns the server's resource templates of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_resource_templates(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = list(&self.sender, ListKind::RESOURCE_TEMPLATES);
        self.list_with_deadline("resources/templates/list", list)
            .await
    }

    /// Returns the server's prompts of all pages, each as the server wrote it.
    ///
    /// # Errors
    /// [`McpError`].
    pub async fn list_prompts(&self) -> Result<Vec<Box<RawValue>>, McpError> {
        let list = list(&self.sender, ListKind::PROMPTS);
        self.list_with_deadline("prompts/list", list).await
    }

    async fn list_with_deadline<T>(
        &self,
        method: &str,
        list: impl Future<Output = Result<T, McpErrorKind>>,
    ) -> Result<T, McpError> {
        let name = || self.operation_name(method, &());
        self.in_time(&RequestOptions::default(), name, Box::pin(list))
            .await
    }

    /// Subscribes to notifications: with `subscriptions/listen` since revision 2026-07-28; before,
    /// with `resources/subscribe` and the notifications that the server pushes.
    ///
    /// # Errors
    /// [`McpError`] if the server rejects the subscription.
    pub async fn subscribe(&self, filter: SubscriptionFilter) -> Result<Subscription, McpError> {
        let name = || {
            format!(
                "the notification subscription at server '{}'",
                self.config().label
            )
        };
        let subscribe = subscription::subscribe(&self.sender, filter);
        self.in_time(&RequestOptions::default(), name, subscribe)
            .await
    }
}
