//! Static checks of a composition: its names and limits, and whether every reference points to a
//! step that runs earlier.

use std::collections::HashSet;

use super::pointer::{Pointer, PointerRoot};
use super::step::{self, Step};
use super::{ComposeError, Composition, CompositionOutput, MAX_STEPS};

/// The names of the steps that run before a given step, always or only under a condition.
#[derive(Clone, Default)]
struct PrecedingSteps<'a> {
    certain_steps: HashSet<&'a str>,
    possible_steps: HashSet<&'a str>,
}

struct CompositionCheck<'a> {
    /// The names of all steps of the composition.
    step_names: HashSet<&'a str>,
}

pub(super) fn check(composition: &Composition) -> Result<(), ComposeError> {
    let Composition { steps, grants, .. } = composition;
    let mut step_names = HashSet::new();
    let mut call_count = 0;
    let mut duplicate_name = None;
    step::for_each_call(steps, &mut |call| {
        call_count += 1;
        if !step_names.insert(call.name.as_str()) {
            duplicate_name = Some(call.name.as_str());
        }
    });
    if let Some(name) = duplicate_name {
        let reason = format!("the step name '{name}' is used twice");
        return Err(ComposeError::new("steps", reason));
    }
    if call_count > MAX_STEPS {
        let reason =
            format!("the composed tool declares {call_count} calls; the limit is {MAX_STEPS}");
        return Err(ComposeError::new("steps", reason));
    }
    let called_tools = composition.called_tools();
    let mut granted = grants.iter();
    if let Some(tool) = granted.find(|name| !called_tools.contains(&name.as_str())) {
        let reason = format!("no step calls the granted tool '{tool}'");
        return Err(ComposeError::new("grants", reason));
    }
    let check = CompositionCheck { step_names };
    let mut preceding_steps = PrecedingSteps::default();
    check.walk_sequence(steps, "steps", &mut preceding_steps)?;
    if let CompositionOutput::Template(output) = &composition.output {
        check.check_references("output", &preceding_steps, |mut visit| {
            output.for_each_reference(&mut visit);
        })?;
    }
    Ok(())
}

impl<'a> CompositionCheck<'a> {
    /// Checks steps that run one after the other, and adds them to `preceding_steps`.
    fn walk_sequence(
        &self,
        steps: &'a [Step],
        path: &str,
        preceding_steps: &mut PrecedingSteps<'a>,
    ) -> Result<(), ComposeError> {
        let mut steps = steps.iter().enumerate();
        steps.try_for_each(|(index, step)| {
            self.walk_step(step, &format!("{path}[{index}]"), preceding_steps)
        })
    }

    /// Checks a step, and adds the calls of the step to `preceding_steps`.
    fn walk_step(
        &self,
        step: &'a Step,
        path: &str,
        preceding_steps: &mut PrecedingSteps<'a>,
    ) -> Result<(), ComposeError> {
        match step {
            Step::Call(call) => {
                let arguments_path = format!("{path}.arguments");
                self.check_references(&arguments_path, preceding_steps, |mut visit| {
                    call.arguments.for_each_reference(&mut visit);
                })?;
                preceding_steps.certain_steps.insert(&call.name);
            }
            Step::Sequence(steps) => {
                self.walk_sequence(steps, &format!("{path}.sequence"), preceding_steps)?;
            }
            Step::Parallel(steps) => {
                let mut following_steps = preceding_steps.clone();
                for (index, step) in steps.iter().enumerate() {
                    let mut branch = preceding_steps.clone();
                    self.walk_step(step, &format!("{path}.parallel[{index}]"), &mut branch)?;
                    following_steps.certain_steps.extend(branch.certain_steps);
                    following_steps.possible_steps.extend(branch.possible_steps);
                }
                *preceding_steps = following_steps;
            }
            Step::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                self.check_references(&format!("{path}.if"), preceding_steps, |mut visit| {
                    condition.for_each_reference(&mut visit);
                })?;
                for (steps, key) in [(then, "then"), (otherwise, "else")] {
                    let mut branch = preceding_steps.clone();
                    self.walk_sequence(steps, &format!("{path}.{key}"), &mut branch)?;
                    let certain_steps = &preceding_steps.certain_steps;
                    let new_steps = branch.certain_steps.difference(certain_steps).copied();
                    let possible_steps: Vec<_> = new_steps.chain(branch.possible_steps).collect();
                    preceding_steps.possible_steps.extend(possible_steps);
                }
            }
        }
        Ok(())
    }

    /// Checks the references that `for_each` visits. The references belong to the part of the
    /// declaration at `path`, which is evaluated after `preceding_steps`.
    fn check_references(
        &self,
        path: &str,
        preceding_steps: &PrecedingSteps<'_>,
        for_each: impl FnOnce(&mut dyn FnMut(&Pointer, bool)),
    ) -> Result<(), ComposeError> {
        let mut fault = None;
        for_each(&mut |pointer: &Pointer, may_be_missing| {
            if fault.is_none() {
                fault = self.find_reference_fault(pointer, may_be_missing, preceding_steps);
            }
        });
        fault.map_or(Ok(()), |reason| Err(ComposeError::new(path, reason)))
    }

    /// Returns why a reference in a step that runs after `preceding_steps` is invalid; `None` for a
    /// valid reference.
    fn find_reference_fault(
        &self,
        pointer: &Pointer,
        may_be_missing: bool,
        preceding_steps: &PrecedingSteps<'_>,
    ) -> Option<String> {
        let PointerRoot::Step(name) = &pointer.source else {
            return None;
        };
        let name = name.as_str();
        if preceding_steps.certain_steps.contains(name) {
            None
        } else if preceding_steps.possible_steps.contains(name) {
            let reason = format!(
                "'{pointer}': step '{name}' runs only under a condition: add a 'default' beside \
                '$from'"
            );
            (!may_be_missing).then_some(reason)
        } else if self.step_names.contains(name) {
            let reason = format!("'{pointer}': step '{name}' does not run before this step");
            Some(reason)
        } else {
            Some(format!("'{pointer}': there is no step '{name}'"))
        }
    }
}
