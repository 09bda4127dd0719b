use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillion_egress::EgressPolicy;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::origin::HttpOrigin;

/// The operator's settings for the tools of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WasmToolsSettings {
    /// The folder with the components, `NAME.wasm`, and their manifests, `NAME.toml`. Default: no
    /// folder, and so no WebAssembly tools.
    pub folder: Option<PathBuf>,
    /// The limits of each call of a tool.
    #[serde(deserialize_with = "deserialize_limits")]
    pub limits: Limits,
    /// The egress policy: the addresses that the tools' HTTP requests may reach.
    pub egress: EgressPolicy,
    /// The permissions that the operator grants, by the tool's name. A tool gets the granted
    /// permissions that the tool's manifest requests.
    pub grants: BTreeMap<String, Grant>,
}

/// The limits of a call. A manifest can request smaller limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum total size of a call's memories and tables, in bytes. Default 64 MiB.
    pub max_memory_bytes: usize,
    /// Timeout of a call, in milliseconds, in addition to the call's own deadline. Default 10,000.
    pub timeout_ms: u64,
    /// Maximum fuel of a call: most instructions cost one unit. Default 10,000,000,000.
    pub max_fuel: u64,
    /// Maximum size of a call's output, and of any other value that the component passes to the
    /// host at once, in bytes. Default 1 MiB.
    pub max_output_bytes: usize,
    /// Maximum size of the response to an HTTP request, in bytes. Default 1 MiB.
    pub max_answer_bytes: usize,
    /// Maximum size of each writable folder, in bytes: calls fail while a folder is larger. The
    /// size of each file and folder is rounded up to a multiple of 4 KiB. Default 256 MiB.
    pub max_folder_bytes: u64,
    /// Maximum size of a component's file, in bytes. Default 32 MiB.
    pub max_file_bytes: u64,
    /// Maximum time that the loading of other files waits for the compilation of one component, in
    /// milliseconds; after this time, compilation continues in parallel. Default 60,000.
    pub compile_timeout_ms: u64,
}

/// The permissions that the operator grants to a tool.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// SHA-256 of the component's file that the grant is for, in 64 hexadecimal digits. Default:
    /// any file.
    pub sha256: Option<String>,
    /// Folders of this machine that the tool may use, by their path inside the sandbox.
    pub files: BTreeMap<String, GrantedFolder>,
    /// Names of the sidecar's environment variables that the tool may read.
    pub environment: Vec<String>,
    /// Origins that the tool may send requests to.
    pub http: Vec<HttpOrigin>,
}

/// A folder of this machine that a tool may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedFolder {
    /// The folder's path on this machine.
    pub path: PathBuf,
    /// The access of the tool to the folder. Default: read.
    #[serde(default)]
    pub access: FolderAccess,
}

/// The access of a tool to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum FolderAccess {
    /// The tool may read and list files.
    #[default]
    #[serde(rename = "read")]
    Read,
    /// The tool may read, list, write, create and remove files.
    #[serde(rename = "read-write")]
    ReadWrite,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_memory_bytes: 64 * 1024 * 1024,
            timeout_ms: 10_000,
            max_fuel: 10_000_000_000,
            max_output_bytes: 1024 * 1024,
            max_answer_bytes: 1024 * 1024,
            max_folder_bytes: 256 * 1024 * 1024,
            max_file_bytes: 32 * 1024 * 1024,
            compile_timeout_ms: 60_000,
        }
    }
}

impl Limits {
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(crate) fn compile_timeout(&self) -> Duration {
        Duration::from_millis(self.compile_timeout_ms)
    }

    /// Returns a message about the first limit that is out of range, with its range.
    fn fault(&self) -> Option<String> {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let ranges = [
            (
                "max_memory_bytes",
                self.max_memory_bytes as u64,
                65_536,
                1 << 32,
            ),
            ("timeout_ms", self.timeout_ms, 1, DAY_MS),
            ("max_fuel", self.max_fuel, 1, 1 << 62),
            (
                "max_output_bytes",
                self.max_output_bytes as u64,
                1024,
                1 << 31,
            ),
            ("max_answer_bytes", self.max_answer_bytes as u64, 1, 1 << 31),
            ("max_folder_bytes", self.max_folder_bytes, 0, 1 << 62),
            ("max_file_bytes", self.max_file_bytes, 1, 1 << 30),
            ("compile_timeout_ms", self.compile_timeout_ms, 1, DAY_MS),
        ];
        let (key, value, min, max) = ranges
            .into_iter()
            .find(|(_, value, min, max)| !(min..=max).contains(&value))?;
        Some(format!(
            "{key} must be a number from {min} to {max}, {value} given"
        ))
    }
}

fn deserialize_limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    let limits = Limits::deserialize(deserializer)?;
    match limits.fault() {
        Some(fault) => Err(de::Error::custom(fault)),
        None => Ok(limits),
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("files", &self.files)
            .field("environment", &self.environment)
            .field("http", &self.http)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for FolderAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        })
    }
}
