use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the WebAssembly component of a crate of this repository, given the crate's directory,
/// such as `wasm-examples/text_facts`, and returns its path. Returns `None`, with a message on
/// standard error, if the Rust target for WebAssembly is not installed.
///
/// # Panics
/// If the crate cannot be built; or if the target is not installed and `PILLION_REQUIRE_PEERS` is
/// `1`.
#[must_use]
pub fn wasm_component(directory: &str) -> Option<PathBuf> {
    const TARGET: &str = "wasm32-wasip2";
    let crate_directory = crate::checkout().join(directory);
    let printed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(&crate_directory)
        .output();
    let library = printed.map(|printed| String::from_utf8_lossy(&printed.stdout).into_owned());
    if !library.is_ok_and(|library| Path::new(library.trim()).is_dir()) {
        let required = std::env::var("PILLION_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "Rust has no target {TARGET} here: rustup target add {TARGET}"
        );
        eprintln!("SKIPPED: Rust has no target {TARGET} here: rustup target add {TARGET}");
        return None;
    }
    // Tests are in DIRECTORY/PROFILE/deps; components are built in DIRECTORY.
    let test = std::env::current_exe().unwrap();
    let target_directory = test.ancestors().nth(3).unwrap().join("wasm-guests");
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--target",
            TARGET,
        ])
        .current_dir(&crate_directory)
        .env("CARGO_TARGET_DIR", &target_directory)
        // These flags are for the tests themselves.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{directory}: {output}");
    let name = Path::new(directory).file_name().unwrap();
    let file = target_directory.join(TARGET).join("release").join(name);
    Some(file.with_extension("wasm"))
}
