use wasmparser::{Encoding, Parser, Payload};

use crate::{FaultCode, WasmToolError};

/// The most that an instance of a module may take beside its memories and tables, in bytes.
const MOST_BYTES: u64 = 2 * 1024 * 1024;

/// What an instance has for each global, import and function, in bytes, at most.
const GLOBAL: u64 = 16;
const IMPORT: u64 = 32;
const FUNCTION: u64 = 32;

/// Refuses a component with a module that takes much without having memory: each of its instances has
/// room for every global, import and function, and that is not counted while it runs.
///
/// # Errors
/// [`FaultCode::InvalidComponent`].
pub(crate) fn check(component: &[u8]) -> Result<(), WasmToolError> {
    let fault = |what| WasmToolError::new(FaultCode::InvalidComponent, what);
    let mut taken = 0_u64;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload
            .map_err(|error| fault(format!("failed to parse WebAssembly module: {error}")))?;
        let (count, bytes) = match payload {
            // No module is within another.
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => {
                taken = 0;
                continue;
            }
            Payload::GlobalSection(globals) => (globals.count(), GLOBAL),
            Payload::ImportSection(imports) => (imports.count(), IMPORT),
            Payload::FunctionSection(functions) => (functions.count(), FUNCTION),
            _ => continue,
        };
        taken = taken.saturating_add(u64::from(count).saturating_mul(bytes));
        if taken > MOST_BYTES {
            return Err(fault(format!(
                "the globals, imports and functions of a module take more than {MOST_BYTES} bytes"
            )));
        }
    }
    Ok(())
}
