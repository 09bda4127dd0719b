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
    /// The folder with the components, `NAME.wasm`, and their manifests, `NAME.toml`. Default:
    /// none, and no such tools.
    pub folder: Option<PathBuf>,
    /// Limits of each call.
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// Which addresses granted requests may reach.
    pub egress: EgressPolicy,
    /// Permissions that a tool gets if its manifest requests them, by the tool's name.
    pub grants: BTreeMap<String, Grant>,
}

/// Limits of a call. A manifest can request smaller limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum total size of memories and tables, in bytes. Default 64 MiB.
    pub max_memory_bytes: usize,
    /// Timeout, in milliseconds, in addition to the call's deadline. Default 10,000.
    pub timeout_ms: u64,
    /// Maximum fuel: most instructions cost one unit. Default 10,000,000,000.
    pub max_fuel: u64,
    /// Maximum size of the output, and of any other value passed to the host at once, in bytes.
    /// Default 1 MiB.
    pub max_output_bytes: usize,
    /// Maximum size of the response to an HTTP request, in bytes. Default 1 MiB.
    pub max_answer_bytes: usize,
    /// Maximum size of each writable folder, in bytes: calls fail while a folder is larger. Files
    /// and folders count in steps of 4 KiB. Default 256 MiB.
    pub max_folder_bytes: u64,
    /// Maximum size of a component's file, in bytes. Default 32 MiB.
    pub max_file_bytes: u64,
    /// How long other files wait while a component is compiled, in milliseconds; compiling then
    /// continues in parallel. Default 60,000.
    pub compile_timeout_ms: u64,
}

/// The permissions that the operator grants to a tool.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// SHA-256 of the file for which the grant is valid, in 64 hexadecimal digits. Default: any
    /// file.
    pub sha256: Option<String>,
    /// Folders of this machine, by their path inside the sandbox.
    pub files: BTreeMap<String, GrantedFolder>,
    /// Names of environment variables of this process.
    pub environment: Vec<String>,
    /// Origins that the tool may send requests to.
    pub http: Vec<HttpOrigin>,
}

/// A folder that a tool may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedFolder {
    /// The path on this machine.
    pub path: PathBuf,
    /// What the tool may do in the folder. Default: read.
    #[serde(default)]
    pub access: FolderAccess,
}

/// What a tool may do in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum FolderAccess {
    /// Read and list files.
    #[default]
    #[serde(rename = "read")]
    Read,
    /// Read, list, write, create and remove files.
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

    /// Returns the first limit that is out of range, with its range.
    fn fault(&self) -> Option<String> {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let in_range = [
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
        let (key, _, min, max) = in_range
            .into_iter()
            .find(|(_, value, min, max)| !(min..=max).contains(&value))?;
        Some(format!("{key} must be a number from {min} to {max}"))
    }
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
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
