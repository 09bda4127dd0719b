use std::fmt;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::tool::{
    CallContext, JsonObject, Tool, ToolDefinition, ToolFailure, ToolFuture, ToolOutput,
};
use serde_json::Value;

use crate::api_access::{self, ApiAccess};
use crate::request::RequestPlan;
use crate::{HttpToolEntry, HttpToolError, answer, entry};

/// An HTTP endpoint as a tool.
pub struct HttpTool {
    pub(crate) definition: ToolDefinition,
    pub(crate) plan: RequestPlan,
    pub(crate) door: Arc<ApiAccess>,
    /// JSON pointer to the result in the response.
    pub(crate) result_at: Option<String>,
    /// The digest of the tool, without the values of secrets.
    pub(crate) digest: String,
}

impl HttpTool {
    /// Creates a tool from its declaration. Does no I/O.
    ///
    /// # Errors
    /// [`HttpToolError`] with the invalid key.
    pub fn new(entry: HttpToolEntry) -> Result<Self, HttpToolError> {
        entry::compile_entry(entry)
    }

    async fn run(&self, arguments: &Value) -> Result<ToolOutput, ToolFailure> {
        let door = &*self.door;
        let request = self.plan.fill(arguments, door)?;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let failed = |error| api_access::failure(&error, &host, door);
        let sent = door.client()?.send(request, door.limits.timeout).await;
        let answer = sent.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.bytes(door.limits.max_answer_bytes).await;
        let body = String::from_utf8(body.map_err(failed)?.into());
        let bytes = body.as_ref().map_or(0, String::len);
        let is_success = door
            .limits
            .success
            .iter()
            .any(|range| range.contains(status.as_u16()));
        let Ok(body) = body else {
            return match is_success {
                true => Err(ToolFailure::internal("The response is not text")),
                false => Err(answer::failure(&host, status, &headers, Value::Null)),
            };
        };
        let body = door.without_secrets(body);
        let parse = move || {
            let value = answer::value_of(&headers, body);
            (headers, value)
        };
        let (headers, value) = compute::run(&host, bytes, parse).await;
        // Again after parsing, because JSON escapes may hide a secret.
        let value = value.map(|value| door.redacted(value));
        match is_success {
            true => answer::output(status, value?, self.result_at.as_deref()),
            false => {
                let value = value.unwrap_or_default();
                Err(answer::failure(&host, status, &headers, value))
            }
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
