//! The module as PHP loads it: start-up, shutdown, `phpinfo()`.

use ext_php_rs::prelude::*;
use ext_php_rs::zend::ModuleEntry;

use crate::{classes, exception, runtime, settings};

#[php_module]
#[php(startup = "startup")]
pub fn get_module(module: ModuleBuilder<'_>) -> ModuleBuilder<'_> {
    module
        .name("pillion")
        .shutdown_function(shutdown)
        .info_function(information)
}

fn startup(_kind: i32, module: i32) -> i32 {
    settings::register(module);
    ext_php_rs::internal::startup_guard(|| {
        exception::register()?;
        classes::register()
    })
}

extern "C" fn shutdown(_kind: i32, _module: i32) -> i32 {
    runtime::shut_down();
    0
}

extern "C" fn information(_module: *mut ModuleEntry) {
    ext_php_rs::info_table_start!();
    ext_php_rs::info_table_row!("Pillion", "enabled");
    ext_php_rs::info_table_row!("Version", env!("CARGO_PKG_VERSION"));
    ext_php_rs::info_table_end!();
}
