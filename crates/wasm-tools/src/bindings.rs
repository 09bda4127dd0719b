//! What `wit/tool.wit` is in Rust.
#![allow(missing_docs, clippy::all)] // it is generated

wasmtime::component::bindgen!({
    path: "wit",
    world: "tool",
    imports: { default: async },
    exports: { default: async },
});
