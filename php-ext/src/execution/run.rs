use pillion_core::job_channel::ToolRun;
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOutput};
use serde_json::Value;

use crate::exception::{self, Caught};
use crate::json::{EmptyObject, decode_value, to_value};
use crate::tools::callable_tool;
use crate::tools::registry::{self, Registry};
use crate::values::tool_result::{NAME as TOOL_RESULT, result_of};
use crate::zend::{Object, state_of, string_of};

/// Runs one PHP tool.
pub(super) fn run(registry_object: Object<'_>, run: &ToolRun<u64>) -> Caught<ToolOutput> {
    // The call may have been approved for this tool, so another tool that has replaced it must not
    // run.
    let is_the_same = state_of::<Registry>(registry_object)?.php_tool(&run.name) == Some(run.tool);
    let found = registry::find_tool(registry_object, &run.name)?;
    let Some(tool) = found.filter(|_| is_the_same) else {
        let message = format!("Unknown tool: {}", run.name);
        return Ok(Err(ToolFailure::new(ErrorCode::NotFound, message)));
    };
    let Some(object) = Object::from_value(&tool) else {
        return Ok(Err(ToolFailure::internal("The tool is not an object")));
    };
    exception::catch(call(object, run))
}

fn call(tool: Object<'_>, run: &ToolRun<u64>) -> Caught<ToolOutput> {
    let arguments = decode_value(&Value::Object(run.arguments.clone()), EmptyObject::Array)?;
    let is_callable = callable_tool::is_callable_tool(tool);
    let value = if is_callable {
        callable_tool::invoke(tool, arguments, &run.call_id)?
    } else {
        tool.call("execute", [arguments, string_of(&run.call_id)])?
    };
    match result_of(&value).map_err(exception::as_internal)? {
        Some(result) => Ok(result.into_output()),
        None if is_callable => {
            let value = to_value(&value).map_err(exception::as_internal)?;
            Ok(Ok(ToolOutput::value(value)))
        }
        None => Ok(Err(ToolFailure::internal(format!(
            "{}::execute() returned no {TOOL_RESULT}",
            tool.class_name()
        )))),
    }
}
