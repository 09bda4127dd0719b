use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;

use ext_php_rs::ffi::{_call_user_function_impl, zend_throw_exception_object};
use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::{CatchError, ExecutorGlobals, try_catch};

use super::interrupt::settle_memory_limit;
use super::table::held_callable;
use super::{Failure, Object, Outcome, ffi, held, nesting, string_of};

/// Runs code that may call PHP code, and returns in every case.
///
/// A bail-out (`longjmp`) inside ends here and becomes [`Failure::Bailout`], so that the Rust
/// frames above are left in order, with their destructors. Everything that `body` itself holds at
/// that moment is leaked, so it should hold only Zend values, which the engine frees at the end of
/// the request.
///
/// # Errors
/// [`Failure::Pending`] if an exception is pending afterwards, [`Failure::Bailout`], or an `Error`
/// if `body` panics.
pub fn run_guarded<R>(body: impl FnOnce() -> R) -> Result<R, Failure> {
    let run = || {
        let value = body();
        settle_memory_limit();
        value
    };
    match try_catch(AssertUnwindSafe(run)) {
        Ok(_) if ExecutorGlobals::has_exception() => Err(Failure::Pending),
        Ok(value) => Ok(value),
        Err(CatchError::Bailout) => Err(Failure::Bailout),
        Err(error) => Err(Failure::error(format!("Pillion: {error}"))),
    }
}

/// Returns whether a value can be called. An autoloader may run.
///
/// # Errors
/// Same as [`run_guarded`].
pub fn is_callable(value: &Zval) -> Result<bool, Failure> {
    let value = held_callable(value.shallow_clone());
    run_guarded(|| is_callable_now(&value))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the callers guard and hold the value"
)]
fn is_callable_now(value: &Zval) -> bool {
    value.is_callable()
}

/// Calls a callable value.
///
/// # Errors
/// Same as [`run_guarded`], and a `PillionException` if calls nest too deep.
pub fn call_callable<const N: usize>(callable: &Zval, arguments: [Zval; N]) -> Outcome {
    call_function(None, callable.shallow_clone(), arguments, None)
}

/// Calls a callable value with named arguments: an array with the names as keys.
///
/// # Errors
/// Same as [`run_guarded`].
pub fn call_with_names(callable: &Zval, arguments: &Zval) -> Outcome {
    call_function(None, callable.shallow_clone(), [], arguments.array())
}

/// Calls a method of an object.
pub(super) fn call<const N: usize>(
    object: Option<&mut Zval>,
    method: &str,
    arguments: [Zval; N],
) -> Outcome {
    call_function(object, string_of(method), arguments, None)
}

fn call_function<const N: usize>(
    object: Option<&mut Zval>,
    function: Zval,
    mut arguments: [Zval; N],
    named: Option<&ZendHashTable>,
) -> Outcome {
    nesting::check()?;
    let named = named.map_or(std::ptr::null_mut(), |named| {
        std::ptr::from_ref(named).cast_mut()
    });
    let object = object.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let count = u32::try_from(N).unwrap_or(u32::MAX);
    let mut function = held_callable(function);
    let mut result = Zval::new();
    let (target, function, arguments) =
        (&raw mut result, &raw mut function, arguments.as_mut_ptr());
    let status = run_guarded(|| {
        // SAFETY: all zvals outlive the call; the engine copies the arguments into a frame,
        // and only reads the table of named ones.
        unsafe { _call_user_function_impl(object, function, target, count, arguments, named) }
    })?;
    if status < 0 {
        return Err(Failure::error(
            "Pillion: the PHP function could not be called",
        ));
    }
    Ok(held(&result))
}

/// Takes the pending exception, so that the caller can handle it as a failed call. Returns `None`
/// if there is none, or if it is the one that unwinds after `exit()`, which must continue.
pub fn take_exception() -> Option<Zval> {
    let exception = ExecutorGlobals::get().exception;
    // SAFETY: a pending exception is a live object, and the engine holds it until it is
    // cleared below, when the new reference holds it.
    let exception = unsafe { Object::from_raw(exception) }?;
    if ffi::is_unwinding(exception) {
        return None;
    }
    let exception_value = exception.to_value();
    // SAFETY: also puts the opline back that the throw changed.
    unsafe { ffi::zend_clear_exception() };
    Some(exception_value)
}

/// Throws an exception that [`take_exception`] has taken.
pub fn rethrow(exception: Zval) {
    let mut exception = ManuallyDrop::new(exception);
    // SAFETY: the value is an object of a throwable class; the engine takes its reference.
    unsafe { zend_throw_exception_object(&raw mut *exception) };
}
