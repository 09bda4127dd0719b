use std::panic::AssertUnwindSafe;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::ffi::{_call_user_function_impl, zend_hash_str_find_ptr_lc};
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::{CatchError, ExecutorGlobals, try_catch};

use super::interrupt::settle_memory_limit;
use super::{Failure, ffi, object_value, string_of};

/// Runs something that may run PHP code, and comes back in every case.
///
/// A bail-out (`longjmp`) inside ends here and becomes [`Failure::Bailout`], so that the
/// Rust frames above are left in order, with their destructors. What `body` itself holds
/// at that moment is leaked: it should hold Zend values only, which the engine frees with
/// the request.
///
/// # Errors
/// [`Failure::Pending`] when an exception is pending afterwards, [`Failure::Bailout`], or
/// an `Error` when `body` panics.
pub fn guarded<R>(body: impl FnOnce() -> R) -> Result<R, Failure> {
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

/// Calls a method of an object, whatever its visibility rules say for the class itself.
///
/// # Errors
/// As [`guarded`].
pub fn call_method(object: &ZendObject, name: &str, arguments: &[Zval]) -> Result<Zval, Failure> {
    call(Some(&object_value(object)), &string_of(name), arguments)
}

/// Whether an object has a method of that name.
pub fn has_method(object: &ZendObject, name: &str) -> bool {
    let class = object.get_class_entry();
    // SAFETY: looks the lower-cased name up in the class's table.
    let found = unsafe {
        zend_hash_str_find_ptr_lc(
            (&raw const class.function_table).cast_mut(),
            name.as_ptr().cast(),
            name.len(),
        )
    };
    !found.is_null()
}

/// Calls anything that is callable.
///
/// # Errors
/// As [`guarded`].
pub fn call_callable(callable: &Zval, arguments: &[Zval]) -> Result<Zval, Failure> {
    call(None, callable, arguments)
}

fn call(object: Option<&Zval>, function: &Zval, arguments: &[Zval]) -> Result<Zval, Failure> {
    let object = object.map_or(std::ptr::null_mut(), |object| {
        std::ptr::from_ref(object).cast_mut()
    });
    let count = u32::try_from(arguments.len()).unwrap_or(u32::MAX);
    let mut result = Zval::new();
    let target = &raw mut result;
    let status = guarded(|| {
        // SAFETY: all zvals outlive the call; the engine copies the arguments into a frame.
        unsafe {
            _call_user_function_impl(
                object,
                std::ptr::from_ref(function).cast_mut(),
                target,
                count,
                arguments.as_ptr().cast_mut(),
                std::ptr::null_mut(),
            )
        }
    })?;
    if status < 0 {
        return Err(Failure::error(
            "Pillion: the PHP function could not be called",
        ));
    }
    Ok(result.dereference().shallow_clone())
}

/// Takes the pending exception, so that it can be handled as a failed call. `None` when
/// there is none, or when it is the one by which `exit()` unwinds: that must go on.
pub fn take_exception() -> Option<ZBox<ZendObject>> {
    let exception = ExecutorGlobals::get().exception().map(std::ptr::from_ref)?;
    // SAFETY: the pending exception is alive; it is kept by a reference of its own while
    // the engine clears its slot and puts the opline back where the throw changed it.
    unsafe {
        if ffi::is_unwinding(&*exception) {
            return None;
        }
        (*exception.cast_mut()).gc.refcount += 1;
        ffi::zend_clear_exception();
        Some(ZBox::from_raw(exception.cast_mut()))
    }
}
