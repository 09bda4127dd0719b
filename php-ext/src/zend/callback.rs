use ext_php_rs::ffi::_call_user_function_impl;
use ext_php_rs::types::{ZendHashTable, Zval};

use super::table::hold_callable;
use super::{Failure, Outcome, Result, hold_value, nesting, new_string, run_guarded};

/// Returns whether a value can be called. An autoloader may run.
///
/// # Errors
/// An exception of the autoloader, or a bail-out.
pub fn is_callable(value: &Zval) -> Result<bool> {
    let held_value = hold_callable(value.shallow_clone());
    run_guarded(|| is_callable_now(&held_value))
}

#[expect(clippy::disallowed_methods, reason = "callers guard and hold `value`")]
fn is_callable_now(value: &Zval) -> bool {
    value.is_callable()
}

/// Calls a PHP callable.
///
/// # Errors
/// An exception of the called code, a bail-out, or a `PillionException` if calls nest too deeply.
pub fn call_callable<const N: usize>(callable: &Zval, arguments: [Zval; N]) -> Outcome {
    call_function(None, callable.shallow_clone(), arguments, None)
}

/// Calls a PHP callable with named arguments, given as an array whose keys are the parameter names.
///
/// # Errors
/// An exception of the called code, a bail-out, or a `PillionException` if calls nest too deeply.
pub fn call_with_named_arguments(callable: &Zval, arguments: &Zval) -> Outcome {
    call_function(None, callable.shallow_clone(), [], arguments.array())
}

/// Calls a method of an object.
pub(super) fn call_method<const N: usize>(
    object: Option<&mut Zval>,
    method: &str,
    arguments: [Zval; N],
) -> Outcome {
    call_function(object, new_string(method), arguments, None)
}

fn call_function<const N: usize>(
    object: Option<&mut Zval>,
    function: Zval,
    mut arguments: [Zval; N],
    named_arguments: Option<&ZendHashTable>,
) -> Outcome {
    nesting::check_depth()?;
    let named_pointer = named_arguments.map_or(std::ptr::null_mut(), |table| {
        std::ptr::from_ref(table).cast_mut()
    });
    let object_pointer = object.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let argument_count = u32::try_from(N).unwrap_or(u32::MAX);
    let mut held_function = hold_callable(function);
    let mut result = Zval::new();
    let result_pointer = &raw mut result;
    let function_pointer = &raw mut held_function;
    let arguments_pointer = arguments.as_mut_ptr();
    let status = run_guarded(|| {
        // SAFETY: all zvals outlive the call; the engine copies the arguments into a frame, and
        // only reads the table of named arguments.
        unsafe {
            _call_user_function_impl(
                object_pointer,
                function_pointer,
                result_pointer,
                argument_count,
                arguments_pointer,
                named_pointer,
            )
        }
    })?;
    if status < 0 {
        return Err(Failure::error(
            "Pillion: the PHP function could not be called",
        ));
    }
    Ok(hold_value(&result))
}
