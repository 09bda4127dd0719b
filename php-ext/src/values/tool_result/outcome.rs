//! Creates results from PHP code, and converts failed results to exceptions.

use ext_php_rs::types::Zval;

use super::{CLASS, PROPERTIES, ResultParts};
use crate::exception;
use crate::json::{EmptyObject, decode_value};
use crate::zend::{Failure, MethodCall, Outcome, Result, empty_array, new_array};

fn metadata_argument(call: &MethodCall<'_>, index: usize) -> Outcome {
    let metadata = call.optional_array(index)?;
    Ok(metadata.map_or_else(empty_array, Zval::shallow_clone))
}

/// Creates the values of a `ToolResult` from a method's arguments. The call ID and the tool name
/// are optional: the executor sets them.
fn new_parts(call: &MethodCall<'_>, index: usize) -> Result<ResultParts> {
    let id = call.string_or(index, "")?;
    let name = call.string_or(index + 1, "")?;
    Ok(ResultParts::new(id, name))
}

pub(super) fn success(call: &mut MethodCall<'_>) -> Outcome {
    let result_parts = ResultParts {
        result: call.value_or_null(0),
        data: call.value_or_null(3),
        metadata: metadata_argument(call, 4)?,
        ..new_parts(call, 1)?
    };
    result_parts.into_object_of(call.called_class())
}

pub(super) fn failure(call: &mut MethodCall<'_>) -> Outcome {
    let code = call.string_or(1, "internal_error")?;
    let result_parts = ResultParts {
        success: false,
        error: Some(call.string(0)?.to_owned()),
        error_code: Some(code.to_owned()),
        result: call.value_or_null(4),
        metadata: metadata_argument(call, 5)?,
        ..new_parts(call, 2)?
    };
    result_parts.into_object_of(call.called_class())
}

/// Throws the exception for the error code of a failed result; returns a successful result.
pub(super) fn throw(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let property = |name: &str| this.get(CLASS.get(), name);
    if property("success")?.bool() == Some(true) {
        return Ok(this.to_value());
    }
    let text = |name: &str| Ok::<_, Failure>(property(name)?.string());
    Err(exception::for_result(&exception::FailedResult {
        tool_name: text("toolName")?.unwrap_or_default(),
        error: text("error")?.unwrap_or_else(|| "The tool failed".to_owned()),
        code: text("errorCode")?.unwrap_or_else(|| "internal_error".to_owned()),
        metadata: property("metadata")?,
    }))
}

/// Returns the result for `json_encode`, like `toArray()` but with empty metadata as an object.
pub(super) fn json_serialize(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let mut entries = Vec::with_capacity(PROPERTIES.len());
    for (name, key) in PROPERTIES {
        let mut value = this.get(CLASS.get(), name)?;
        if name == "metadata" && value.array().is_some_and(|entries| entries.is_empty()) {
            let empty_map = serde_json::Value::Object(serde_json::Map::new());
            value = decode_value(&empty_map, EmptyObject::StdClass)?;
        }
        entries.push((key, value));
    }
    Ok(new_array(entries))
}
