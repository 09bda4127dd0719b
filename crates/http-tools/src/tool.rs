use std::fmt;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::tool::{
    CallContext, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOutput,
};
use serde_json::Value;

use crate::api_access::{self, ApiAccess};
use crate::request::RequestPlan;
use crate::{HttpToolEntry, HttpToolError, entry, response};

/// An HTTP endpoint as a tool.
pub struct HttpTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) plan: RequestPlan,
    pub(crate) access: Arc<ApiAccess>,
    /// The JSON pointer to the result in the response.
    pub(crate) result_at: Option<String>,
    /// The digest of the tool, without the values of secrets.
    pub(crate) digest: String,
}

impl HttpTool {
    /// Creates a tool from its declaration. Does no I/O.
    ///
    /// # Errors
    /// The declaration is invalid; the error names the invalid key.
    pub fn new(entry: HttpToolEntry) -> Result<Self, HttpToolError> {
        entry::compile_entry(entry)
    }

    async fn run(&self, arguments: &Value) -> Result<ToolOutput, ToolFailure> {
        let access = &*self.access;
        let request = self.plan.fill(arguments, access)?;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let failed = |error| api_access::failure(&error, &host, access);
        let sent = access.client()?.send(request, access.limits.timeout).await;
        let response = sent.map_err(failed)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes(access.limits.max_answer_bytes).await;
        let text = String::from_utf8(body.map_err(failed)?.into());
        let is_success = access
            .limits
            .success
            .iter()
            .any(|range| range.contains(status.as_u16()));
        let Ok(text) = text else {
            return Err(if is_success {
                ToolFailure::internal("The response is not text")
            } else {
                response::failure(&host, status, &headers, Value::Null)
            });
        };
        let bytes = text.len();
        let redacted_text = access.without_secrets(text);
        let parse = move || {
            let parsed = response::parse_body(&headers, redacted_text);
            (headers, parsed)
        };
        let (headers, parsed) = compute::run(&host, bytes, parse).await;
        // The parsed body is redacted again, because JSON escapes may hide a secret.
        let value = parsed.map(|value| access.redacted(value));
        if is_success {
            response::output(status, value?, self.result_at.as_deref())
        } else {
            let value = value.unwrap_or_default();
            Err(response::failure(&host, status, &headers, value))
        }
    }
}

impl Tool for HttpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn digest(&self) -> Option<String> {
        Some(self.digest.clone())
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { self.run(&Value::Object(arguments)).await })
    }
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool")
            .field("name", self.definition.name())
            .field("host", &self.plan.url.sample().host_str())
            .finish_non_exhaustive()
    }
}
