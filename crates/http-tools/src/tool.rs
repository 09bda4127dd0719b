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
        let to_failure = |error| api_access::create_failure(&error, &host, access);
        let send_result = access.client()?.send(request, access.limits.timeout).await;
        let response = send_result.map_err(to_failure)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes(access.limits.max_response_bytes).await;
        let text_result = String::from_utf8(body.map_err(to_failure)?.into());
        let is_success = access
            .limits
            .success_statuses
            .iter()
            .any(|range| range.contains(status.as_u16()));
        let Ok(text) = text_result else {
            return Err(if is_success {
                ToolFailure::internal(format!("The response of '{host}' is not UTF-8 text"))
            } else {
                response::create_failure(&host, status, &headers, Value::Null)
            });
        };
        let byte_count = text.len();
        let redacted_text = access.redact_text(text);
        let parse = move || {
            let parse_result = response::parse_body(&headers, redacted_text);
            (headers, parse_result)
        };
        let (headers, parse_result) = compute::run(&host, byte_count, parse).await;
        // Redacts the parsed body again, because JSON escapes in the unparsed text may hide a
        // secret.
        let redacted_result = parse_result.map(|value| access.redact(value));
        if is_success {
            response::create_output(status, redacted_result?, self.result_at.as_deref())
        } else {
            let value = redacted_result.unwrap_or_default();
            Err(response::create_failure(&host, status, &headers, value))
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
            .field("host", &self.plan.url.sample_url().host_str())
            .finish_non_exhaustive()
    }
}
