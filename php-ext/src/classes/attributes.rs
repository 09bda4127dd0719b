//! The attributes `AsTool` and `Parameter`, which turn PHP code into tools.

use ext_php_rs::error::Result;
use ext_php_rs::types::Zval;

use crate::zend::{
    AttributeTargets, Class, ClassSlot, Failure, Method, MethodCall, Object, Outcome, Parameter,
    Property, Type, bool_of, float_of, string_of,
};

/// The attribute that marks a tool.
pub const AS_TOOL: &str = "Pillion\\AsTool";
/// The attribute that describes a parameter of a tool.
pub const PARAMETER: &str = "Pillion\\Parameter";

static AS_TOOL_CLASS: ClassSlot = ClassSlot::new();
static PARAMETER_CLASS: ClassSlot = ClassSlot::new();

const TEXT: Type = Type::STRING.nullable();
const NUMBER: Type = Type::INT.or(Type::FLOAT).nullable();
const INTEGER: Type = Type::INT.nullable();

/// The constraints of `Parameter`: PHP name, JSON Schema keyword, type.
const CONSTRAINTS: [(&str, &str, Type); 8] = [
    ("enum", "enum", Type::ARRAY.nullable()),
    ("minimum", "minimum", NUMBER),
    ("maximum", "maximum", NUMBER),
    ("minLength", "minLength", INTEGER),
    ("maxLength", "maxLength", INTEGER),
    ("pattern", "pattern", TEXT),
    ("format", "format", TEXT),
    ("schema", "", Type::ARRAY.nullable()),
];

pub(super) fn register() -> Result<()> {
    Class::new(AS_TOOL)
        .attribute_of(
            AttributeTargets::CLASS | AttributeTargets::FUNCTION | AttributeTargets::METHOD,
        )
        .property(Property::readonly("name", TEXT))
        .property(Property::readonly("description", TEXT))
        .property(Property::readonly("category", Type::STRING))
        .property(Property::readonly("requiresConfirmation", Type::BOOL))
        .property(Property::readonly("cooldownSeconds", Type::FLOAT))
        .property(Property::readonly("strict", Type::BOOL))
        .method(Method::new("__construct", construct_as_tool).parameters(&[
            Parameter::optional("name", TEXT, "null"),
            Parameter::optional("description", TEXT, "null"),
            Parameter::optional("category", Type::STRING, "'general'"),
            Parameter::optional("requiresConfirmation", Type::BOOL, "false"),
            Parameter::optional("cooldownSeconds", Type::INT.or(Type::FLOAT), "0"),
            Parameter::optional("strict", Type::BOOL, "false"),
        ]))
        .register(&AS_TOOL_CLASS)?;
    let mut class = Class::new(PARAMETER)
        .attribute_of(AttributeTargets::PARAMETER)
        .property(Property::readonly("description", TEXT));
    let mut parameters = vec![Parameter::optional("description", TEXT, "null")];
    for (name, _, kind) in CONSTRAINTS {
        class = class.property(Property::readonly(name, kind));
        parameters.push(Parameter::optional(name, kind, "null"));
    }
    class
        .method(Method::new("__construct", construct_parameter).parameters(&parameters))
        .register(&PARAMETER_CLASS)
}

fn construct_as_tool(call: &mut MethodCall<'_>) -> Outcome {
    let text = |index: usize| {
        let text = call.optional_string(index)?;
        Ok::<_, Failure>(text.map_or_else(Zval::new, string_of))
    };
    let values = [
        ("name", text(0)?),
        ("description", text(1)?),
        (
            "category",
            string_of(call.value(2).map_or(Ok("general"), |_| call.string(2))?),
        ),
        ("requiresConfirmation", bool_of(call.bool_or(3, false)?)),
        ("cooldownSeconds", float_of(call.number_or(4, 0.0)?)),
        ("strict", bool_of(call.bool_or(5, false)?)),
    ];
    for (name, value) in values {
        call.this().set(AS_TOOL_CLASS.get(), name, value);
    }
    Ok(Zval::new())
}

/// The typed properties validate the arguments with a `TypeError`.
fn construct_parameter(call: &mut MethodCall<'_>) -> Outcome {
    let description = call.optional_string(0)?;
    let this = call.this();
    let class = PARAMETER_CLASS.get();
    this.set(
        class,
        "description",
        description.map_or_else(Zval::new, string_of),
    );
    for (index, (name, _, _)) in CONSTRAINTS.into_iter().enumerate() {
        let value = call.value(index + 1);
        this.set(
            class,
            name,
            value.map_or_else(Zval::new, Zval::shallow_clone),
        );
        if ext_php_rs::zend::ExecutorGlobals::has_exception() {
            return Err(Failure::Pending);
        }
    }
    Ok(Zval::new())
}

/// Returns a property of an `AsTool`.
pub fn tool_property(attribute: Object<'_>, name: &str) -> Outcome {
    attribute.get(AS_TOOL_CLASS.get(), name)
}

/// Returns the description of a `Parameter`.
pub fn description_of(attribute: Object<'_>) -> Outcome {
    attribute.get(PARAMETER_CLASS.get(), "description")
}

/// Returns the JSON Schema keywords that a `Parameter` sets, with their values. An empty keyword
/// means a whole schema.
pub fn constraints_of(
    attribute: Object<'_>,
) -> std::result::Result<Vec<(&'static str, Zval)>, Failure> {
    let mut set = Vec::new();
    for (name, keyword, _) in CONSTRAINTS {
        let value = attribute.get(PARAMETER_CLASS.get(), name)?;
        if !value.is_null() {
            set.push((keyword, value));
        }
    }
    Ok(set)
}
