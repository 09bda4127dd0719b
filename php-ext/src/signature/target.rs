use ext_php_rs::types::Zval;

use super::attributes;
use super::doc_comment::DocComment;
use super::reflection::{
    ReflectionObject, check_class_exists, find_attribute, find_class, find_main_method,
};
use crate::exception;
use crate::zend::{
    Failure, Object, Result, entries, is_callable, item, new_list, new_string, type_name,
};

/// PHP code that may become a tool.
pub struct Target {
    /// The `ReflectionFunction` or `ReflectionMethod` of the code.
    pub(super) function: ReflectionObject,
    /// The class, if the tool is a whole class.
    class: Option<ReflectionObject>,
    /// The name of the code in error messages.
    pub(super) label: String,
    /// The tool's name, unless an attribute specifies another one. A closure has no name.
    pub(super) name: Option<String>,
    /// The PHP callable that runs the code.
    pub callable: Zval,
}

impl Target {
    /// Finds the PHP code for a callable, the name of a class, an object with `execute()`, or
    /// `[class, method]`.
    ///
    /// # Errors
    /// An `InvalidInputException` if the value specifies no such code. An exception of an
    /// autoloader.
    pub fn find(value: &Zval) -> Result<Self> {
        if let Some(object) = Object::from_value(value) {
            return if object.class_name() == "Closure" {
                Self::from_closure(value)
            } else {
                Self::from_class(value)
            };
        }
        if !is_utf8(value) {
            return Err(invalid_utf8());
        }
        if let Some(name) = value.str() {
            if let Some((class, method)) = name.split_once("::") {
                return Self::from_method_name(&new_string(class), method);
            }
            if is_callable(value)? {
                return Self::from_function(value, name);
            }
            if find_class(name)?.is_some() {
                return Self::from_class(value);
            }
            return Err(exception::invalid_input(format!(
                "There is neither a function nor a class '{name}'"
            )));
        }
        let callable_parts: Vec<_> = entries(value).collect();
        if let [(_, class_or_object), (_, method)] = callable_parts.as_slice() {
            if !is_utf8(class_or_object) || !is_utf8(method) {
                return Err(invalid_utf8());
            }
            if let (true, Some(method)) = (
                class_or_object.is_object() || class_or_object.is_string(),
                method.str(),
            ) {
                return Self::from_method_name(class_or_object, method);
            }
        }
        Err(exception::invalid_input(format!(
            "Argument #1 ($callable) must be a callable, a class or [class, method], {} given",
            type_name(value)
        )))
    }

    /// Creates the target of a method. `is_class_tool` is set if the method is the main method of a
    /// class that is a tool.
    pub(super) fn for_method(
        function: ReflectionObject,
        callable: Zval,
        is_class_tool: bool,
    ) -> Result<Self> {
        let name = function.name()?;
        let class = function.call_object("getDeclaringClass")?;
        let class_name = match &class {
            Some(class) => class.display_name("getName")?,
            None => String::new(),
        };
        let label = format!("{class_name}::{name}()");
        if !function.call_bool("isPublic")? {
            return Err(exception::invalid_input(format!("{label} is not public")));
        }
        let (class, name) = if is_class_tool {
            let tool_class = ReflectionObject::new("ReflectionClass", [read_class(&callable)])?;
            let short_name = tool_class.display_name("getShortName")?;
            (Some(tool_class), to_snake_case(&short_name))
        } else {
            (None, name)
        };
        Ok(Self {
            function,
            class,
            label,
            name: Some(name),
            callable,
        })
    }

    fn from_method_name(class_or_object: &Zval, method: &str) -> Result<Self> {
        check_class_exists(class_or_object)?;
        let class = ReflectionObject::new("ReflectionClass", [class_or_object.shallow_clone()])?;
        if class.call("hasMethod", [new_string(method)])?.bool() != Some(true) {
            return Err(exception::invalid_input(format!(
                "There is no method {}::{method}()",
                class.name()?
            )));
        }
        let arguments = [class_or_object.shallow_clone(), new_string(method)];
        let function = ReflectionObject::new("ReflectionMethod", arguments)?;
        let callable = new_list([class_or_object.shallow_clone(), new_string(method)]);
        Self::for_method(function, callable, false)
    }

    fn from_class(value: &Zval) -> Result<Self> {
        let class = ReflectionObject::new("ReflectionClass", [value.shallow_clone()])?;
        let method = find_main_method(&class)?.ok_or_else(|| {
            let name = class.name().unwrap_or_default();
            exception::invalid_input(format!("{name} has neither __invoke() nor execute()"))
        })?;
        let arguments = [value.shallow_clone(), new_string(&method)];
        let function = ReflectionObject::new("ReflectionMethod", arguments)?;
        let callable = new_list([value.shallow_clone(), new_string(&method)]);
        Self::for_method(function, callable, true)
    }

    fn from_function(callable: &Zval, name: &str) -> Result<Self> {
        let function = ReflectionObject::new("ReflectionFunction", [callable.shallow_clone()])?;
        Ok(Self {
            name: function.call_string("getShortName")?,
            function,
            class: None,
            label: format!("{name}()"),
            callable: callable.shallow_clone(),
        })
    }

    fn from_closure(closure: &Zval) -> Result<Self> {
        let function = ReflectionObject::new("ReflectionFunction", [closure.shallow_clone()])?;
        let name = function.call_string("getShortName")?.unwrap_or_default();
        // Only an anonymous closure has no name: a closure that was created from a method or a
        // function has the name of the method or function.
        let is_named = !name.contains("{closure");
        Ok(Self {
            function,
            class: None,
            label: if is_named {
                format!("{name}()")
            } else {
                "The closure".to_owned()
            },
            name: is_named.then_some(name),
            callable: closure.shallow_clone(),
        })
    }

    /// Returns the attribute `AsTool` of the class, if the tool is a whole class.
    pub(super) fn attribute(&self) -> Result<Option<Zval>> {
        match &self.class {
            Some(class) => find_attribute(class, attributes::AS_TOOL),
            None => Ok(None),
        }
    }

    /// Returns the summary in the doc comment of the class, if the tool is a whole class.
    pub(super) fn summary(&self) -> Result<Option<String>> {
        let Some(class) = &self.class else {
            return Ok(None);
        };
        let comment = class.call_string("getDocComment")?.unwrap_or_default();
        Ok(DocComment::parse(&comment).summary)
    }
}

/// Returns the object or the class from `[object or class, method]`.
fn read_class(callable: &Zval) -> Zval {
    item(callable, 0).unwrap_or_default()
}

fn is_utf8(value: &Zval) -> bool {
    value.zend_str().is_none_or(|text| text.as_str().is_ok())
}

fn invalid_utf8() -> Failure {
    exception::invalid_input("Argument #1 ($callable) is not valid UTF-8")
}

/// Converts `RollDice` to `roll_dice`, the usual style of tool names.
fn to_snake_case(name: &str) -> String {
    let mut snake_name = String::with_capacity(name.len() + 4);
    let mut previous_letter = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase()
            && (previous_letter.is_ascii_lowercase() || previous_letter.is_ascii_digit())
        {
            snake_name.push('_');
        }
        snake_name.push(letter.to_ascii_lowercase());
        previous_letter = letter;
    }
    snake_name
}
