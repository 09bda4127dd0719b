use std::collections::HashMap;

use serde_json::Value;

use super::ComposeError;
use super::pointer::{Pointer, PointerRoot};
use super::template::{ReferenceScope, Template};

/// A JSON template with references to the arguments of a call: `{"$from": "/input/city"}`,
/// `{"$text": [...]}` and `{"$literal": ...}`, as in the steps of a composed tool.
///
/// ```
/// use pillion_core::compose::InputTemplate;
/// use serde_json::json;
/// let template = InputTemplate::parse(json!({"q": {"$from": "/input/city"}, "n": {"$from": "/input/n"}}))?;
/// assert_eq!(template.fill(&json!({"city": "Ulm"})), Some(json!({"q": "Ulm"})));
/// assert!(InputTemplate::parse(json!({"$from": "/steps/a/data"})).is_err());
/// # Ok::<(), pillion_core::compose::ComposeError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct InputTemplate(Template);

impl InputTemplate {
    /// Parses a template whose references all begin with `/input`.
    ///
    /// # Errors
    /// A directive is invalid, or a reference does not begin with `/input`; the error contains the
    /// location in the template.
    pub fn parse(template: Value) -> Result<Self, ComposeError> {
        let template =
            Template::parse(template).map_err(|(path, reason)| ComposeError::new(path, reason))?;
        let mut step_reference = None;
        template.for_each_reference(&mut |pointer, _| {
            if pointer.source != PointerRoot::Input {
                step_reference = Some(pointer.to_string());
            }
        });
        match step_reference {
            None => Ok(Self(template)),
            Some(step_reference) => {
                let reason = format!(
                    "'{step_reference}': references to steps are not allowed here, only references to \
                    /input"
                );
                Err(ComposeError::new("", reason))
            }
        }
    }

    /// Returns a template that consists of a reference to the argument with this name.
    #[must_use]
    pub fn argument(name: &str) -> Self {
        Self(Template::From {
            pointer: Pointer::to_argument(name),
            default: None,
        })
    }

    /// Fills in the arguments. Omits members and items whose references point to nothing. Returns
    /// `None` if the template itself is such a reference.
    #[must_use]
    pub fn fill(&self, arguments: &Value) -> Option<Value> {
        self.0.fill_available(&ReferenceScope {
            input: arguments,
            steps: &HashMap::new(),
        })
    }

    /// Returns the template as canonical JSON, which is equal for templates that always give the
    /// same output.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.0.to_value()
    }

    /// Returns the distinct names of the arguments that the template refers to.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        self.0.for_each_reference(&mut |pointer, _| {
            if let Some(name) = pointer.first_segment()
                && !names.iter().any(|known_name| known_name == name)
            {
                names.push(name.to_owned());
            }
        });
        names
    }

    /// Returns whether the template contains no references.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let mut is_constant = true;
        self.0.for_each_reference(&mut |_, _| is_constant = false);
        is_constant
    }
}
