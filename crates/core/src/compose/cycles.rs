use std::collections::HashMap;

use super::step;
use super::{ComposeError, Composition};
use crate::tool::Nesting;

/// Checks compositions together: none may call itself, directly or indirectly, or exceed the
/// nesting limits with the compositions that it calls. Other tools may be registered later and are
/// not considered.
///
/// # Errors
/// The cycle, with the names of its tools, or the tool that exceeds a limit.
pub fn check_cycles(compositions: &[Composition]) -> Result<(), ComposeError> {
    let name = |composition: &Composition| composition.definition().name().to_string();
    let by_name: HashMap<_, _> = compositions
        .iter()
        .map(|composition| (name(composition), composition))
        .collect();
    let mut known = HashMap::new();
    for composition in compositions {
        let size = size(&name(composition), &by_name, &mut Vec::new(), &mut known)?;
        let (deepest, most) = (Nesting::DEEPEST, Nesting::MAX_CALLS);
        let fault = if size.calls > most {
            format!(
                "one call would make {} nested calls; the limit is {most}",
                size.calls
            )
        } else if size.nested > deepest {
            format!("composed tools call each other more than {deepest} levels deep")
        } else {
            continue;
        };
        return Err(ComposeError::new(name(composition), fault));
    }
    Ok(())
}

/// The size of a composition, including the compositions that it calls.
#[derive(Clone, Copy, Default)]
struct Size {
    calls: usize,
    nested: usize,
}

fn size(
    name: &str,
    all: &HashMap<String, &Composition>,
    above: &mut Vec<String>,
    known: &mut HashMap<String, Size>,
) -> Result<Size, ComposeError> {
    if let Some(size) = known.get(name) {
        return Ok(*size);
    }
    let Some(composition) = all.get(name) else {
        return Ok(Size::default());
    };
    if let Some(begin) = above.iter().position(|tool| tool == name) {
        let mut way = above.split_off(begin);
        way.push(name.to_owned());
        let what = format!(
            "composed tools call each other in a cycle: {}",
            way.join(" -> ")
        );
        return Err(ComposeError::new(name, what));
    }
    above.push(name.to_owned());
    let mut tools = Vec::new();
    step::for_each_call(&composition.steps, &mut |call| {
        tools.push(call.tool.as_str());
    });
    let mut sum = Size::default();
    for tool in tools {
        let inner = size(tool, all, above, known)?;
        sum.calls = sum.calls.saturating_add(1).saturating_add(inner.calls);
        sum.nested = sum.nested.max(inner.nested);
    }
    sum.nested += 1;
    above.pop();
    known.insert(name.to_owned(), sum);
    Ok(sum)
}
