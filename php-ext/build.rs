//! Sets link options, and detects features of the target PHP.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    // The extension's threads may still run when PHP unloads it at exit, so its code stays loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");

    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PHP_CONFIG");
    println!("cargo::rustc-check-cfg=cfg(php_delayed_oom)");
    if has_delayed_oom() {
        println!("cargo::rustc-cfg=php_delayed_oom");
    }
}

/// Returns whether this PHP stops a request that has reached `memory_limit` at the next safe point.
/// Other versions stop the request immediately.
fn has_delayed_oom() -> bool {
    let php_config = env::var_os("PHP_CONFIG").unwrap_or_else(|| "php-config".into());
    let directory = Command::new(php_config).arg("--include-dir").output();
    // Without php-config the build of ext-php-rs fails first, with a better message.
    let Ok(output) = directory else { return false };
    let directory = String::from_utf8_lossy(&output.stdout);
    let header = PathBuf::from(directory.trim()).join("Zend/zend_alloc.h");
    std::fs::read_to_string(header).is_ok_and(|text| text.contains("zend_handle_delayed_oom"))
}
