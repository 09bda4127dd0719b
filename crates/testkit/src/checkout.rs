use std::path::{Path, PathBuf};

/// The checkout whose tests run.
///
/// Asked for when they run: checkouts may share a target folder, and cargo does not build anew what
/// it built from the same sources in another one, which may be gone.
///
/// # Panics
/// When a program that cargo did not start runs where the checkout it was built in is gone.
#[must_use]
pub fn checkout() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&package)
        .ancestors()
        .find(|directory| directory.join("Cargo.lock").is_file());
    root.unwrap().to_owned()
}
