//! Limits how deep calls of PHP code and of this extension nest.

use ext_php_rs::ffi::{ZEND_INTERNAL_FUNCTION, ext_php_rs_executor_globals, zend_execute_data};
use ext_php_rs::types::ZendStr;
use pillion_core::tool::ErrorCode;

use super::Result;
use super::exception_class::for_code;

/// The namespace of the extension's classes.
const NAMESPACE: &[u8] = b"Pillion\\";

/// Maximum number of nested methods of the extension: methods on the stack, each called by PHP code
/// that the previous method called. Each level takes about 20 KiB of the C stack, which has 8 MiB,
/// or 2 MB in a fiber. A stack overflow would be a segmentation fault.
const MAX_NESTING: usize = 64;

/// Returns the error message for calls that are nested too deeply.
pub fn too_deep_message() -> String {
    format!(
        "Calls nest deeper than {MAX_NESTING} levels: a tool, or a callable such as 'approve', \
         makes calls that lead back to itself"
    )
}

/// Returns whether the number of the extension's methods on the stack exceeds the maximum.
pub fn is_too_deep() -> bool {
    count_depth() > MAX_NESTING
}

/// Returns whether the current method was called by PHP code that another method of the extension
/// has called.
pub fn is_nested() -> bool {
    count_depth() > 1
}

/// Counts the methods of the extension on the stack, up to the maximum plus one. Methods of
/// suspended fibers do not count, because each fiber has its own stack.
fn count_depth() -> usize {
    let mut depth = 0;
    // SAFETY: the frames are those of this thread's active calls, innermost first. Each frame has a
    // function, except some of the engine's own, and lives as long as its call.
    unsafe {
        let mut frame = (*ext_php_rs_executor_globals()).current_execute_data;
        while let Some(frame_data) = frame.as_ref() {
            depth += usize::from(is_extension_frame(frame_data));
            if depth > MAX_NESTING {
                break;
            }
            frame = frame_data.prev_execute_data;
        }
    }
    depth
}

/// Rejects a call of PHP code when calls nest too deeply.
///
/// # Errors
/// A `PillionException` if calls nest too deeply.
pub(super) fn check_depth() -> Result<()> {
    if is_too_deep() {
        return Err(for_code(ErrorCode::InternalError, too_deep_message()));
    }
    Ok(())
}

/// Returns whether a frame belongs to a method of the extension.
///
/// # Safety
/// The frame must belong to an active call.
unsafe fn is_extension_frame(frame: &zend_execute_data) -> bool {
    // SAFETY: every function has the common part; the class of a method and the class's name live
    // longer than the method's calls.
    unsafe {
        let Some(function) = frame.func.as_ref() else {
            return false;
        };
        if u32::from(function.type_) != ZEND_INTERNAL_FUNCTION {
            return false;
        }
        let Some(class) = function.common.scope.as_ref() else {
            return false;
        };
        let name: Option<&ZendStr> = class.name.as_ref();
        name.is_some_and(|name| name.as_bytes().starts_with(NAMESPACE))
    }
}
