//! Parses declarations.

use serde::Deserialize;
use serde_json::{Value, json};

use super::condition::StepCondition;
use super::step::{Step, StepCall};
use super::template::Template;
use super::{ComposeError, Composition, CompositionOutput, MAX_DEPTH, check};
use crate::tool::{ToolDefinition, ToolName};

/// The declaration of a composed tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompositionEntry {
    name: String,
    description: String,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
    steps: Vec<Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    grants: Vec<String>,
}

/// The declaration of a step, with the keys of all kinds of steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepEntry {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    sequence: Option<Vec<Value>>,
    #[serde(default)]
    parallel: Option<Vec<Value>>,
    #[serde(default)]
    r#if: Option<Value>,
    #[serde(default)]
    then: Option<Vec<Value>>,
    #[serde(default)]
    r#else: Option<Vec<Value>>,
}

pub(super) fn read(declared: Value, digest: String) -> Result<Composition, ComposeError> {
    let entry: CompositionEntry = serde_json::from_value(declared)
        .map_err(|error| ComposeError::new("composed tool", error.to_string()))?;
    let steps = read_steps(entry.steps, "steps", 0)?;
    let mut definition = ToolDefinition::builder(entry.name, entry.description)
        .schema(entry.input_schema.unwrap_or_else(|| json!({})));
    if let Some(category) = entry.category {
        definition = definition.category(category);
    }
    let output = match (entry.output, steps.last()) {
        (Some(output), _) => CompositionOutput::Template(template(output, "output")?),
        (None, Some(Step::Call(call))) => CompositionOutput::Step(call.name.clone()),
        (None, _) => {
            let what = "the composed tool needs an 'output', because the last step is not a call";
            return Err(ComposeError::new("output", what));
        }
    };
    let composition = Composition {
        definition: definition
            .build()
            .map_err(|error| ComposeError::new("composed tool", error.to_string()))?,
        steps,
        output,
        grants: entry.grants,
        digest,
    };
    check::check(&composition)?;
    Ok(composition)
}

fn read_steps(entries: Vec<Value>, path: &str, depth: usize) -> Result<Vec<Step>, ComposeError> {
    if entries.is_empty() {
        return Err(ComposeError::new(path, "the list of steps is empty"));
    }
    if depth > MAX_DEPTH {
        let what = format!("groups of steps are nested more than {MAX_DEPTH} levels deep");
        return Err(ComposeError::new(path, what));
    }
    entries
        .into_iter()
        .enumerate()
        .map(|(number, entry)| read_step(entry, format!("{path}[{number}]"), depth))
        .collect()
}

fn read_step(entry: Value, path: String, depth: usize) -> Result<Step, ComposeError> {
    let entry: StepEntry = serde_json::from_value(entry)
        .map_err(|error| ComposeError::new(&path, error.to_string()))?;
    let fault = |what: &str| Err(ComposeError::new(&path, what));
    let below =
        |steps: Vec<Value>, key: &str| read_steps(steps, &format!("{path}.{key}"), depth + 1);
    let branches = (entry.then, entry.r#else);
    let named = (entry.name, entry.arguments);
    match (entry.tool, entry.sequence, entry.parallel, entry.r#if) {
        (Some(tool), None, None, None) => {
            let ((None, None), (Some(name), arguments)) = (branches, named) else {
                return fault("a call must have 'name' and 'tool', and may have 'arguments'");
            };
            for name in [&name, &tool] {
                ToolName::new(name).map_err(|error| ComposeError::new(&path, error.to_string()))?;
            }
            let declared = arguments.unwrap_or_else(|| json!({}));
            let arguments = template(declared, &format!("{path}.arguments"))?;
            let is_object = match &arguments {
                Template::Object(_) | Template::From { .. } => true,
                Template::Literal(value) => value.is_object(),
                Template::Array(_) | Template::Text(_) => false,
            };
            if !is_object {
                return fault("'arguments' must be an object");
            }
            Ok(Step::Call(StepCall {
                name,
                tool,
                arguments,
            }))
        }
        (None, Some(steps), None, None) if branches == (None, None) && named == (None, None) => {
            Ok(Step::Sequence(below(steps, "sequence")?))
        }
        (None, None, Some(steps), None) if branches == (None, None) && named == (None, None) => {
            Ok(Step::Parallel(below(steps, "parallel")?))
        }
        (None, None, None, Some(condition)) if named == (None, None) => {
            let condition = StepCondition::parse(condition)
                .map_err(|what| ComposeError::new(format!("{path}.if"), what))?;
            let (Some(then), otherwise) = branches else {
                return fault("an 'if' needs a 'then'");
            };
            let otherwise = otherwise.map(|steps| below(steps, "else")).transpose()?;
            Ok(Step::If {
                condition,
                then: below(then, "then")?,
                otherwise: otherwise.unwrap_or_default(),
                path,
            })
        }
        _ => fault(
            "a step must be one of: a call (name, tool, arguments), 'sequence', 'parallel', or \
            'if' with 'then' and 'else'",
        ),
    }
}

fn template(value: Value, path: &str) -> Result<Template, ComposeError> {
    Template::parse(value)
        .map_err(|(deeper, what)| ComposeError::new(format!("{path}{deeper}"), what))
}
