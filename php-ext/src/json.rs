//! Conversion between JSON and PHP values, in one pass and without an intermediate tree.

#[cfg(feature = "bench")]
pub mod bench;
mod decode;
mod encode;

pub use decode::{EmptyObject, decode, decode_exactly, decode_value};
pub use encode::{encode_arguments, to_value, to_value_as};

/// Maximum nesting depth of arrays and objects, for encoding and for decoding.
pub const MAX_DEPTH: usize = 128;
