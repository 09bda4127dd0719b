use std::path::{Path, PathBuf};

/// Returns the root of the checkout whose tests are running.
///
/// The root is determined at run time: checkouts may share a target directory, and cargo may reuse
/// a test that was built in another checkout, which may no longer exist.
///
/// # Panics
/// If cargo did not start the program, and the checkout that the program was built in no longer
/// exists.
#[must_use]
pub fn checkout() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&package)
        .ancestors()
        .find(|directory| directory.join("Cargo.lock").is_file());
    root.unwrap().to_owned()
}
