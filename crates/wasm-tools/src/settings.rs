use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillion_core::egress::EgressPolicy;
use serde::{Deserialize, Deserializer, de};

use crate::permissions::{Access, Origin};

/// What the operator says of the tools of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WasmToolsSettings {
    /// The folder with the components, `NAME.wasm`, and their manifests, `NAME.toml`. Default
    /// none: there are no such tools.
    pub folder: Option<PathBuf>,
    /// What each call may use.
    #[serde(deserialize_with = "limits")]
    pub limits: Limits,
    /// Where requests may go that are granted.
    pub egress: EgressPolicy,
    /// What each tool may have that its manifest asks for, by the tool's name.
    pub grants: BTreeMap<String, Grant>,
}

/// What a call may use. A manifest can ask for less.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The bytes of all its memories and tables together. Default 64 MiB.
    pub max_memory_bytes: usize,
    /// How long it may take. The call's own deadline holds as well. Default 10,000 ms.
    pub timeout_ms: u64,
    /// How many units of work: one for most instructions. Default 10,000,000,000.
    pub max_fuel: u64,
    /// The bytes of its output, and of whatever else it hands over at once. Default 1 MiB.
    pub max_output_bytes: usize,
    /// The bytes of the answer to one of its requests. Default 1 MiB.
    pub max_answer_bytes: usize,
    /// The bytes of each folder that it may write: while there are more, it is not called. Files
    /// and folders count in steps of 4 KiB. Default 256 MiB.
    pub max_folder_bytes: u64,
    /// The bytes of a file with a component. Default 32 MiB.
    pub max_file_bytes: u64,
    /// How long other files wait while one is compiled. It goes on beside them then. Default
    /// 60,000 ms.
    pub compile_timeout_ms: u64,
}

/// What the operator grants one tool.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// The file that it is for: its SHA-256 in 64 hexadecimal digits. Any by default.
    pub sha256: Option<String>,
    /// Folders of this machine, by the path that the tool knows each by.
    pub files: BTreeMap<String, GrantedFolder>,
    /// Names of variables of this process' environment.
    pub environment: Vec<String>,
    /// Origins that it may send requests to.
    pub http: Vec<Origin>,
}

/// A folder that a tool may use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedFolder {
    /// Where it is.
    pub path: PathBuf,
    /// What may be done there. Default to read.
    #[serde(default)]
    pub access: Access,
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

    /// The first that is out of its range, and what the range is.
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
        let out = in_range
            .into_iter()
            .find(|(_, value, least, most)| !(least..=most).contains(&value));
        out.map(|(key, _, least, most)| format!("{key} is a number from {least} to {most}"))
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
