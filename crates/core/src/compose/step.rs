use super::condition::StepCondition;
use super::template::Template;

/// A step of a composed tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Call(StepCall),
    /// Steps that run one after the other, in this order.
    Sequence(Vec<Step>),
    /// Steps that run concurrently.
    Parallel(Vec<Step>),
    If {
        condition: StepCondition,
        then: Vec<Step>,
        otherwise: Vec<Step>,
        /// Location of the step in the declaration, for errors.
        path: String,
    },
}

/// A call of another tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StepCall {
    pub(super) name: String,
    pub(super) tool: String,
    pub(super) arguments: Template,
}

/// Visits all calls in the order of the declaration.
pub(super) fn for_each_call<'a>(steps: &'a [Step], visit: &mut impl FnMut(&'a StepCall)) {
    for step in steps {
        match step {
            Step::Call(call) => visit(call),
            Step::Sequence(steps) | Step::Parallel(steps) => for_each_call(steps, visit),
            Step::If {
                then, otherwise, ..
            } => {
                for_each_call(then, visit);
                for_each_call(otherwise, visit);
            }
        }
    }
}
