//! Parses the declaration of a composed tool.

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

pub(super) fn read(declaration: Value, digest: String) -> Result<Composition, ComposeError> {
    let entry: CompositionEntry = serde_json::from_value(declaration)
        .map_err(|error| ComposeError::new("composed tool", error.to_string()))?;
    let steps = read_steps(entry.steps, "steps", 0)?;
    let mut definition = ToolDefinition::builder(entry.name, entry.description)
        .schema(entry.input_schema.unwrap_or_else(|| json!({})));
    if let Some(category) = entry.category {
        definition = definition.category(category);
    }
    let output = match (entry.output, steps.last()) {
        (Some(output), _) => CompositionOutput::Template(parse_template(output, "output")?),
        (None, Some(Step::Call(call))) => CompositionOutput::Step(call.name.clone()),
        (None, _) => {
            let reason = "the composed tool needs an 'output', because the last step is not a call";
            return Err(ComposeError::new("output", reason));
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
        let reason = format!("groups of steps are nested more than {MAX_DEPTH} levels deep");
        return Err(ComposeError::new(path, reason));
    }
    entries
        .into_iter()
        .enumerate()
        .map(|(index, entry)| read_step(entry, format!("{path}[{index}]"), depth))
        .collect()
}

fn read_step(entry: Value, path: String, depth: usize) -> Result<Step, ComposeError> {
    let entry: StepEntry = serde_json::from_value(entry)
        .map_err(|error| ComposeError::new(&path, error.to_string()))?;
    let fail = |reason: &str| Err(ComposeError::new(&path, reason));
    let read_substeps =
        |steps: Vec<Value>, key: &str| read_steps(steps, &format!("{path}.{key}"), depth + 1);
    let branches = (entry.then, entry.r#else);
    let call_members = (entry.name, entry.arguments);
    let is_group = branches == (None, None) && call_members == (None, None);
    match (entry.tool, entry.sequence, entry.parallel, entry.r#if) {
        (Some(tool), None, None, None) => {
            let ((None, None), (Some(name), arguments)) = (branches, call_members) else {
                return fail("a call must have 'name' and 'tool', and may have 'arguments'");
            };
            for name in [&name, &tool] {
                ToolName::new(name).map_err(|error| ComposeError::new(&path, error.to_string()))?;
            }
            let declared_arguments = arguments.unwrap_or_else(|| json!({}));
            let arguments = parse_template(declared_arguments, &format!("{path}.arguments"))?;
            let may_be_object = match &arguments {
                Template::Object(_) | Template::From { .. } => true,
                Template::Literal(value) => value.is_object(),
                Template::Array(_) | Template::Text(_) => false,
            };
            if !may_be_object {
                return fail("'arguments' must be an object");
            }
            Ok(Step::Call(StepCall {
                name,
                tool,
                arguments,
            }))
        }
        (None, Some(steps), None, None) if is_group => {
            Ok(Step::Sequence(read_substeps(steps, "sequence")?))
        }
        (None, None, Some(steps), None) if is_group => {
            Ok(Step::Parallel(read_substeps(steps, "parallel")?))
        }
        (None, None, None, Some(condition)) if call_members == (None, None) => {
            let condition = StepCondition::parse(condition)
                .map_err(|reason| ComposeError::new(format!("{path}.if"), reason))?;
            let (Some(then), otherwise) = branches else {
                return fail("an 'if' needs a 'then'");
            };
            let else_steps = otherwise.map(|steps| read_substeps(steps, "else"));
            let otherwise = else_steps.transpose()?;
            Ok(Step::If {
                condition,
                then: read_substeps(then, "then")?,
                otherwise: otherwise.unwrap_or_default(),
                path,
            })
        }
        _ => fail(
            "a step must be one of: a call (name, tool, arguments), 'sequence', 'parallel', or \
            'if' with 'then' and 'else'",
        ),
    }
}

fn parse_template(value: Value, path: &str) -> Result<Template, ComposeError> {
    Template::parse(value)
        .map_err(|(inner_path, reason)| ComposeError::new(format!("{path}{inner_path}"), reason))
}
