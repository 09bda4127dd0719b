//! A class that exposes JSON encoding and decoding to the benchmark in `benches/json`. Only
//! compiled with the feature `bench`, which no release enables.

use ext_php_rs::error::Result as ZendResult;
use ext_php_rs::flags::ClassFlags;

use super::{EmptyObject, decode, encode_arguments};
use crate::zend::exception_class::invalid_input;
use crate::zend::{Class, ClassSlot, MethodCall, Outcome, methods, new_string};

static CLASS: ClassSlot = ClassSlot::new();

/// Registers the class of the benchmark.
pub fn register() -> ZendResult<()> {
    methods!(
        Class::new("Pillion\\JsonBench")
            .flags(ClassFlags::Final),
        "static decode(string $json): mixed" => to_php,
        "static encode(mixed $value): string" => to_json,
    )
    .register(&CLASS)
}

fn to_php(call: &mut MethodCall<'_>) -> Outcome {
    decode(call.string(0)?, EmptyObject::Array)?.map_err(|error| invalid_input(error.to_string()))
}

fn to_json(call: &mut MethodCall<'_>) -> Outcome {
    let value = call.value(0).ok_or_else(|| call.type_error(0, "mixed"))?;
    Ok(new_string(encode_arguments(value)?.get()))
}
