use axum::Json;
use pillion_core::compute;
use pillion_schema::{CompiledSchema, SchemaError, repair};
use pillion_wire::route;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::extract::{Caller, ObjectBody};
use pillion_management::error::{INVALID_INPUT, Result, route_error};

/// The tools whose schemas are checked.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct SchemaCheck {
    tools: Vec<CheckedTool>,
}

/// A tool with the JSON Schema of its arguments.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct CheckedTool {
    name: String,
    #[schema(value_type = Object)]
    input_schema: Map<String, Value>,
}

route_error! {
    /// The reason why the schema of a tool is rejected.
    #[derive(Debug, thiserror::Error)]
    #[error("Tool '{0}': {1}")]
    struct RejectedSchema(String, #[source] SchemaError) => INVALID_INPUT
}

/// Check JSON Schemas of tools.
#[utoipa::path(
    post,
    path = route::CHECK_SCHEMAS.path,
    request_body(content = SchemaCheck, content_type = "application/json"),
    responses(
        (status = 200, description = "All schemas are valid"),
        (status = 400, description = "A schema is invalid; `detail` has the tool, the location in the schema and the reason"),
    )
)]
pub(super) async fn check(
    caller: Caller,
    ObjectBody(request): ObjectBody<SchemaCheck>,
) -> Result<Json<Value>> {
    let account = format!("schemas of {:?}", caller.context.principal);
    // The size of the work is `usize::MAX`, so that the check always runs on another thread,
    // because checking even a small schema may take a long time.
    let check_schemas = compute::run(&account, usize::MAX, move || {
        for CheckedTool { name, input_schema } in request.tools {
            let mut schema = Value::Object(input_schema);
            repair(&mut schema);
            CompiledSchema::check(&schema).map_err(|error| RejectedSchema(name, error))?;
        }
        Ok::<_, RejectedSchema>(())
    });
    check_schemas.await?;
    Ok(Json(json!({"success": true})))
}
