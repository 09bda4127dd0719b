//! A folder with components, and its tools.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pillion_core::tool::{CallContext, Tool, ToolFailure, ToolOutput};
use pillion_wasm_tools::{Fault, WasmFolder, WasmTool, WasmToolsSettings};
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

    /// A folder beside that of the tools.
    pub fn beside(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path().join(name), bytes).unwrap();
        self
    }

    pub fn copy(&self, name: &str, from: &Path) -> &Self {
        self.put(name, std::fs::read(from).unwrap())
    }

    /// Settings of that TOML, with this folder.
    pub fn settings(&self, toml: &str) -> WasmToolsSettings {
        let mut settings: WasmToolsSettings = toml::from_str(toml).unwrap();
        settings.folder = Some(self.path());
        settings
    }

    /// The folder under these settings, looked at.
    pub fn open(&self, toml: &str) -> WasmFolder {
        let mut folder = WasmFolder::new(self.settings(toml)).unwrap();
        look(&mut folder);
        folder
    }

    /// The one tool that there is.
    pub fn tool(&self, toml: &str) -> Arc<WasmTool> {
        let folder = self.open(toml);
        assert!(folder.faults().is_empty(), "{:?}", folder.faults());
        folder.tools().pop().unwrap()
    }

    /// What is wrong with the one file that there is under some settings, and its tool under
    /// others. It is compiled once.
    pub fn fault_and_tool(&self, toml: &str, other: &str) -> (Fault, Arc<WasmTool>) {
        let mut folder = self.open(toml);
        assert!(folder.tools().is_empty(), "{:?}", folder.tools());
        let fault = folder.faults().pop().unwrap();
        assert!(folder.reconfigure(self.settings(other)));
        look(&mut folder);
        assert!(folder.faults().is_empty(), "{:?}", folder.faults());
        (fault, folder.tools().pop().unwrap())
    }

    /// What is wrong with the one file that there is.
    pub fn fault(&self, toml: &str) -> Fault {
        let folder = self.open(toml);
        assert!(folder.tools().is_empty(), "{:?}", folder.tools());
        folder.faults().pop().unwrap()
    }
}

pub fn look(folder: &mut WasmFolder) {
    tokio::task::block_in_place(|| folder.look());
}

/// Looks until what was put there has settled.
pub fn look_again(folder: &mut WasmFolder) {
    look(folder);
    look(folder);
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

/// The `metadata.limit` of a call that must fail.
pub async fn limit_of(tool: &Arc<WasmTool>) -> (Value, ToolFailure) {
    let failure = call(tool, json!({})).await.unwrap_err();
    let limit = failure.metadata.get("limit").cloned().unwrap_or_default();
    (limit, failure)
}
