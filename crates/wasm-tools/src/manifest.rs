use serde::Deserialize;

use crate::permissions::RequestedPermissions;
use crate::settings::Limits;
use crate::{FaultCode, WasmToolError};

/// The manifest of a component: the permissions that the component requests, and limits smaller
/// than the operator's. A component without a manifest requests no permissions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) permissions: RequestedPermissions,
    pub(crate) limits: ManifestLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ManifestLimits {
    max_memory_bytes: Option<usize>,
    timeout_ms: Option<u64>,
    max_fuel: Option<u64>,
    max_output_bytes: Option<usize>,
    max_answer_bytes: Option<usize>,
    max_folder_bytes: Option<u64>,
}

impl Manifest {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, WasmToolError> {
        let bad = |what| WasmToolError::new(FaultCode::BadManifest, what);
        let text = std::str::from_utf8(bytes)
            .map_err(|_| bad("the manifest is not valid UTF-8".to_owned()))?;
        let manifest: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                let before = text.get(..span.start).unwrap_or_default();
                before.matches('\n').count() + 1
            });
            bad(format!("line {line}: {}", error.message()))
        })?;
        let not_absolute = manifest
            .permissions
            .files
            .keys()
            .find(|path| !path.starts_with('/'));
        match not_absolute {
            Some(path) => Err(bad(format!(
                "permissions.files: '{path}' must begin with /"
            ))),
            None => Ok(manifest),
        }
    }
}

impl ManifestLimits {
    /// Returns the manifest's limits, reduced to the operator's limits.
    pub(crate) fn within(&self, limits: &Limits) -> Limits {
        fn smaller<T: Ord + Copy>(requested: Option<T>, max: T) -> T {
            requested.map_or(max, |requested| requested.min(max))
        }
        Limits {
            max_memory_bytes: smaller(self.max_memory_bytes, limits.max_memory_bytes),
            timeout_ms: smaller(self.timeout_ms, limits.timeout_ms).max(1),
            max_fuel: smaller(self.max_fuel, limits.max_fuel),
            max_output_bytes: smaller(self.max_output_bytes, limits.max_output_bytes),
            max_answer_bytes: smaller(self.max_answer_bytes, limits.max_answer_bytes),
            max_folder_bytes: smaller(self.max_folder_bytes, limits.max_folder_bytes),
            max_file_bytes: limits.max_file_bytes,
            compile_timeout_ms: limits.compile_timeout_ms,
        }
    }
}
