use serde::Deserialize;

use crate::permissions::RequestedPermissions;
use crate::settings::Limits;
use crate::{FaultCode, WasmToolError};

/// The manifest of a component, with the permissions that the component requests and with limits
/// that are smaller than the operator's. A component without a manifest requests no permissions.
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
        let invalid_manifest = |message| WasmToolError::new(FaultCode::BadManifest, message);
        let text = std::str::from_utf8(bytes)
            .map_err(|_| invalid_manifest("the manifest is not valid UTF-8".to_owned()))?;
        let manifest: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                let text_before = text.get(..span.start).unwrap_or_default();
                text_before.matches('\n').count() + 1
            });
            invalid_manifest(format!("line {line}: {}", error.message()))
        })?;
        let relative_path = manifest
            .permissions
            .files
            .keys()
            .find(|path| !path.starts_with('/'));
        match relative_path {
            Some(path) => Err(invalid_manifest(format!(
                "permissions.files: '{path}' must begin with /"
            ))),
            None => Ok(manifest),
        }
    }
}

impl ManifestLimits {
    /// Returns the manifest's limits, reduced to the operator's limits.
    pub(crate) fn cap_limits(&self, limits: &Limits) -> Limits {
        fn min_limit<T: Ord + Copy>(requested_limit: Option<T>, max: T) -> T {
            requested_limit.map_or(max, |requested_limit| requested_limit.min(max))
        }
        Limits {
            max_memory_bytes: min_limit(self.max_memory_bytes, limits.max_memory_bytes),
            timeout_ms: min_limit(self.timeout_ms, limits.timeout_ms).max(1),
            max_fuel: min_limit(self.max_fuel, limits.max_fuel),
            max_output_bytes: min_limit(self.max_output_bytes, limits.max_output_bytes),
            max_answer_bytes: min_limit(self.max_answer_bytes, limits.max_answer_bytes),
            max_folder_bytes: min_limit(self.max_folder_bytes, limits.max_folder_bytes),
            max_file_bytes: limits.max_file_bytes,
            compile_timeout_ms: limits.compile_timeout_ms,
        }
    }
}
