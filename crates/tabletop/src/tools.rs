mod append_transcript;
mod characters;
mod compute_check;
mod orchestrate_action;

use std::future::Future;
use std::sync::Arc;

use pillion_core::tool::{
    CallContext, FnTool, JsonObject, Tool, ToolDefinition, ToolFailure, ToolOutput,
};
use serde_json::Value;

use crate::orchestrator::Orchestrator;
use crate::scenes::Scenes;

/// Returns the tools of the pack.
pub(crate) fn create_tools(
    scenes: &Arc<Scenes>,
    orchestrator: &Arc<Orchestrator>,
) -> Vec<Arc<dyn Tool>> {
    vec![
        compute_check::tool(),
        orchestrate_action::tool(orchestrator),
        characters::list_tool(scenes),
        characters::save_tool(scenes),
        append_transcript::tool(scenes),
    ]
}

/// Creates a tool whose calls share the given state of the pack.
fn create_tool<S, Fut>(
    name: &str,
    description: &str,
    schema: Value,
    state: &Arc<S>,
    run: impl Fn(Arc<S>, JsonObject, CallContext) -> Fut + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    S: Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolFailure>> + Send + 'static,
{
    let definition = ToolDefinition::builder(name, description)
        .category("tabletop")
        .schema(schema)
        .build()
        .expect("the definition is constant and a test builds it");
    let state = Arc::clone(state);
    Arc::new(FnTool::new(definition, move |arguments, context| {
        run(Arc::clone(&state), arguments, context)
    }))
}
