//! The attributes `AsTool` and `Parameter`, which turn PHP code into tools.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::types::Zval;

use crate::zend::{
    AttributeTargets, Class, ClassSlot, Failure, MethodCall, Object, Outcome, Result, methods,
    new_bool, new_float, new_string,
};

/// The attribute that marks a tool.
pub const AS_TOOL: &str = "Pillion\\AsTool";
/// The attribute that describes a parameter of a tool.
pub const PARAMETER: &str = "Pillion\\Parameter";

static AS_TOOL_CLASS: ClassSlot = ClassSlot::new();
static PARAMETER_CLASS: ClassSlot = ClassSlot::new();

/// The constraints of `Parameter`, in the order of the constructor's parameters. All but the last
/// are JSON Schema keywords.
const CONSTRAINTS: [&str; 8] = [
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    WHOLE_SCHEMA,
];

/// The constraint that is a whole JSON Schema.
pub const WHOLE_SCHEMA: &str = "schema";

const PARAMETER_CONSTRUCTOR: &str = "__construct(?string $description = null, ?array $enum = null, \
             int|float|null $minimum = null, int|float|null $maximum = null, \
             ?int $minLength = null, ?int $maxLength = null, ?string $pattern = null, \
             ?string $format = null, ?array $schema = null)";

pub fn register() -> ZendResult<()> {
    methods!(
        Class::new(AS_TOOL)
            .with_attribute_targets(
                AttributeTargets::CLASS | AttributeTargets::FUNCTION | AttributeTargets::METHOD,
            )
            .properties(&[
                "readonly ?string $name",
                "readonly ?string $description",
                "readonly string $category",
                "readonly bool $requiresConfirmation",
                "readonly float $cooldownSeconds",
                "readonly bool $strict",
            ]),
        "__construct(?string $name = null, ?string $description = null, \
         string $category = 'general', bool $requiresConfirmation = false, \
         int|float $cooldownSeconds = 0, bool $strict = false)" => construct_as_tool,
    )
    .register(&AS_TOOL_CLASS)?;
    Class::new(PARAMETER)
        .with_attribute_targets(AttributeTargets::PARAMETER)
        .promoted_constructor(PARAMETER_CONSTRUCTOR, construct_parameter)
        .register(&PARAMETER_CLASS)
}

fn construct_as_tool(call: &mut MethodCall<'_>) -> Outcome {
    let text = |index: usize| {
        let text = call.optional_string(index)?;
        Ok::<_, Failure>(text.map_or_else(Zval::new, new_string))
    };
    let values = [
        ("name", text(0)?),
        ("description", text(1)?),
        ("category", new_string(call.string_or(2, "general")?)),
        ("requiresConfirmation", new_bool(call.bool_or(3, false)?)),
        ("cooldownSeconds", new_float(call.number_or(4, 0.0)?)),
        ("strict", new_bool(call.bool_or(5, false)?)),
    ];
    call.this().set_all(AS_TOOL_CLASS.get(), values);
    Ok(Zval::new())
}

/// Creates a `Parameter` attribute. Setting the attribute's typed properties throws a `TypeError`
/// if an argument has the wrong type.
fn construct_parameter(call: &mut MethodCall<'_>) -> Outcome {
    // Fails if the description is not valid UTF-8.
    call.optional_string(0)?;
    call.promote(PARAMETER_CLASS.get(), PARAMETER_CONSTRUCTOR)
}

/// Returns a property of an `AsTool` attribute.
pub fn tool_property(attribute: Object<'_>, name: &str) -> Outcome {
    attribute.get(AS_TOOL_CLASS.get(), name)
}

/// Returns the description in a `Parameter` attribute.
pub fn read_description(attribute: Object<'_>) -> Outcome {
    attribute.get(PARAMETER_CLASS.get(), "description")
}

/// Returns the constraints that a `Parameter` attribute sets, with their values.
pub fn read_constraints(attribute: Object<'_>) -> Result<Vec<(&'static str, Zval)>> {
    let mut constraints = Vec::new();
    for name in CONSTRAINTS {
        let value = attribute.get(PARAMETER_CLASS.get(), name)?;
        if !value.is_null() {
            constraints.push((name, value));
        }
    }
    Ok(constraints)
}
