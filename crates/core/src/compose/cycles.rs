use std::collections::HashMap;

use super::step;
use super::{ComposeError, Composition};
use crate::tool::Nesting;

/// Checks compositions together: no composition may call itself, directly or indirectly, and none
/// may exceed the nesting limits, including the compositions that it calls. Ignores all other
/// tools, because they may be registered later.
///
/// # Errors
/// Compositions call each other in a cycle (the message names the tools), or a composition exceeds
/// a limit.
pub fn check_cycles(compositions: &[Composition]) -> Result<(), ComposeError> {
    let name_of = |composition: &Composition| composition.definition().name().to_string();
    let by_name: HashMap<_, _> = compositions
        .iter()
        .map(|composition| (name_of(composition), composition))
        .collect();
    let mut sizes = HashMap::new();
    for composition in compositions {
        let name = name_of(composition);
        let size = compute_size(&name, &by_name, &mut Vec::new(), &mut sizes)?;
        let (max_depth, max_calls) = (Nesting::MAX_DEPTH, Nesting::MAX_CALLS);
        let fault = if size.calls > max_calls {
            let calls = size.calls;
            format!("one call would make {calls} nested calls; the limit is {max_calls}")
        } else if size.depth > max_depth {
            format!("composed tools call each other more than {max_depth} levels deep")
        } else {
            continue;
        };
        return Err(ComposeError::new(name, fault));
    }
    Ok(())
}

/// The size of a composition, including the compositions that it calls.
#[derive(Clone, Copy, Default)]
struct CompositionSize {
    calls: usize,
    depth: usize,
}

fn compute_size(
    name: &str,
    compositions: &HashMap<String, &Composition>,
    callers: &mut Vec<String>,
    sizes: &mut HashMap<String, CompositionSize>,
) -> Result<CompositionSize, ComposeError> {
    if let Some(size) = sizes.get(name) {
        return Ok(*size);
    }
    let Some(composition) = compositions.get(name) else {
        return Ok(CompositionSize::default());
    };
    if let Some(cycle_start) = callers.iter().position(|tool| tool == name) {
        let mut cycle = callers.split_off(cycle_start);
        cycle.push(name.to_owned());
        let path = cycle.join(" -> ");
        let reason = format!("composed tools call each other in a cycle: {path}");
        return Err(ComposeError::new(name, reason));
    }
    callers.push(name.to_owned());
    let mut tools = Vec::new();
    step::for_each_call(&composition.steps, &mut |call| {
        tools.push(call.tool.as_str());
    });
    let mut total = CompositionSize::default();
    for tool in tools {
        let nested_size = compute_size(tool, compositions, callers, sizes)?;
        let calls = total.calls.saturating_add(1);
        total.calls = calls.saturating_add(nested_size.calls);
        total.depth = total.depth.max(nested_size.depth);
    }
    total.depth += 1;
    callers.pop();
    sizes.insert(name.to_owned(), total);
    Ok(total)
}
