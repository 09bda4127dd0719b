//! How much work one check may be. A schema may come from a server that means no good, and
//! a few hundred bytes of it can ask for more steps than there are atoms.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

/// Bytes of the stack that one check may take.
const MOST_STACK_BYTES: usize = 512 * 1024;

/// Steps from one look at the clock to the next, where none of them takes long.
const STEPS_A_LOOK: u64 = 16;

/// Why a check came to no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unchecked {
    /// It was not done when its time was over.
    #[error("checking it against its schema takes too long")]
    Time,
    /// The schema leads from one part of itself to the next too often.
    #[error("its schema is nested too deeply")]
    Depth,
    /// The names in its objects, times the patterns that its schema has for them, are too
    /// many.
    #[error("it has too many names for the patterns of its schema")]
    Names,
}

#[derive(Clone, Copy)]
struct Allowance {
    until: Instant,
    /// How often there may be a step.
    steps_left: u64,
    /// Steps from one look at the clock to the next.
    steps_a_look: u64,
    /// Where the stack was when the check began.
    stack: usize,
}

thread_local! {
    /// That of the check that this thread is at: the validator has no place for it.
    static CURRENT: Cell<Option<Allowance>> = const { Cell::new(None) };
}

/// How much a check may be.
pub(super) struct Limits {
    pub(super) until: Instant,
    pub(super) most_steps: u64,
    /// A step may take long: the clock is looked at in each.
    pub(super) steps_are_long: bool,
}

/// Runs a check, and gives it up where it is more than `limits` allow.
pub(super) fn within<T>(limits: &Limits, check: impl FnOnce() -> T) -> Result<T, Unchecked> {
    let allowance = Allowance {
        until: limits.until,
        steps_left: limits.most_steps,
        steps_a_look: if limits.steps_are_long {
            1
        } else {
            STEPS_A_LOOK
        },
        stack: stack_pointer(),
    };
    let outer = CURRENT.replace(Some(allowance));
    // What is given up holds nothing but the validator and the value, both only read.
    let outcome = catch_unwind(AssertUnwindSafe(check));
    CURRENT.set(outer);
    outcome.or_else(|payload| match payload.downcast::<Unchecked>() {
        Ok(unchecked) => Err(*unchecked),
        Err(panic) => resume_unwind(panic),
    })
}

/// About where the stack is.
fn stack_pointer() -> usize {
    let here = 0_u8;
    std::hint::black_box(std::ptr::from_ref(&here)).addr()
}

/// A keyword that always holds, and counts the steps of a check. Where there were too many
/// it unwinds: the validator knows no other way to stop.
pub(super) struct Step;

fn step() {
    let Some(mut allowance) = CURRENT.get() else {
        return;
    };
    if allowance.stack.abs_diff(stack_pointer()) > MOST_STACK_BYTES {
        resume_unwind(Box::new(Unchecked::Depth));
    }
    let steps_left = allowance.steps_left.checked_sub(1);
    let is_late =
        |left: u64| left.is_multiple_of(allowance.steps_a_look) && Instant::now() > allowance.until;
    match steps_left {
        Some(left) if !is_late(left) => {
            allowance.steps_left = left;
            CURRENT.set(Some(allowance));
        }
        _ => resume_unwind(Box::new(Unchecked::Time)),
    }
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, _instance: &'i Value) -> Result<(), ValidationError<'i>> {
        step();
        Ok(())
    }

    fn is_valid(&self, _instance: &'i Value) -> bool {
        step();
        true
    }
}
