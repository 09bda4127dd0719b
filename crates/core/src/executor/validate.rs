use crate::registry::RegisteredTool;
use crate::schema::OptionalNull;
use crate::tool::{JsonObject, ToolFailure};

/// Checks the arguments against the tool's schema and fills in its defaults (C3).
pub(super) fn against_schema(
    tool: &RegisteredTool,
    mut arguments: JsonObject,
) -> Result<JsonObject, ToolFailure> {
    if let Some(schema) = tool.schema() {
        let nulls = if tool.definition().strict() {
            OptionalNull::LeftOut
        } else {
            OptionalNull::Wrong
        };
        schema
            .validate_reading(&mut arguments, nulls)
            .map_err(|violation| ToolFailure::invalid_input(violation.to_string()))?;
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::executor::{Executor, ExecutorConfig};
    use crate::registry::ToolRegistry;
    use crate::tool::{CallContext, FnTool, ToolCall, ToolDefinition, ToolOutput};

    #[tokio::test]
    async fn h1_null_for_an_optional_parameter_of_a_strict_tool_is_nothing() {
        let registry = ToolRegistry::new();
        for (name, strict) in [("strict", true), ("lax", false)] {
            let schema = json!({"properties": {
                "unit": {"type": "string", "default": "m"},
                "note": {"type": "string"},
                "by": {"type": ["string", "null"]},
            }});
            let definition = ToolDefinition::builder(name, "Shows").schema(schema);
            let definition = definition.strict(strict).build().unwrap();
            let tool = FnTool::new(definition, |arguments, _| async move {
                Ok(ToolOutput::value(json!(arguments)))
            });
            registry.register(Arc::new(tool)).unwrap();
        }
        let executor = Executor::new(Arc::new(registry), ExecutorConfig::default());
        let run = async |name: &str| {
            let arguments = json!(r#"{"unit": null, "note": null, "by": null}"#);
            let call = ToolCall::new("1", name, arguments);
            executor.execute_one(call, &CallContext::default()).await
        };
        let shown = run("strict").await;
        assert_eq!(shown.result, json!({"by": null, "unit": "m"}), "{shown:?}");
        let refused = run("lax").await.error;
        let expected = "Invalid type for unit: expected string";
        assert_eq!(refused.as_deref(), Some(expected));
    }
}
