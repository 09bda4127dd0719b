use pillion_core::job_channel::ToolRun;
use pillion_core::tool::{ErrorCode, ToolFailure, ToolOutput};
use serde_json::Value;

use crate::exception::{self, PhpOutcome};
use crate::json::{EmptyObject, decode_value, to_value};
use crate::tools::callable_tool;
use crate::tools::registry::{self, Registry};
use crate::values::tool_result::{NAME as TOOL_RESULT, to_tool_result};
use crate::zend::{Object, new_string, read_state};

/// Runs one PHP tool.
pub(super) fn run(registry_object: Object<'_>, run: &ToolRun<u64>) -> PhpOutcome<ToolOutput> {
    // A tool that has replaced the called tool has another registration number and must not run,
    // because the call may have been approved only for the replaced tool.
    let is_same_tool =
        read_state::<Registry>(registry_object)?.php_tool_number(&run.name) == Some(run.tool);
    let tool_value = registry::find_tool(registry_object, &run.name)?;
    let Some(tool) = tool_value.filter(|_| is_same_tool) else {
        let message = format!("Unknown tool: {}", run.name);
        return Ok(Err(ToolFailure::new(ErrorCode::NotFound, message)));
    };
    let Some(object) = Object::from_value(&tool) else {
        return Ok(Err(ToolFailure::internal(format!(
            "Tool '{}' is not an object",
            run.name
        ))));
    };
    exception::catch_exception(call(object, run))
}

fn call(tool: Object<'_>, run: &ToolRun<u64>) -> PhpOutcome<ToolOutput> {
    let arguments = decode_value(&Value::Object(run.arguments.clone()), EmptyObject::Array)?;
    let is_callable = callable_tool::is_callable_tool(tool);
    let value = if is_callable {
        callable_tool::invoke(tool, arguments, &run.call_id)?
    } else {
        tool.call("execute", [arguments, new_string(&run.call_id)])?
    };
    match to_tool_result(&value).map_err(exception::into_internal_error)? {
        Some(result) => Ok(result.into_output()),
        None if is_callable => {
            let value = to_value(&value).map_err(exception::into_internal_error)?;
            Ok(Ok(ToolOutput::value(value)))
        }
        None => Ok(Err(ToolFailure::internal(format!(
            "{}::execute() returned no {TOOL_RESULT}",
            tool.class_name()
        )))),
    }
}
