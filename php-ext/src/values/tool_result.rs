//! `ToolResult`: the result of a tool call.

mod content;
mod outcome;

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;
use pillion_core::tool::{ErrorCode, JsonObject, ToolResult};
use serde_json::Value;

use super::tool_call::exact_arguments;
use crate::exception::parse_error_code;
use crate::json::{EmptyObject, decode_value, to_value};
use crate::zend::{
    Class, ClassSlot, Failure, MethodCall, Object, Outcome, Result, create, empty_array,
    json_serializable, methods, new_array, new_bool, new_string,
};

pub const NAME: &str = "Pillion\\ToolResult";
static CLASS: ClassSlot = ClassSlot::new();

pub fn register() -> ZendResult<()> {
    let class = Class::new(NAME)
        .implements(json_serializable())
        .promoted_constructor(
            "__construct(string $toolCallId, string $toolName, mixed $result, \
             bool $success = true, ?string $error = null, ?string $errorCode = null, \
             mixed $data = null, array $metadata = [])",
            construct,
        );
    methods!(
        class,
        "toMessage(): string" => to_message,
        "toMessageFormat(): array" => to_message_format,
        "toArray(): array" => to_array,
        "jsonSerialize(): array" => outcome::json_serialize,
        "isError(): bool" => content::is_error,
        "text(): string" => content::text,
        "content(): array" => content::content,
        "structuredContent(): mixed" => content::structured_content,
        "images(): array" => content::images,
        "throw(): static" => outcome::throw,
        "static success(mixed $result, string $toolCallId = '', string $toolName = '', \
         mixed $data = null, array $metadata = []): static" => outcome::success,
        "static failure(string $error, string $errorCode = 'internal_error', \
         string $toolCallId = '', string $toolName = '', mixed $result = null, \
         array $metadata = []): static" => outcome::failure,
    )
    .register(&CLASS)
}

fn construct(call: &mut MethodCall<'_>) -> Outcome {
    let optional_text = |index: usize| {
        let text = call.optional_string(index)?;
        Ok::<_, Failure>(text.map(str::to_owned))
    };
    let metadata = call.optional_array(7)?;
    let result_parts = ResultParts {
        result: call.value_or_null(2),
        success: call.bool_or(3, true)?,
        error: optional_text(4)?,
        error_code: optional_text(5)?,
        data: call.value_or_null(6),
        metadata: metadata.map_or_else(empty_array, Zval::shallow_clone),
        ..ResultParts::new(call.string(0)?, call.string(1)?)
    };
    result_parts.set_properties(call.this());
    Ok(Zval::new())
}

/// The properties of a `ToolResult`, in the order of the constructor's parameters, and their names
/// in JSON.
const PROPERTIES: [(&str, &str); 8] = [
    ("toolCallId", "tool_call_id"),
    ("toolName", "tool_name"),
    ("result", "result"),
    ("success", "success"),
    ("error", "error"),
    ("errorCode", "error_code"),
    ("data", "data"),
    ("metadata", "metadata"),
];

/// The values of a `ToolResult`, in the order of the properties.
pub struct ResultParts {
    pub tool_call_id: String,
    pub tool_name: String,
    pub result: Zval,
    pub success: bool,
    pub error: Option<String>,
    pub error_code: Option<String>,
    pub data: Zval,
    pub metadata: Zval,
}

impl ResultParts {
    /// Creates an empty successful result.
    pub fn new(tool_call_id: impl Into<String>, tool_name: impl Into<String>) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            result: Zval::new(),
            success: true,
            error: None,
            error_code: None,
            data: Zval::new(),
            metadata: empty_array(),
        }
    }

    /// Converts the values to a `ToolResult` object.
    pub fn into_object(self) -> Outcome {
        self.into_object_of(CLASS.get())
    }

    /// Converts the values to an object of `class`, which is `ToolResult` or a subclass.
    fn into_object_of(self, class: &ClassEntry) -> Outcome {
        create(class, |this| self.set_properties(this))
    }

    fn set_properties(self, this: Object<'_>) {
        let text = |text: Option<String>| text.map_or_else(Zval::new, new_string);
        let values = [
            new_string(self.tool_call_id),
            new_string(self.tool_name),
            self.result,
            new_bool(self.success),
            text(self.error),
            text(self.error_code),
            self.data,
            self.metadata,
        ];
        for ((name, _), value) in PROPERTIES.into_iter().zip(values) {
            this.set(CLASS.get(), name, value);
        }
    }
}

/// Creates a `ToolResult` for a result of the engine.
pub fn new_result(result: &ToolResult) -> Outcome {
    let decode = |value: &Value| decode_value(value, EmptyObject::Array);
    let mut metadata = Vec::with_capacity(result.metadata.len());
    // The metadata of a result that requires approval contains the exact arguments, because the
    // approver needs to see the arguments that the tool would receive.
    let needs_approval = result.error_code == Some(ErrorCode::ApprovalRequired);
    for (key, entry) in &result.metadata {
        let entry_value = if needs_approval && key == "arguments" {
            exact_arguments(entry)?
        } else {
            decode(entry)?
        };
        metadata.push((key.as_str(), entry_value));
    }
    let result_parts = ResultParts {
        result: decode(&result.result)?,
        success: result.success,
        error: result.error.clone(),
        error_code: result.error_code.map(|code| code.as_str().to_owned()),
        data: result.data.as_ref().map_or(Ok(Zval::new()), decode)?,
        metadata: new_array(metadata),
        ..ResultParts::new(&result.tool_call_id, &result.tool_name)
    };
    result_parts.into_object()
}

/// Creates the `ToolResult` object for the first result in a list of results.
///
/// # Errors
/// An `Error` if there is no result; [`Failure::Pending`] if PHP cannot create the object.
pub fn new_first_result(results: &[ToolResult]) -> Outcome {
    let no_result = || Failure::error("The executor returned no result for the call");
    results.first().ok_or_else(no_result).and_then(new_result)
}

/// Returns whether a value is a `ToolResult`.
pub fn is_result(value: &Zval) -> bool {
    Object::from_instance(value, CLASS.get()).is_some()
}

/// Converts a `ToolResult` to a result of the engine; returns `None` for any other value.
pub fn to_tool_result(value: &Zval) -> Result<Option<ToolResult>> {
    Object::from_instance(value, CLASS.get())
        .map(read_result)
        .transpose()
}

fn read_result(this: Object<'_>) -> Result<ToolResult> {
    let property = |name: &str| this.get(CLASS.get(), name);
    let text = |name: &str| Ok::<_, Failure>(property(name)?.string());
    let success = property("success")?.bool().unwrap_or_default();
    let data = property("data")?;
    let code = text("errorCode")?.and_then(|code| parse_error_code(&code));
    Ok(ToolResult {
        tool_call_id: text("toolCallId")?.unwrap_or_default(),
        tool_name: text("toolName")?.unwrap_or_default(),
        success,
        result: to_value(&property("result")?)?,
        data: (!data.is_null()).then(|| to_value(&data)).transpose()?,
        error: text("error")?,
        error_code: if success {
            code
        } else {
            code.or(Some(ErrorCode::InternalError))
        },
        metadata: match to_value(&property("metadata")?)? {
            Value::Object(metadata) => metadata,
            _ => JsonObject::new(),
        },
    })
}

fn to_message(call: &mut MethodCall<'_>) -> Outcome {
    Ok(new_string(read_result(call.this())?.to_message()))
}

fn to_message_format(call: &mut MethodCall<'_>) -> Outcome {
    let message = read_result(call.this())?.to_message_format();
    decode_value(&message, EmptyObject::Array)
}

/// Returns an array of the values. The keys are the names of the properties in JSON:
/// `tool_call_id`, `error_code` and so on.
fn to_array(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let mut entries = Vec::with_capacity(PROPERTIES.len());
    for (name, key) in PROPERTIES {
        entries.push((key, this.get(CLASS.get(), name)?));
    }
    Ok(new_array(entries))
}
