//! Measures the cost of a WebAssembly component: loading the component, and calling it.
//!
//! ```sh
//! cargo run --release --package pillion-wasm-tools --example measure -- FOLDER NAME ARGUMENTS
//! ```
#![expect(clippy::print_stdout, reason = "it is a program that prints figures")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pillion_core::tool::{CallContext, JsonObject, Tool};
use pillion_wasm_tools::{WasmFolder, WasmTool, WasmToolsSettings};

const CALLS: usize = 2000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [folder, name, json] = words.as_slice() else {
        return Err("usage: measure FOLDER NAME ARGUMENTS".into());
    };
    let arguments: JsonObject = serde_json::from_str(json)?;
    let mut folder = WasmFolder::new(WasmToolsSettings {
        folder: Some(folder.into()),
        ..WasmToolsSettings::default()
    })?;
    let begun = Instant::now();
    tokio::task::block_in_place(|| folder.refresh());
    println!("loaded in {:?}", begun.elapsed());
    let is_it = |tool: &Arc<WasmTool>| tool.definition().name().as_str() == name;
    let tool = folder.tools().into_iter().find(is_it).ok_or_else(|| {
        let faults = folder.faults();
        format!("there is no such tool: {faults:?}")
    })?;
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..CALLS {
        let tool: Arc<WasmTool> = Arc::clone(&tool);
        let begun = Instant::now();
        tool.call(arguments.clone(), CallContext::default()).await?;
        times.push(begun.elapsed());
    }
    times.sort();
    println!(
        "a call: half within {:?}, 99 of a hundred within {:?}",
        times[CALLS / 2],
        times[CALLS * 99 / 100]
    );
    Ok(())
}
