//! A folder with components for tests, and the tools in it.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod text;

use std::path::PathBuf;
use std::sync::Arc;

use pillion_core::tool::{CallContext, Tool, ToolFailure, ToolOutput};
use pillion_wasm_tools::{WasmFileError, WasmFolder, WasmTool, WasmToolsSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Folder {
    directory: TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("tools")).unwrap();
        Self { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("tools")
    }

    /// Creates a folder with one file.
    pub fn with(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.put(name, bytes);
        folder
    }

    /// Creates another folder outside the tools' folder.
    pub fn create_sibling(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path().join(name), bytes).unwrap();
        self
    }

    /// Parses settings from TOML, and sets this folder as the tools' folder.
    pub fn settings(&self, toml: &str) -> WasmToolsSettings {
        let mut settings: WasmToolsSettings = toml::from_str(toml).unwrap();
        settings.folder = Some(self.path());
        settings
    }

    /// Opens the folder with these settings, and loads its files.
    pub fn open(&self, toml: &str) -> WasmFolder {
        let mut folder = WasmFolder::new(self.settings(toml)).unwrap();
        load(&mut folder);
        folder
    }

    /// Returns the only tool of the folder, opened with these settings.
    pub fn tool(&self, toml: &str) -> Arc<WasmTool> {
        let folder = self.open(toml);
        assert!(folder.faults().is_empty(), "{:?}", folder.faults());
        folder.tools().pop().unwrap()
    }

    /// Returns the error of the only file with the settings `toml`, and its tool with the settings
    /// `other`. Compiles the file once.
    pub fn fault_and_tool(&self, toml: &str, other: &str) -> (WasmFileError, Arc<WasmTool>) {
        let mut folder = self.open(toml);
        assert!(folder.tools().is_empty(), "{:?}", folder.tools());
        let fault = folder.faults().pop().unwrap();
        assert!(folder.reconfigure(self.settings(other)));
        load(&mut folder);
        assert!(folder.faults().is_empty(), "{:?}", folder.faults());
        (fault, folder.tools().pop().unwrap())
    }

    /// Returns the error of the folder's only file.
    pub fn fault(&self, toml: &str) -> WasmFileError {
        let folder = self.open(toml);
        assert!(folder.tools().is_empty(), "{:?}", folder.tools());
        folder.faults().pop().unwrap()
    }
}

pub fn load(folder: &mut WasmFolder) {
    tokio::task::block_in_place(|| folder.refresh());
}

/// Refreshes the folder twice, because a changed file is loaded when a second search finds it
/// unchanged.
pub fn load_settled(folder: &mut WasmFolder) {
    load(folder);
    load(folder);
}

/// Checks the code of an error, and the end of its message.
#[track_caller]
pub fn assert_fault(fault: &WasmFileError, code: &str, end: &str) {
    assert_eq!(fault.error.code.as_str(), code, "{fault:?}");
    assert!(fault.error.message.ends_with(end), "{fault:?}");
}

pub async fn call(tool: &Arc<WasmTool>, arguments: Value) -> Result<ToolOutput, ToolFailure> {
    call_as(tool, arguments, CallContext::default()).await
}

pub async fn call_as(
    tool: &Arc<WasmTool>,
    arguments: Value,
    context: CallContext,
) -> Result<ToolOutput, ToolFailure> {
    let Value::Object(arguments) = arguments else {
        unreachable!("arguments are an object")
    };
    Arc::<WasmTool>::clone(tool).call(arguments, context).await
}

/// Returns the failure of a call that must fail, with its `metadata.limit`.
pub async fn limit_of(tool: &Arc<WasmTool>) -> (Value, ToolFailure) {
    let failure = call(tool, json!({})).await.unwrap_err();
    let limit = failure.metadata.get("limit").cloned().unwrap_or_default();
    (limit, failure)
}
