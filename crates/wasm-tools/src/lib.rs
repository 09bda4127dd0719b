//! WebAssembly components as tools (P: sandboxed tools): files of a folder, each in a sandbox of its
//! own, which has what its manifest asks for and its operator has granted, and nothing else.
//!
//! A component is one of the world `pillion:tool/tool` (`wit/tool.wit`). [`WasmFolder`] finds the
//! files, and [`WasmTool`] is one of them: a [`Tool`](pillion_core::tool::Tool) like any other. Each
//! call has an instance of its own, with limits of memory, time and fuel; it runs on a thread
//! where it may take its time.
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
//! folder.look();
//! assert!(folder.tools().is_empty());
//! assert_eq!(folder.faults()[0].error.code, FaultCode::NotWasm);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bindings;
mod error;
mod file;
mod folder;
mod footprint;
mod host;
mod http;
mod manifest;
mod memory;
mod permissions;
mod quota;
mod run;
mod sandbox;
mod saying;
mod settings;
mod stderr;
mod tool;

pub use error::{FaultCode, WasmToolError};
pub use folder::{DueFile, Fault, Found, Search, TakenUp, WasmFolder};
pub use permissions::{Access, Origin};
pub use settings::{Grant, GrantedFolder, Limits, WasmToolsSettings};
pub use tool::WasmTool;
