//! JSON to PHP values and back, each in one pass, without a tree in between.

#[cfg(feature = "bench")]
pub mod bench;
mod decode;
mod encode;

pub use decode::{EmptyObject, decode, decode_exactly, decode_value};
pub use encode::{encode_arguments, to_value, to_value_as};

/// How deep arrays and objects may nest, in both directions.
pub const DEPTH_LIMIT: usize = 128;
