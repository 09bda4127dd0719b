//! WebAssembly components as sandboxed tools. Each file of a folder is a component, which runs in a
//! separate sandbox with only the permissions that its manifest requests and the operator grants.
//!
//! A component implements the world `pillion:tool/tool` (`wit/tool.wit`). [`WasmFolder`] loads the
//! files, and a [`WasmTool`] is a component as a [`Tool`](pillion_core::tool::Tool). Each call runs
//! in a new instance, with limits of memory, time and fuel, on a thread for blocking work.
//!
//! ```
//! use pillion_wasm_tools::{FaultCode, WasmFolder, WasmToolsSettings};
//! # let directory = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let _inside = runtime.enter();
//! std::fs::write(directory.path().join("greet.wasm"), "no component")?;
//! let settings = WasmToolsSettings {
//!     folder: Some(directory.path().to_owned()),
//!     ..WasmToolsSettings::default()
//! };
//! let mut folder = WasmFolder::new(settings)?;
//! folder.refresh();
//! assert!(folder.tools().is_empty());
//! assert_eq!(folder.faults()[0].error.code, FaultCode::NotWasm);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bindings;
mod bounded_text;
mod error;
mod file;
mod folder;
mod footprint;
mod host;
mod http;
mod manifest;
mod memory;
mod origin;
mod permissions;
mod quota;
mod run;
mod sandbox;
mod settings;
mod stderr;
mod tool;

pub use error::{FaultCode, WasmToolError};
pub use folder::{
    FolderSearch, FolderSearchResult, LoadedFile, PendingFile, WasmFileError, WasmFolder,
};
pub use origin::HttpOrigin;
pub use settings::{FolderAccess, Grant, GrantedFolder, Limits, WasmToolsSettings};
pub use tool::WasmTool;
