use std::path::PathBuf;

/// Returns the path of the built WebAssembly component `name`, such as `text_facts`, which
/// `scripts/build-components` builds.
#[must_use]
pub fn wasm_component(name: &str) -> PathBuf {
    let file = format!("tests/wasm/built/{name}.wasm");
    crate::checkout().join(file)
}
