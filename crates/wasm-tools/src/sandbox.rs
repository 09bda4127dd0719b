use std::fmt::Write;

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine};

use crate::bindings::{Tool, ToolPre};
use crate::bounded_text::{self, BoundedText};
use crate::footprint;
use crate::host::HostState;
use crate::{FaultCode, WasmToolError};

/// The first bytes of a WebAssembly file, whether it is a component or a core module.
const WASM_MAGIC: &[u8] = b"\0asm";
const COMPONENT_VERSION: [u8; 4] = [0x0d, 0, 1, 0];
const CORE_MODULE_VERSION: [u8; 4] = [1, 0, 0, 0];

/// Compiles components, and provides their imports.
pub(crate) struct Sandbox {
    pub(crate) engine: Engine,
    linker: Linker<HostState>,
}

impl Sandbox {
    /// Creates the compiler, and links the imports of the world `pillion:tool/tool`.
    ///
    /// # Errors
    /// WebAssembly cannot be compiled for this processor.
    pub(crate) fn new() -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .epoch_interruption(true)
            // Backtraces are disabled, because a backtrace would visit every frame of a trap, and
            // copy function names that the component chooses.
            .wasm_backtrace_max_frames(None)
            .wasm_component_model(true);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        Tool::add_to_linker::<_, HasSelf<_>>(&mut linker, |host| host)?;
        Ok(Self { engine, linker })
    }

    /// Compiles a component. Compiling a file of several megabytes takes seconds.
    ///
    /// # Errors
    /// The file is not a component, is invalid, or has an unknown import or a missing export; the
    /// [`FaultCode`] tells which.
    pub(crate) fn compile(&self, bytes: &[u8]) -> Result<ToolPre<HostState>, WasmToolError> {
        let fault = |code, message: String| WasmToolError::new(code, message);
        match bytes
            .strip_prefix(WASM_MAGIC)
            .map(|rest| rest.first_chunk())
        {
            Some(Some(&COMPONENT_VERSION)) => {}
            Some(Some(&CORE_MODULE_VERSION)) => {
                let message =
                    "the file is a core module: build a component, for example for wasm32-wasip2";
                return Err(fault(FaultCode::CoreModule, message.to_owned()));
            }
            Some(None) => {
                let message = "the file ends within its header";
                return Err(fault(FaultCode::InvalidComponent, message.to_owned()));
            }
            _ => {
                let message = "the file is not WebAssembly";
                return Err(fault(FaultCode::NotWasm, message.to_owned()));
            }
        }
        footprint::check(bytes)?;
        let component = Component::new(&self.engine, bytes)
            .map_err(|error| fault(FaultCode::InvalidComponent, format_error_chain(&error)))?;
        let instance = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| fault(FaultCode::UnknownImport, format_error_chain(&error)))?;
        ToolPre::new(instance)
            .map_err(|error| fault(FaultCode::MissingExport, format_error_chain(&error)))
    }
}

/// Formats an error and all its causes as one line of at most
/// [`bounded_text::MAX_MESSAGE_BYTES`] bytes.
pub(crate) fn format_error_chain(error: &wasmtime::Error) -> String {
    let mut text = BoundedText::with_limit(bounded_text::MAX_MESSAGE_BYTES);
    for (index, cause) in error.chain().enumerate() {
        let separator = if index == 0 { "" } else { ": " };
        // Stops when the message has reached its maximum size: `write!` then returns an error.
        if write!(text, "{separator}{cause}").is_err() {
            break;
        }
    }
    text.into_single_line()
}
