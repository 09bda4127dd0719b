use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::output_schema::OutputSchema;
use crate::metadata::MirroredHeaders;
use crate::param_headers::{self, ParamHeader, ParamHeaderError};

/// The properties of the server's tools that calls use, from the last `tools/list`.
#[derive(Default)]
pub(super) struct KnownTools {
    last: RwLock<Arc<KnownToolList>>,
    sequences: AtomicU64,
}

/// The properties of the tools in one complete list.
#[derive(Default)]
pub(super) struct KnownToolList {
    /// The label of the server that lists the tools.
    server: Arc<str>,
    /// The number of the `tools/list` request: of two lists, the one requested later wins.
    sequence: u64,
    tools: HashMap<String, Arc<KnownTool>>,
    /// Whether any tool requires headers that mirror parameters. If not, calls need not search the
    /// tools.
    has_param_headers: bool,
}

pub(super) struct KnownTool {
    headers: Vec<ParamHeader>,
    /// The schema of the tool's structured content.
    pub(super) output: Option<Arc<OutputSchema>>,
    /// Whether the tool's annotations say that repeating a call is harmless.
    pub(super) harmless_twice: bool,
}

/// The result of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallResult {
    /// The JSON-RPC result as the server wrote it.
    pub result: Box<RawValue>,
    /// Why `structuredContent` does not match the tool's `outputSchema`. The result is returned
    /// anyway. `None` also if the schema cannot be used, or if the check would take longer than the
    /// call may.
    pub output_mismatch: Option<String>,
}

/// The members of a `tools/list` entry that calls use. Only an invalid name makes the entry
/// unusable.
#[derive(Deserialize)]
struct ListedToolMembers {
    name: String,
    #[serde(rename = "inputSchema", default)]
    input_schema: Value,
    #[serde(rename = "outputSchema", default)]
    output_schema: Option<Box<RawValue>>,
    #[serde(default)]
    annotations: Value,
}

impl ListedToolMembers {
    /// Returns whether an annotation is `true`; values that are not booleans are ignored.
    fn hints(&self, annotation: &str) -> bool {
        self.annotations.get(annotation) == Some(&Value::Bool(true))
    }
}

impl KnownTools {
    /// Starts a list of tools, before the list is requested.
    pub(super) fn begin(&self, server: &str) -> KnownToolList {
        KnownToolList {
            server: server.into(),
            sequence: self.sequences.fetch_add(1, Ordering::Relaxed) + 1,
            ..KnownToolList::default()
        }
    }

    /// Replaces the known tools with this list, unless a list that was requested later is known.
    pub(super) fn replace(&self, list: KnownToolList) {
        let mut last = self.last.write();
        if last.sequence < list.sequence {
            *last = Arc::new(list);
        }
    }

    /// Returns whether any tool requires headers that mirror parameters.
    pub(super) fn has_param_headers(&self) -> bool {
        self.last.read().has_param_headers
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.last.read().tools.get(name).cloned()
    }
}

impl KnownToolList {
    /// Adds an entry of `tools/list`. Ignores an entry without a name.
    ///
    /// # Errors
    /// The tool's header annotations violate the rules of MCP 2026-07-28.
    pub(super) fn learn(&mut self, entry: &RawValue) -> Result<(), ParamHeaderError> {
        let Ok(listed) = serde_json::from_str::<ListedToolMembers>(entry.get()) else {
            return Ok(());
        };
        let headers = param_headers::from_schema(&listed.input_schema)?;
        let harmless_twice = listed.hints("readOnlyHint") || listed.hints("idempotentHint");
        let output = listed
            .output_schema
            .map(|schema| Arc::new(OutputSchema::new(&listed.name, &self.server, schema)));
        let tool = KnownTool {
            headers,
            output,
            harmless_twice,
        };
        self.has_param_headers |= !tool.headers.is_empty();
        self.tools.insert(listed.name, Arc::new(tool));
        Ok(())
    }
}

impl KnownTool {
    /// Returns the headers that mirror parameters of a call to this tool.
    pub(super) fn headers(&self, arguments: &RawValue) -> MirroredHeaders {
        if self.headers.is_empty() {
            return MirroredHeaders::new();
        }
        let values: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        param_headers::mirrored_headers(&self.headers, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn list(tools: &KnownTools, entries: &[Value]) -> KnownToolList {
        let mut list = tools.begin("server");
        for entry in entries {
            list.learn(&to_raw_value(entry).unwrap()).unwrap();
        }
        list
    }

    #[test]
    fn f6_only_a_malformed_annotation_is_ignored() {
        let tools = KnownTools::default();
        let entries = [
            json!({"name": "null", "annotations": null, "outputSchema": null}),
            json!({"name": "text", "annotations": "none"}),
            json!({"name": "half", "annotations": {"readOnlyHint": null, "idempotentHint": true}}),
            json!({"name": "other", "annotations": {"readOnlyHint": true, "idempotentHint": "x"}}),
            json!({"name": "schema", "annotations": {"readOnlyHint": 1}, "outputSchema": 7}),
        ];
        tools.replace(list(&tools, &entries));
        for (name, harmless) in [
            ("null", false),
            ("text", false),
            ("half", true),
            ("other", true),
            ("schema", false),
        ] {
            assert_eq!(tools.get(name).unwrap().harmless_twice, harmless, "{name}");
        }
        assert!(tools.get("null").unwrap().output.is_none());
    }

    #[test]
    fn a_new_list_replaces_the_whole_previous_list() {
        let tools = KnownTools::default();
        let old = list(&tools, &[json!({"name": "a"})]);
        let header = json!({"properties": {"r": {"type": "string", "x-mcp-header": "R"}}});
        let new = list(&tools, &[json!({"name": "b", "inputSchema": header})]);
        assert!(tools.get("b").is_none() && !tools.has_param_headers());
        tools.replace(new);
        assert!(tools.get("b").is_some() && tools.has_param_headers());
        // The list `old` was requested before the known one.
        tools.replace(old);
        assert!(tools.get("a").is_none() && tools.get("b").is_some());
        tools.replace(list(&tools, &[json!({"name": "c"})]));
        assert!(tools.get("b").is_none() && !tools.has_param_headers());
    }
}
