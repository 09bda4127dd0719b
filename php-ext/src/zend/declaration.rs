//! Parses declarations of methods, parameters, properties and types, written as in PHP. A test
//! compares the declared classes with the classes in `library/`, to find mistakes in declarations.

use ext_php_rs::flags::{MethodFlags, PropertyFlags};
use ext_php_rs::types::Zval;

use super::{DeclaredType, empty_array, new_bool, new_int, new_string, undefined_value};

/// `ZEND_ACC_READONLY`, for which `ext-php-rs` has no binding.
const READONLY_FLAG: u32 = 1 << 7;

/// A method, such as `static find(string $name, ?int $limit = null): array`.
pub(super) struct MethodDeclaration {
    pub(super) name: &'static str,
    pub(super) flags: MethodFlags,
    pub(super) parameters: Vec<Parameter>,
    pub(super) return_type: Option<DeclaredType>,
}

impl MethodDeclaration {
    pub(super) fn parse(text: &'static str) -> Self {
        let (head, tail) = text.split_once('(').unwrap_or((text, ""));
        let (parameters, return_part) = tail.rsplit_once(')').unwrap_or((tail, ""));
        let (modifier, name) = head.split_once(' ').unwrap_or(("", head));
        Self {
            name,
            flags: match modifier {
                "static" => MethodFlags::Public | MethodFlags::Static,
                "private" => MethodFlags::Private,
                modifier => {
                    debug_assert!(modifier.is_empty(), "unknown modifier: {text}");
                    MethodFlags::Public
                }
            },
            parameters: parameters
                .split(", ")
                .filter(|parameter| !parameter.is_empty())
                .map(Parameter::parse)
                .collect(),
            return_type: return_part.strip_prefix(": ").map(DeclaredType::parse),
        }
    }
}

/// A parameter, such as `?int $limit = null`.
pub struct Parameter {
    pub name: &'static str,
    pub(super) declared_type: DeclaredType,
    /// The default value as PHP source code. Reflection shows it, and the engine uses it if a later
    /// argument is passed by name.
    pub default: Option<&'static str>,
    /// Whether stack traces hide the argument, because it may be a credential.
    pub(super) is_sensitive: bool,
}

impl Parameter {
    /// Returns the parameters of a declared method.
    pub fn parse_all(method: &'static str) -> Vec<Self> {
        MethodDeclaration::parse(method).parameters
    }

    /// Returns the default value of the parameter; null if it has none.
    pub(super) fn default_value(&self) -> Zval {
        self.default.map_or_else(Zval::new, parse_constant)
    }

    fn parse(text: &'static str) -> Self {
        let text_without_attribute = text.strip_prefix("#[SensitiveParameter] ");
        let (type_text, name, default) = parse_variable(text_without_attribute.unwrap_or(text));
        Self {
            name,
            declared_type: DeclaredType::parse(type_text),
            default,
            is_sensitive: text_without_attribute.is_some(),
        }
    }
}

/// A property, such as `private array $tools = []`. Without a default, the property is
/// uninitialized. The default must not be reference-counted, so it cannot be a string.
pub(super) struct PropertyDeclaration {
    pub(super) name: &'static str,
    pub(super) declared_type: DeclaredType,
    pub(super) flags: u32,
    pub(super) default: Zval,
}

impl PropertyDeclaration {
    pub(super) fn parse(text: &'static str) -> Self {
        let (head, name, default) = parse_variable(text);
        let (modifiers, type_text) = head.rsplit_once(' ').unwrap_or(("", head));
        let mut flags = modifiers.split(' ').fold(0, |flags, modifier| {
            flags
                | match modifier {
                    "private" => PropertyFlags::Private.bits(),
                    "protected" => PropertyFlags::Protected.bits(),
                    "readonly" => READONLY_FLAG,
                    "static" => PropertyFlags::Static.bits(),
                    modifier => {
                        debug_assert!(modifier.is_empty(), "unknown modifier: {text}");
                        0
                    }
                }
        });
        if flags & (PropertyFlags::Private | PropertyFlags::Protected).bits() == 0 {
            flags |= PropertyFlags::Public.bits();
        }
        let is_string = default.is_some_and(|default| default.starts_with('\''));
        debug_assert!(!is_string, "a reference-counted default: {text}");
        Self {
            name,
            declared_type: DeclaredType::parse(type_text),
            flags,
            default: default.map_or_else(undefined_value, parse_constant),
        }
    }

    /// Declares the public readonly property of a promoted parameter.
    pub(super) fn for_promoted(parameter: &Parameter) -> Self {
        Self {
            name: parameter.name,
            declared_type: parameter.declared_type,
            flags: PropertyFlags::Public.bits() | READONLY_FLAG,
            default: undefined_value(),
        }
    }
}

/// Splits the declaration of a parameter or property into the text before the name, the name, and
/// the default value.
fn parse_variable(text: &'static str) -> (&'static str, &'static str, Option<&'static str>) {
    let (variable, default) = match text.split_once(" = ") {
        Some((variable, default)) => (variable, Some(default)),
        None => (text, None),
    };
    let (type_text, name) = variable.split_once(" $").unwrap_or(("mixed", variable));
    (type_text, name, default)
}

/// Returns the value of a constant in PHP source code: a string, an integer, a boolean, `[]` or
/// `null`.
fn parse_constant(text: &str) -> Zval {
    match (text, text.strip_prefix('\'')) {
        (_, Some(string)) => new_string(string.trim_end_matches('\'')),
        ("[]", _) => empty_array(),
        ("true" | "false", _) => new_bool(text == "true"),
        _ => text.parse().map_or_else(|_| Zval::new(), new_int),
    }
}
