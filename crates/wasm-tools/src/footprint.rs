use wasmparser::{Encoding, Parser, Payload};

use crate::{FaultCode, WasmToolError};

/// Maximum size of one instance of a module without its memories and tables, in bytes.
const MAX_BYTES: u64 = 2 * 1024 * 1024;

// Assumed size of one global, import and function in an instance, in bytes.
const GLOBAL_BYTES: u64 = 16;
const IMPORT_BYTES: u64 = 32;
const FUNCTION_BYTES: u64 = 32;

/// Rejects a component with a module whose instances need too much space outside their memories.
/// Each instance reserves space for all globals, imports and functions, which the memory limit does
/// not count at run time.
///
/// # Errors
/// [`FaultCode::InvalidComponent`] if a module is too large or cannot be parsed.
pub(crate) fn check(component: &[u8]) -> Result<(), WasmToolError> {
    let fault = |message| WasmToolError::new(FaultCode::InvalidComponent, message);
    let mut module_bytes = 0_u64;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload
            .map_err(|error| fault(format!("failed to parse WebAssembly module: {error}")))?;
        let (count, bytes) = match payload {
            // A new header starts the next module, because modules are not nested in each other.
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => {
                module_bytes = 0;
                continue;
            }
            Payload::GlobalSection(globals) => (globals.count(), GLOBAL_BYTES),
            Payload::ImportSection(imports) => (imports.count(), IMPORT_BYTES),
            Payload::FunctionSection(functions) => (functions.count(), FUNCTION_BYTES),
            _ => continue,
        };
        module_bytes = module_bytes.saturating_add(u64::from(count).saturating_mul(bytes));
        if module_bytes > MAX_BYTES {
            return Err(fault(format!(
                "the globals, imports and functions of a module need more than {MAX_BYTES} bytes"
            )));
        }
    }
    Ok(())
}
