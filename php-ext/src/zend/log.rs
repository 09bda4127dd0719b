use std::ffi::CString;

use pillion_core::escape_line;

use super::ffi;

/// Writes one line to PHP's error log (`error_log`, otherwise the log of the SAPI), with a syslog
/// severity: 3 error, 4 warning, 6 information, 7 debug. Control characters are escaped, so that
/// text from servers cannot forge log lines.
pub fn write_log(severity: i32, line: &str) {
    let c_line = CString::new(&*escape_line(line)).unwrap_or_default();
    // SAFETY: the engine copies the line.
    unsafe { ffi::php_log_err_with_severity(c_line.as_ptr(), severity) };
}
