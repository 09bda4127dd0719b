//! Static checks of a composition: names, limits, and that every reference points to a step that
//! has run before.

use std::collections::HashSet;

use super::pointer::{Pointer, PointerRoot};
use super::step::{self, Step};
use super::{ComposeError, Composition, CompositionOutput, MAX_STEPS};

/// The names of the steps that certainly, or perhaps, run before a given step.
#[derive(Clone, Default)]
struct PrecedingSteps<'a> {
    certainly: HashSet<&'a str>,
    perhaps: HashSet<&'a str>,
}

struct CompositionCheck<'a> {
    /// The names of all steps of the composition.
    all: HashSet<&'a str>,
}

pub(super) fn check(composition: &Composition) -> Result<(), ComposeError> {
    let Composition { steps, grants, .. } = composition;
    let mut all = HashSet::new();
    let mut count = 0;
    let mut duplicate = None;
    step::for_each_call(steps, &mut |call| {
        count += 1;
        if !all.insert(call.name.as_str()) {
            duplicate = Some(call.name.as_str());
        }
    });
    if let Some(name) = duplicate {
        let what = format!("the step name '{name}' is used twice");
        return Err(ComposeError::new("steps", what));
    }
    if count > MAX_STEPS {
        let what = format!("the composed tool declares {count} calls; the limit is {MAX_STEPS}");
        return Err(ComposeError::new("steps", what));
    }
    let called = composition.called_tools();
    if let Some(uncalled) = grants.iter().find(|name| !called.contains(&name.as_str())) {
        let what = format!("no step calls '{uncalled}'");
        return Err(ComposeError::new("grants", what));
    }
    let check = CompositionCheck { all };
    let mut before = PrecedingSteps::default();
    check.sequence(steps, "steps", &mut before)?;
    if let CompositionOutput::Template(output) = &composition.output {
        let mut fault = None;
        output.for_each_reference(&mut |pointer, may_lack| {
            fault = fault.take().or(check.reference(pointer, may_lack, &before));
        });
        if let Some(what) = fault {
            return Err(ComposeError::new("output", what));
        }
    }
    Ok(())
}

impl<'a> CompositionCheck<'a> {
    fn sequence(
        &self,
        steps: &'a [Step],
        path: &str,
        before: &mut PrecedingSteps<'a>,
    ) -> Result<(), ComposeError> {
        let mut steps = steps.iter().enumerate();
        steps.try_for_each(|(number, step)| self.step(step, &format!("{path}[{number}]"), before))
    }

    fn step(
        &self,
        step: &'a Step,
        path: &str,
        before: &mut PrecedingSteps<'a>,
    ) -> Result<(), ComposeError> {
        match step {
            Step::Call(call) => {
                let mut fault = None;
                call.arguments.for_each_reference(&mut |pointer, may_lack| {
                    fault = fault.take().or(self.reference(pointer, may_lack, before));
                });
                if let Some(what) = fault {
                    return Err(ComposeError::new(format!("{path}.arguments"), what));
                }
                before.certainly.insert(&call.name);
            }
            Step::Sequence(steps) => {
                self.sequence(steps, &format!("{path}.sequence"), before)?;
            }
            Step::Parallel(steps) => {
                let mut after = before.clone();
                for (number, step) in steps.iter().enumerate() {
                    let mut branch = before.clone();
                    self.step(step, &format!("{path}.parallel[{number}]"), &mut branch)?;
                    after.certainly.extend(branch.certainly);
                    after.perhaps.extend(branch.perhaps);
                }
                *before = after;
            }
            Step::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                let mut fault = None;
                condition.for_each_reference(&mut |pointer, may_lack| {
                    fault = fault.take().or(self.reference(pointer, may_lack, before));
                });
                if let Some(what) = fault {
                    return Err(ComposeError::new(format!("{path}.if"), what));
                }
                for (steps, key) in [(then, "then"), (otherwise, "else")] {
                    let mut branch = before.clone();
                    self.sequence(steps, &format!("{path}.{key}"), &mut branch)?;
                    let new = branch.certainly.difference(&before.certainly).copied();
                    let perhaps: Vec<_> = new.chain(branch.perhaps).collect();
                    before.perhaps.extend(perhaps);
                }
            }
        }
        Ok(())
    }

    /// Returns why a reference in a step that runs after the steps in `before` is invalid; `None`
    /// for a valid reference.
    /// is.
    fn reference(
        &self,
        pointer: &Pointer,
        may_lack: bool,
        before: &PrecedingSteps<'_>,
    ) -> Option<String> {
        let PointerRoot::Step(name) = &pointer.source else {
            return None;
        };
        let name = name.as_str();
        if before.certainly.contains(name) {
            None
        } else if before.perhaps.contains(name) {
            let what = format!(
                "'{pointer}': step '{name}' runs only under a condition: add a 'default' beside \
                '$from'"
            );
            (!may_lack).then_some(what)
        } else if self.all.contains(name) {
            Some(format!(
                "'{pointer}': step '{name}' does not run before this step"
            ))
        } else {
            Some(format!("'{pointer}': there is no step '{name}'"))
        }
    }
}
