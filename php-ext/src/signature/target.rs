use ext_php_rs::types::Zval;

use super::attributes;
use super::doc_comment::DocComment;
use super::reflection::{ReflectionObject, attribute_of, find_class, main_method};
use crate::exception;
use crate::zend::{Failure, Object, entries, is_callable, item, list_of, string_of, type_name};

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
    /// An `InvalidInputException` if the value stands for no such code. An exception of an
    /// autoloader.
    pub fn find(value: &Zval) -> Result<Self, Failure> {
        if let Some(object) = Object::from_value(value) {
            return if object.class_name() == "Closure" {
                Self::closure(value)
            } else {
                Self::class(value)
            };
        }
        if !is_utf8(value) {
            return Err(not_utf8());
        }
        if let Some(name) = value.str() {
            if let Some((class, method)) = name.split_once("::") {
                return Self::named(&string_of(class), method);
            }
            if is_callable(value)? {
                return Self::function(value, name);
            }
            if find_class(name)?.is_some() {
                return Self::class(value);
            }
            return Err(exception::invalid_input(format!(
                "There is neither a function nor a class '{name}'"
            )));
        }
        let parts: Vec<_> = entries(value).collect();
        if let [(_, on), (_, method)] = parts.as_slice() {
            if !is_utf8(on) || !is_utf8(method) {
                return Err(not_utf8());
            }
            if let (true, Some(method)) = (on.is_object() || on.is_string(), method.str()) {
                return Self::named(on, method);
            }
        }
        Err(exception::invalid_input(format!(
            "Argument #1 ($callable) must be a callable, a class or [class, method], {} given",
            type_name(value)
        )))
    }

    /// Creates the target of a method. `of_class` is set if the method is the main method of a
    /// class that is a tool.
    pub(super) fn method(
        function: ReflectionObject,
        callable: Zval,
        of_class: bool,
    ) -> Result<Self, Failure> {
        let name = function.name()?;
        let class = function.object("getDeclaringClass")?;
        let class_name = match &class {
            Some(class) => class.shown_name("getName")?,
            None => String::new(),
        };
        let label = format!("{class_name}::{name}()");
        if !function.call_bool("isPublic")? {
            return Err(exception::invalid_input(format!("{label} is not public")));
        }
        let (class, name) = if of_class {
            let used = ReflectionObject::new("ReflectionClass", [class_of(&callable)])?;
            let short = used.shown_name("getShortName")?;
            (Some(used), snake_case(&short))
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

    fn named(on: &Zval, method: &str) -> Result<Self, Failure> {
        if let Some(class) = on.str()
            && find_class(class)?.is_none()
        {
            return Err(exception::invalid_input(format!(
                "There is no class '{class}'"
            )));
        }
        let class = ReflectionObject::new("ReflectionClass", [on.shallow_clone()])?;
        if class.call("hasMethod", [string_of(method)])?.bool() != Some(true) {
            return Err(exception::invalid_input(format!(
                "There is no method {}::{method}()",
                class.name()?
            )));
        }
        let arguments = [on.shallow_clone(), string_of(method)];
        let function = ReflectionObject::new("ReflectionMethod", arguments)?;
        let callable = list_of([on.shallow_clone(), string_of(method)]);
        Self::method(function, callable, false)
    }

    fn class(value: &Zval) -> Result<Self, Failure> {
        let class = ReflectionObject::new("ReflectionClass", [value.shallow_clone()])?;
        let method = main_method(&class)?.ok_or_else(|| {
            let name = class.name().unwrap_or_default();
            exception::invalid_input(format!("{name} has neither __invoke() nor execute()"))
        })?;
        let arguments = [value.shallow_clone(), string_of(&method)];
        let function = ReflectionObject::new("ReflectionMethod", arguments)?;
        let callable = list_of([value.shallow_clone(), string_of(&method)]);
        Self::method(function, callable, true)
    }

    fn function(callable: &Zval, name: &str) -> Result<Self, Failure> {
        let function = ReflectionObject::new("ReflectionFunction", [callable.shallow_clone()])?;
        Ok(Self {
            name: function.text("getShortName")?,
            function,
            class: None,
            label: format!("{name}()"),
            callable: callable.shallow_clone(),
        })
    }

    fn closure(closure: &Zval) -> Result<Self, Failure> {
        let function = ReflectionObject::new("ReflectionFunction", [closure.shallow_clone()])?;
        let name = function.text("getShortName")?.unwrap_or_default();
        // A closure that was created from a method or a function has the name of this method or
        // function.
        let named = !name.contains("{closure");
        Ok(Self {
            function,
            class: None,
            label: if named {
                format!("{name}()")
            } else {
                "The closure".to_owned()
            },
            name: named.then_some(name),
            callable: closure.shallow_clone(),
        })
    }

    /// Returns the attribute `AsTool` of the class, if the tool is a whole class.
    pub(super) fn attribute(&self) -> Result<Option<Zval>, Failure> {
        match &self.class {
            Some(class) => attribute_of(class, attributes::AS_TOOL),
            None => Ok(None),
        }
    }

    /// Returns the summary in the doc comment of the class, if the tool is a whole class.
    pub(super) fn summary(&self) -> Result<Option<String>, Failure> {
        let Some(class) = &self.class else {
            return Ok(None);
        };
        let comment = class.text("getDocComment")?.unwrap_or_default();
        Ok(DocComment::parse(&comment).summary)
    }
}

/// Returns the object or the class from `[object or class, method]`.
fn class_of(callable: &Zval) -> Zval {
    item(callable, 0).unwrap_or_default()
}

fn is_utf8(value: &Zval) -> bool {
    value.zend_str().is_none_or(|text| text.as_str().is_ok())
}

fn not_utf8() -> Failure {
    exception::invalid_input("Argument #1 ($callable) is not valid UTF-8")
}

/// Converts `RollDice` to `roll_dice`, the usual style of tool names.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        before = letter;
    }
    snake
}
