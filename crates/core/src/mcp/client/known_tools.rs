use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::mcp::param_headers::{self, ParamHeader, ParamHeaderError};
use crate::schema::CompiledSchema;

/// What the last list said about the server's tools and a call has to know.
#[derive(Default)]
pub(super) struct KnownTools {
    tools: RwLock<HashMap<String, Arc<KnownTool>>>,
    /// Some tool asks for headers that repeat parameters: only then a call looks for its
    /// own. Written under the lock of `tools`.
    want_headers: AtomicBool,
}

pub(super) struct KnownTool {
    headers: Vec<ParamHeader>,
    output: Option<CompiledSchema>,
    /// The annotations say that a second call does no harm.
    pub(super) harmless_twice: bool,
}

/// The result of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallResult {
    /// The JSON-RPC result as the server wrote it (E10).
    pub result: Box<RawValue>,
    /// What is wrong with `structuredContent`, if the tool has an `outputSchema` that it
    /// does not fit. The result is there all the same.
    pub output_mismatch: Option<String>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(rename = "inputSchema", default)]
    input_schema: Value,
    #[serde(rename = "outputSchema", default)]
    output_schema: Option<Value>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "readOnlyHint", default)]
    read_only: bool,
    #[serde(rename = "idempotentHint", default)]
    idempotent: bool,
}

impl KnownTools {
    /// Learns from an entry of `tools/list`. One of an unexpected form teaches nothing.
    ///
    /// # Errors
    /// When the parameters ask for headers against the rules.
    pub(super) fn learn(&self, listed: &RawValue) -> Result<(), ParamHeaderError> {
        let Ok(listed) = serde_json::from_str::<Listed>(listed.get()) else {
            return Ok(());
        };
        let headers = param_headers::of_schema(&listed.input_schema)?;
        let output = listed.output_schema.and_then(|schema| {
            let compiled = CompiledSchema::compile(&schema);
            compiled
                .inspect_err(|error| tracing::warn!(tool = listed.name, %error, "An output schema cannot be used"))
                .ok()
        });
        let tool = KnownTool {
            headers,
            output,
            harmless_twice: listed.annotations.read_only || listed.annotations.idempotent,
        };
        let mut tools = self.tools.write();
        self.want_headers
            .fetch_or(!tool.headers.is_empty(), Ordering::AcqRel);
        tools.insert(listed.name, Arc::new(tool));
        Ok(())
    }

    pub(super) fn forget_all(&self) {
        let mut tools = self.tools.write();
        tools.clear();
        self.want_headers.store(false, Ordering::Release);
    }

    /// Whether some tool asks for headers that repeat parameters.
    pub(super) fn want_headers(&self) -> bool {
        self.want_headers.load(Ordering::Acquire)
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.tools.read().get(name).cloned()
    }
}

impl KnownTool {
    /// The headers that repeat parameters of a call.
    pub(super) fn headers(&self, arguments: &RawValue) -> HeaderMap {
        if self.headers.is_empty() {
            return HeaderMap::new();
        }
        let arguments: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        param_headers::of_arguments(&self.headers, &arguments)
    }

    /// What is wrong with the structured content of a result.
    pub(super) fn output_mismatch(&self, result: &RawValue) -> Option<String> {
        #[derive(Deserialize)]
        struct Output {
            #[serde(rename = "structuredContent", default)]
            structured_content: Option<Value>,
            #[serde(rename = "isError", default)]
            is_error: bool,
        }
        let schema = self.output.as_ref()?;
        let output: Output = serde_json::from_str(result.get()).ok()?;
        match output.structured_content {
            _ if output.is_error => None,
            Some(content) => schema.mismatch(&content),
            None => Some(
                "the tool has an output schema, but the result has no structuredContent".to_owned(),
            ),
        }
    }
}
