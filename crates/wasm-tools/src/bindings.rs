//! The Rust bindings of `wit/tool.wit`.
#![allow(missing_docs, clippy::all)] // the bindings are generated

wasmtime::component::bindgen!({
    path: "wit",
    world: "tool",
    imports: { default: async },
    exports: { default: async },
});
