//! Limits the work of one check. A schema may come from a malicious server, and checking a schema
//! of a few hundred bytes can take an astronomical number of steps.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

/// Maximum stack use of a check, in bytes.
const MAX_STACK_BYTES: usize = 512 * 1024;

/// Number of steps between two readings of the clock, if every single step is fast.
const STEPS_PER_CLOCK_CHECK: u64 = 16;

/// Why a check of a value against a schema was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckAborted {
    /// The check took longer than its time limit, or more steps than allowed.
    #[error("checking the value against its schema takes too long")]
    TimeLimit,
    /// The schema is nested too deeply.
    #[error("the schema of the value is nested too deeply")]
    TooDeep,
    /// The value has too many property names for the number of patterns in the schema.
    #[error("the value has too many property names for the patterns of its schema")]
    TooManyNames,
}

#[derive(Clone, Copy)]
struct Allowance {
    deadline: Instant,
    /// Number of steps that the check may still take.
    steps_left: u64,
    /// Number of steps between two readings of the clock.
    steps_per_clock_check: u64,
    /// Stack pointer at the start of the check.
    initial_stack_pointer: usize,
}

thread_local! {
    /// The limits of the check that runs on this thread. They are in a thread-local variable,
    /// because the validator cannot pass the limits to keywords.
    static CURRENT_ALLOWANCE: Cell<Option<Allowance>> = const { Cell::new(None) };
}

/// Limits of a check.
pub(super) struct Limits {
    pub(super) deadline: Instant,
    pub(super) max_steps: u64,
    /// Whether a single step may be slow. If so, every step reads the clock.
    pub(super) has_slow_steps: bool,
}

/// Runs a check, and aborts the check if it exceeds `limits`.
pub(super) fn run_within_limits<T>(
    limits: &Limits,
    check: impl FnOnce() -> T,
) -> Result<T, CheckAborted> {
    let allowance = Allowance {
        deadline: limits.deadline,
        steps_left: limits.max_steps,
        steps_per_clock_check: if limits.has_slow_steps {
            1
        } else {
            STEPS_PER_CLOCK_CHECK
        },
        initial_stack_pointer: stack_pointer(),
    };
    let previous_allowance = CURRENT_ALLOWANCE.replace(Some(allowance));
    // Unwinding is safe, because a check only reads the validator and the value.
    let outcome = catch_unwind(AssertUnwindSafe(check));
    CURRENT_ALLOWANCE.set(previous_allowance);
    outcome.or_else(|payload| match payload.downcast::<CheckAborted>() {
        Ok(abort_reason) => Err(*abort_reason),
        Err(panic) => resume_unwind(panic),
    })
}

/// Returns an approximate value of the stack pointer.
fn stack_pointer() -> usize {
    let marker = 0_u8;
    std::hint::black_box(std::ptr::from_ref(&marker)).addr()
}

/// A keyword that always validates and counts the steps of a check. The keyword unwinds after too
/// many steps, because the validator cannot be stopped otherwise.
pub(super) struct StepKeyword;

fn count_step() {
    let Some(mut allowance) = CURRENT_ALLOWANCE.get() else {
        return;
    };
    if allowance.initial_stack_pointer.abs_diff(stack_pointer()) > MAX_STACK_BYTES {
        resume_unwind(Box::new(CheckAborted::TooDeep));
    }
    let steps_left = allowance.steps_left.checked_sub(1);
    let is_late = |remaining: u64| {
        remaining.is_multiple_of(allowance.steps_per_clock_check)
            && Instant::now() > allowance.deadline
    };
    match steps_left {
        Some(remaining) if !is_late(remaining) => {
            allowance.steps_left = remaining;
            CURRENT_ALLOWANCE.set(Some(allowance));
        }
        _ => resume_unwind(Box::new(CheckAborted::TimeLimit)),
    }
}

impl<'i> Keyword<'i> for StepKeyword {
    fn validate(&self, _instance: &'i Value) -> Result<(), ValidationError<'i>> {
        count_step();
        Ok(())
    }

    fn is_valid(&self, _instance: &'i Value) -> bool {
        count_step();
        true
    }
}
