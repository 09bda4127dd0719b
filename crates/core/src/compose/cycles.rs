use std::collections::HashMap;

use super::step;
use super::{ComposeError, Composition};
use crate::tool::Nesting;

/// Checks compositions together: none may call itself, directly or indirectly, or exceed the
/// nesting limits with the compositions that it calls. Other tools may be registered later and are
/// not considered.
///
/// # Errors
/// Compositions call each other in a cycle, whose tools the message names; or a composition exceeds a
/// limit.
pub fn check_cycles(compositions: &[Composition]) -> Result<(), ComposeError> {
    let name = |composition: &Composition| composition.definition().name().to_string();
    let by_name: HashMap<_, _> = compositions
        .iter()
        .map(|composition| (name(composition), composition))
        .collect();
    let mut sizes = HashMap::new();
    for composition in compositions {
        let size = size(&name(composition), &by_name, &mut Vec::new(), &mut sizes)?;
        let (max_depth, max_calls) = (Nesting::MAX_DEPTH, Nesting::MAX_CALLS);
        let fault = if size.calls > max_calls {
            format!(
                "one call would make {} nested calls; the limit is {max_calls}",
                size.calls
            )
        } else if size.nested > max_depth {
            format!("composed tools call each other more than {max_depth} levels deep")
        } else {
            continue;
        };
        return Err(ComposeError::new(name(composition), fault));
    }
    Ok(())
}

/// The size of a composition, including the compositions that it calls.
#[derive(Clone, Copy, Default)]
struct CompositionSize {
    calls: usize,
    nested: usize,
}

fn size(
    name: &str,
    all: &HashMap<String, &Composition>,
    above: &mut Vec<String>,
    sizes: &mut HashMap<String, CompositionSize>,
) -> Result<CompositionSize, ComposeError> {
    if let Some(size) = sizes.get(name) {
        return Ok(*size);
    }
    let Some(composition) = all.get(name) else {
        return Ok(CompositionSize::default());
    };
    if let Some(begin) = above.iter().position(|tool| tool == name) {
        let mut cycle = above.split_off(begin);
        cycle.push(name.to_owned());
        let what = format!(
            "composed tools call each other in a cycle: {}",
            cycle.join(" -> ")
        );
        return Err(ComposeError::new(name, what));
    }
    above.push(name.to_owned());
    let mut tools = Vec::new();
    step::for_each_call(&composition.steps, &mut |call| {
        tools.push(call.tool.as_str());
    });
    let mut sum = CompositionSize::default();
    for tool in tools {
        let inner = size(tool, all, above, sizes)?;
        sum.calls = sum.calls.saturating_add(1).saturating_add(inner.calls);
        sum.nested = sum.nested.max(inner.nested);
    }
    sum.nested += 1;
    above.pop();
    sizes.insert(name.to_owned(), sum);
    Ok(sum)
}
