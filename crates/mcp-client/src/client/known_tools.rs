use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::output_schema::OutputSchema;
use crate::message::MirroredHeaders;
use crate::param_headers::{self, ParamHeader, ParamHeaderError};

/// The properties of the server's tools that are needed for calls, from the last `tools/list`.
#[derive(Default)]
pub(super) struct KnownTools {
    list: RwLock<Arc<KnownToolList>>,
    last_sequence: AtomicU64,
}

/// The properties of the tools in one complete list.
#[derive(Default)]
pub(super) struct KnownToolList {
    /// The label of the server that lists the tools.
    server: Arc<str>,
    /// The position of the list's `tools/list` request among all such requests of the client. A
    /// list does not replace a list that was requested later.
    sequence: u64,
    tools: HashMap<String, Arc<KnownTool>>,
    /// Whether any tool requires headers that mirror parameters. If no tool does, calls do not look
    /// up their tool.
    has_param_headers: bool,
}

pub(super) struct KnownTool {
    headers: Vec<ParamHeader>,
    /// The schema of the structured content in the tool's results; `None` if the tool declares no
    /// schema.
    pub(super) output_schema: Option<Arc<OutputSchema>>,
    /// Whether the tool's annotations mark a call as safe to repeat (`idempotentHint` or
    /// `readOnlyHint`).
    pub(super) is_repeatable: bool,
}

/// The result of a tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallResult {
    /// The JSON-RPC result as the server wrote it.
    pub result: Box<RawValue>,
    /// Why `structuredContent` does not match the tool's `outputSchema`; the result is returned
    /// anyway. `None` if there is no mismatch, no usable schema is known, or the call's deadline
    /// passes before the check has finished.
    pub output_mismatch: Option<String>,
}

/// The members of a `tools/list` entry that are needed for calls. Only an invalid name makes the
/// entry unusable.
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
    fn has_hint(&self, annotation: &str) -> bool {
        self.annotations.get(annotation) == Some(&Value::Bool(true))
    }
}

impl KnownTools {
    /// Creates an empty list of tools. Must be called before `tools/list` is sent, so that lists
    /// are numbered in the order of their requests.
    pub(super) fn new_list(&self, server: &str) -> KnownToolList {
        KnownToolList {
            server: server.into(),
            sequence: self.last_sequence.fetch_add(1, Ordering::Relaxed) + 1,
            ..KnownToolList::default()
        }
    }

    /// Replaces the known tools with this list, unless the known list was requested later.
    pub(super) fn replace(&self, list: KnownToolList) {
        let mut known_list = self.list.write();
        if known_list.sequence < list.sequence {
            *known_list = Arc::new(list);
        }
    }

    /// Returns whether any tool requires headers that mirror parameters.
    pub(super) fn has_param_headers(&self) -> bool {
        self.list.read().has_param_headers
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.list.read().tools.get(name).cloned()
    }
}

impl KnownToolList {
    /// Adds an entry of `tools/list`. Ignores an entry without a name.
    ///
    /// # Errors
    /// The tool's header annotations violate the rules of MCP 2026-07-28.
    pub(super) fn add(&mut self, entry: &RawValue) -> Result<(), ParamHeaderError> {
        let Ok(members) = serde_json::from_str::<ListedToolMembers>(entry.get()) else {
            return Ok(());
        };
        let headers = param_headers::from_schema(&members.input_schema)?;
        let is_repeatable = members.has_hint("readOnlyHint") || members.has_hint("idempotentHint");
        let output_schema = members
            .output_schema
            .map(|schema| Arc::new(OutputSchema::new(&members.name, &self.server, schema)));
        let tool = KnownTool {
            headers,
            output_schema,
            is_repeatable,
        };
        self.has_param_headers |= !tool.headers.is_empty();
        self.tools.insert(members.name, Arc::new(tool));
        Ok(())
    }
}

impl KnownTool {
    /// Returns the headers that mirror parameters of a call to this tool.
    pub(super) fn headers(&self, arguments: &RawValue) -> MirroredHeaders {
        if self.headers.is_empty() {
            return MirroredHeaders::new();
        }
        let parsed_arguments: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        param_headers::mirror_headers(&self.headers, &parsed_arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn list(tools: &KnownTools, entries: &[Value]) -> KnownToolList {
        let mut list = tools.new_list("server");
        for entry in entries {
            list.add(&to_raw_value(entry).unwrap()).unwrap();
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
            assert_eq!(tools.get(name).unwrap().is_repeatable, harmless, "{name}");
        }
        assert!(tools.get("null").unwrap().output_schema.is_none());
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
