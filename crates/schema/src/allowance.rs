//! Limits the work of one check. A schema may come from a malicious server, and checking a schema
//! of a few hundred bytes can take an astronomical number of steps.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use jsonschema::{Keyword, ValidationError};
use serde_json::Value;

/// Maximum stack use of a check, in bytes.
const MAX_STACK_BYTES: usize = 512 * 1024;

/// Number of steps between two readings of the clock, if no step takes long.
const STEPS_PER_CLOCK_CHECK: u64 = 16;

/// Why a check was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckAborted {
    /// The check took longer than its time limit.
    #[error("checking it against its schema takes too long")]
    Time,
    /// The schema is nested too deeply.
    #[error("its schema is nested too deeply")]
    Depth,
    /// The value has too many property names for the number of patterns in the schema.
    #[error("it has too many property names for the patterns of its schema")]
    Names,
}

#[derive(Clone, Copy)]
struct Allowance {
    until: Instant,
    /// Number of steps that the check may still take.
    steps_left: u64,
    /// Number of steps between two readings of the clock.
    steps_per_clock_check: u64,
    /// Stack pointer at the start of the check.
    stack: usize,
}

thread_local! {
    /// The limits of the check that runs on this thread. A thread-local, because the validator
    /// cannot pass the limits to keywords.
    static CURRENT: Cell<Option<Allowance>> = const { Cell::new(None) };
}

/// Limits of a check.
pub(super) struct Limits {
    pub(super) until: Instant,
    pub(super) max_steps: u64,
    /// Whether a step may take long. If so, every step reads the clock.
    pub(super) has_slow_steps: bool,
}

/// Runs a check, and aborts the check if it exceeds `limits`.
pub(super) fn within<T>(limits: &Limits, check: impl FnOnce() -> T) -> Result<T, CheckAborted> {
    let allowance = Allowance {
        until: limits.until,
        steps_left: limits.max_steps,
        steps_per_clock_check: if limits.has_slow_steps {
            1
        } else {
            STEPS_PER_CLOCK_CHECK
        },
        stack: stack_pointer(),
    };
    let outer = CURRENT.replace(Some(allowance));
    // Unwind-safe: an aborted check only reads the validator and the value.
    let outcome = catch_unwind(AssertUnwindSafe(check));
    CURRENT.set(outer);
    outcome.or_else(|payload| match payload.downcast::<CheckAborted>() {
        Ok(unchecked) => Err(*unchecked),
        Err(panic) => resume_unwind(panic),
    })
}

/// Returns an approximate value of the stack pointer.
fn stack_pointer() -> usize {
    let here = 0_u8;
    std::hint::black_box(std::ptr::from_ref(&here)).addr()
}

/// A keyword that always validates and counts the steps of a check. The keyword unwinds after too
/// many steps, because the validator cannot be stopped otherwise.
pub(super) struct StepKeyword;

fn step() {
    let Some(mut allowance) = CURRENT.get() else {
        return;
    };
    if allowance.stack.abs_diff(stack_pointer()) > MAX_STACK_BYTES {
        resume_unwind(Box::new(CheckAborted::Depth));
    }
    let steps_left = allowance.steps_left.checked_sub(1);
    let is_late = |left: u64| {
        left.is_multiple_of(allowance.steps_per_clock_check) && Instant::now() > allowance.until
    };
    match steps_left {
        Some(left) if !is_late(left) => {
            allowance.steps_left = left;
            CURRENT.set(Some(allowance));
        }
        _ => resume_unwind(Box::new(CheckAborted::Time)),
    }
}

impl<'i> Keyword<'i> for StepKeyword {
    fn validate(&self, _instance: &'i Value) -> Result<(), ValidationError<'i>> {
        step();
        Ok(())
    }

    fn is_valid(&self, _instance: &'i Value) -> bool {
        step();
        true
    }
}
