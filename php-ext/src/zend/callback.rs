use ext_php_rs::ffi::_call_user_function_impl;
use ext_php_rs::types::{ZendHashTable, Zval};

use super::table::held_callable;
use super::{Failure, Outcome, held, nesting, run_guarded, string_of};

/// Returns whether a value can be called. An autoloader may run.
///
/// # Errors
/// The failures of [`run_guarded`].
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

/// Calls a PHP value that is callable.
///
/// # Errors
/// The failures of [`run_guarded`], and a `PillionException` if calls nest too deep.
pub fn call_callable<const N: usize>(callable: &Zval, arguments: [Zval; N]) -> Outcome {
    call_function(None, callable.shallow_clone(), arguments, None)
}

/// Calls a PHP value that is callable, with named arguments: an array with the names as keys.
///
/// # Errors
/// The failures of [`run_guarded`].
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
        // SAFETY: all zvals outlive the call; the engine copies the arguments into a frame, and
        // only reads the table of named arguments.
        unsafe { _call_user_function_impl(object, function, target, count, arguments, named) }
    })?;
    if status < 0 {
        return Err(Failure::error(
            "Pillion: the PHP function could not be called",
        ));
    }
    Ok(held(&result))
}
