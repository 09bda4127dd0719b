use super::condition::Condition;
use super::template::Template;

/// A step of a composed tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Call(Call),
    /// One after the other.
    Sequence(Vec<Step>),
    /// Side by side.
    Parallel(Vec<Step>),
    If {
        condition: Condition,
        then: Vec<Step>,
        otherwise: Vec<Step>,
        /// Where it stands, for whoever reads an error.
        place: String,
    },
}

/// A call of another tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) tool: String,
    pub(super) arguments: Template,
}

/// Shows every call, in the order in which they are declared.
pub(super) fn for_each_call<'a>(steps: &'a [Step], see: &mut impl FnMut(&'a Call)) {
    for step in steps {
        match step {
            Step::Call(call) => see(call),
            Step::Sequence(steps) | Step::Parallel(steps) => for_each_call(steps, see),
            Step::If {
                then, otherwise, ..
            } => {
                for_each_call(then, see);
                for_each_call(otherwise, see);
            }
        }
    }
}
