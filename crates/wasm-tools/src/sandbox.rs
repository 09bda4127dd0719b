use std::fmt::Write;

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine};

use crate::bindings::{Tool, ToolPre};
use crate::footprint;
use crate::host::Host;
use crate::saying::{self, Saying};
use crate::{FaultCode, WasmToolError};

/// The first bytes of WebAssembly, and what follows in a component and in a core module.
const MAGIC: &[u8] = b"\0asm";
const COMPONENT: [u8; 4] = [0x0d, 0, 1, 0];
const CORE_MODULE: [u8; 4] = [1, 0, 0, 0];

/// What compiles components, and what those may import.
pub(crate) struct Sandbox {
    pub(crate) engine: Engine,
    linker: Linker<Host>,
}

impl Sandbox {
    /// # Errors
    /// The processor is one that nothing can be compiled for.
    pub(crate) fn new() -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config
            .async_support(true)
            .consume_fuel(true)
            .epoch_interruption(true)
            // It would walk every frame at a trap, and copy the names of their functions, which the
            // component chooses.
            .wasm_backtrace(false)
            .wasm_component_model(true);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        Tool::add_to_linker::<_, HasSelf<_>>(&mut linker, |host| host)?;
        Ok(Self { engine, linker })
    }

    /// Compiles a component. Takes a while: seconds for megabytes.
    ///
    /// # Errors
    /// Those of [`FaultCode`] that concern what is in the file.
    pub(crate) fn compile(&self, bytes: &[u8]) -> Result<ToolPre<Host>, WasmToolError> {
        let fault = |code, what: String| WasmToolError::new(code, what);
        match bytes.strip_prefix(MAGIC).map(|rest| rest.first_chunk()) {
            Some(Some(&COMPONENT)) => {}
            Some(Some(&CORE_MODULE)) => {
                let what =
                    "it is a core module: build a component, as for the target wasm32-wasip2";
                return Err(fault(FaultCode::CoreModule, what.to_owned()));
            }
            Some(None) => {
                let what = "it ends before it has begun";
                return Err(fault(FaultCode::InvalidComponent, what.to_owned()));
            }
            _ => {
                let what = "it does not begin as WebAssembly does";
                return Err(fault(FaultCode::NotWasm, what.to_owned()));
            }
        }
        footprint::check(bytes)?;
        let component = Component::new(&self.engine, bytes)
            .map_err(|error| fault(FaultCode::InvalidComponent, chain(&error)))?;
        let instance = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| fault(FaultCode::UnknownImport, chain(&error)))?;
        ToolPre::new(instance).map_err(|error| fault(FaultCode::MissingExport, chain(&error)))
    }
}

/// An error with all of its causes, in one line that is not [too long](saying::LONGEST).
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    let mut said = Saying::of_at_most(saying::LONGEST);
    for (place, cause) in error.chain().enumerate() {
        let separator = if place == 0 { "" } else { ": " };
        // It refuses what is past its end; nothing further is written then.
        if write!(said, "{separator}{cause}").is_err() {
            break;
        }
    }
    said.in_one_line()
}
