//! The module as PHP loads it: startup, shutdown and `phpinfo()`.

use std::panic::catch_unwind;

use ext_php_rs::error::php_error;
use ext_php_rs::ffi::{USING_ZTS, ZEND_MODULE_API_NO, ZEND_RESULT_CODE_FAILURE};
use ext_php_rs::flags::ErrorType;
use ext_php_rs::prelude::*;
use ext_php_rs::zend::ModuleEntry;

use crate::classes;
use crate::exception;
use crate::mcp::sessions;
use crate::runtime;
use crate::settings;
use crate::zend::show_settings;

#[php_module]
#[php(startup = "start_module")]
pub fn get_module(module: ModuleBuilder<'_>) -> ModuleBuilder<'_> {
    module
        .name("pillion")
        .shutdown_function(end_module)
        .info_function(print_information)
}

fn start_module(_kind: i32, module: i32) -> i32 {
    if let Err(error) = runtime::forks::start_counting() {
        let message = format!("Pillion cannot register its fork handler: {error}");
        php_error(&ErrorType::CoreWarning, &message);
        return ZEND_RESULT_CODE_FAILURE;
    }
    settings::register(module);
    ext_php_rs::internal::startup_guard(|| {
        exception::register()?;
        classes::register()
    })
}

extern "C" fn end_module(_kind: i32, _module: i32) -> i32 {
    runtime::shut_down(sessions::close_all);
    0
}

extern "C" fn print_information(module: *mut ModuleEntry) {
    // A panic is caught, because it must not cross into C. After a panic, the printed table is
    // incomplete.
    let _ = catch_unwind(|| print_table(module));
}

/// Prints the table of `phpinfo()` and `php --ri`. Starts no engine, and shows no credentials,
/// because the ini settings contain none.
fn print_table(module: *mut ModuleEntry) {
    ext_php_rs::info_table_start!();
    ext_php_rs::info_table_row!("Pillion", "enabled");
    ext_php_rs::info_table_row!("Version", env!("CARGO_PKG_VERSION"));
    ext_php_rs::info_table_row!("PHP API", ZEND_MODULE_API_NO.to_string());
    ext_php_rs::info_table_row!("Thread safety", if USING_ZTS == 0 { "no" } else { "yes" });
    let (engine_status, session_usage) = if runtime::is_running() {
        let (count, limit) = sessions::session_counts();
        ("running", format!("{count} of {limit}"))
    } else {
        ("not started in this process", "none".to_owned())
    };
    ext_php_rs::info_table_row!("Engine", engine_status);
    ext_php_rs::info_table_row!("MCP sessions kept", session_usage);
    ext_php_rs::info_table_end!();
    show_settings(module);
}
