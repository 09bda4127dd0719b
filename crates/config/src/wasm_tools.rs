#[cfg(feature = "wasm")]
pub use pillion_wasm_tools::WasmToolsSettings as WasmToolsSection;

/// `[wasm_tools]` in a build without the feature `wasm`: the section must be empty.
#[cfg(not(feature = "wasm"))]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WasmToolsSection;

#[cfg(not(feature = "wasm"))]
impl<'de> serde::Deserialize<'de> for WasmToolsSection {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if toml::Table::deserialize(deserializer)?.is_empty() {
            return Ok(Self);
        }
        Err(serde::de::Error::custom(
            "this build of Pillion does not include the feature wasm",
        ))
    }
}
