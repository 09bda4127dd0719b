use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;

use super::attributes;
use crate::exception;
use crate::signature::Target;
use crate::zend::{
    Failure, Object, Outcome, Result, create, entries, escape_bytes, item, new_int, new_list,
    new_string, run_guarded,
};

/// `ReflectionAttribute::IS_INSTANCEOF`: also matches subclasses of an attribute.
const IS_INSTANCEOF: i64 = 2;

/// Maximum length of quoted text in a message, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// An object of PHP's Reflection API.
pub(super) struct ReflectionObject(Zval);

impl ReflectionObject {
    /// Creates an object, as `new $class(...$arguments)` does.
    pub(super) fn new<const N: usize>(class_name: &str, arguments: [Zval; N]) -> Result<Self> {
        let class = find_class(class_name)?
            .ok_or_else(|| Failure::error("The Reflection extension is not loaded"))?;
        let value = create(class, |_| ())?;
        let reflection = Self(value);
        reflection.call("__construct", arguments)?;
        Ok(reflection)
    }

    fn from_value(value: Zval) -> Option<Self> {
        value.is_object().then_some(Self(value))
    }

    pub(super) fn call<const N: usize>(&self, method: &str, arguments: [Zval; N]) -> Outcome {
        Object::from_value(&self.0)
            .ok_or_else(|| Failure::error("Reflection returned no object"))?
            .call(method, arguments)
    }

    /// Returns the string that a method of the object returns.
    ///
    /// # Errors
    /// An `InvalidInputException` for text that is not UTF-8, because JSON cannot represent it.
    pub(super) fn call_string(&self, method: &str) -> Result<Option<String>> {
        let text = self.call(method, [])?;
        match text.zend_str() {
            Some(bytes) if bytes.as_str().is_err() => {
                let text_beginning: String = escape_bytes(bytes.as_bytes())
                    .chars()
                    .take(MAX_TEXT_CHARS)
                    .collect();
                Err(exception::invalid_input(format!(
                    "PHP code cannot be a tool: '{text_beginning}' is not valid UTF-8"
                )))
            }
            _ => Ok(text.string()),
        }
    }

    pub(super) fn name(&self) -> Result<String> {
        Ok(self.call_string("getName")?.unwrap_or_default())
    }

    /// Returns the name of PHP code for error messages. Bytes that are not UTF-8 are escaped,
    /// because the name is only displayed.
    pub(super) fn display_name(&self, method: &str) -> Result<String> {
        let name = self.call(method, [])?;
        Ok(name
            .zend_str()
            .map(|name| escape_bytes(name.as_bytes()))
            .unwrap_or_default())
    }

    pub(super) fn call_bool(&self, method: &str) -> Result<bool> {
        Ok(self.call(method, [])?.bool() == Some(true))
    }

    pub(super) fn call_object(&self, method: &str) -> Result<Option<Self>> {
        Ok(Self::from_value(self.call(method, [])?))
    }

    pub(super) fn call_list(&self, method: &str) -> Result<Vec<Self>> {
        let list = self.call(method, [])?;
        Ok(entries(&list)
            .filter_map(|(_, entry)| Self::from_value(entry))
            .collect())
    }

    pub(super) fn is_instance(&self, class: &str) -> bool {
        Object::from_value(&self.0).is_some_and(|object| object.class_name() == class)
    }
}

/// Finds a class, and calls the autoloader if necessary.
pub(super) fn find_class(name: &str) -> Result<Option<&'static ClassEntry>> {
    run_guarded(|| ClassEntry::try_find(name))
}

/// Rejects a name that is not the name of a class. An object is accepted.
///
/// # Errors
/// An `InvalidInputException` if there is no such class.
pub(super) fn check_class_exists(class_or_object: &Zval) -> Result<()> {
    // An error is returned and not treated as a missing class, because the end of the request and
    // an autoloader's exception must not be hidden.
    if let Some(name) = class_or_object.str()
        && find_class(name)?.is_none()
    {
        let message = format!("There is no class '{name}'");
        return Err(exception::invalid_input(message));
    }
    Ok(())
}

/// Returns an attribute of a reflected element as an object; `None` if the element has no attribute
/// of the class `class`.
pub(super) fn find_attribute(reflection: &ReflectionObject, class: &str) -> Result<Option<Zval>> {
    let attribute_list =
        reflection.call("getAttributes", [new_string(class), new_int(IS_INSTANCEOF)])?;
    match item(&attribute_list, 0).and_then(ReflectionObject::from_value) {
        Some(first_attribute) => Ok(Some(first_attribute.call("newInstance", [])?)),
        None => Ok(None),
    }
}

/// Finds the code with the attribute `AsTool` in a class: methods, or the class itself. `value` is
/// an object or the name of a class. If a method needs an object and `value` is a name, creates an
/// object of the class.
///
/// # Errors
/// An `InvalidInputException` if nothing has the attribute, if a method with the attribute is not
/// public, or if the class must be instantiated and its constructor requires arguments.
pub fn find_attributed(value: &Zval) -> Result<Vec<Target>> {
    check_class_exists(value)?;
    let class = ReflectionObject::new("ReflectionClass", [value.shallow_clone()])?;
    let class_name = class.name()?;
    let mut object = Object::from_value(value).map(|_| value.shallow_clone());
    let mut methods = Vec::new();
    let is_class_tool = find_attribute(&class, attributes::AS_TOOL)?.is_some();
    if is_class_tool {
        let method = find_main_method(&class)?.ok_or_else(|| {
            exception::invalid_input(format!(
                "{class_name} has #[Pillion\\AsTool] but neither __invoke() nor execute()"
            ))
        })?;
        methods.push((method, true));
    }
    for method in class.call_list("getMethods")? {
        if find_attribute(&method, attributes::AS_TOOL)?.is_none() {
            continue;
        }
        let name = method.name()?;
        if !method.call_bool("isPublic")? {
            return Err(exception::invalid_input(format!(
                "{class_name}::{name}() has #[Pillion\\AsTool] but is not public"
            )));
        }
        if !methods.iter().any(|(method_name, _)| *method_name == name) {
            methods.push((name, false));
        }
    }
    if methods.is_empty() {
        return Err(exception::invalid_input(format!(
            "Neither {class_name} nor its methods have #[Pillion\\AsTool]"
        )));
    }
    let mut tools = Vec::with_capacity(methods.len());
    for (name, is_class_tool) in methods {
        let arguments = [new_string(&class_name), new_string(&name)];
        let method = ReflectionObject::new("ReflectionMethod", arguments)?;
        let class_or_object = if method.call_bool("isStatic")? {
            new_string(&class_name)
        } else {
            match &object {
                Some(object) => object.shallow_clone(),
                None => object
                    .insert(instantiate(&class, &class_name)?)
                    .shallow_clone(),
            }
        };
        let callable = new_list([class_or_object, new_string(&name)]);
        tools.push(Target::for_method(method, callable, is_class_tool)?);
    }
    Ok(tools)
}

/// Returns the method that is called if a whole class is the tool.
pub(super) fn find_main_method(class: &ReflectionObject) -> Result<Option<String>> {
    for name in ["__invoke", "execute"] {
        if class.call("hasMethod", [new_string(name)])?.bool() == Some(true) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

fn instantiate(class: &ReflectionObject, name: &str) -> Outcome {
    let constructor = class.call_object("getConstructor")?;
    let required_count = match &constructor {
        Some(constructor) => constructor
            .call("getNumberOfRequiredParameters", [])?
            .long(),
        None => None,
    };
    if required_count.unwrap_or_default() > 0 || !class.call_bool("isInstantiable")? {
        return Err(exception::invalid_input(format!(
            "{name} cannot be created without constructor arguments: pass an object of the class"
        )));
    }
    class.call("newInstance", [])
}
