//! The exceptions of `Pillion\Exception`, and how failures of the engine become one.

use ext_php_rs::error::Result;
use ext_php_rs::flags::PropertyFlags;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;
use pillion_core::tool::ErrorCode;

use crate::zend::{
    Class, ClassSlot, Failure, Property, Thrown, Type, runtime_exception, string_of,
};

/// The root: everything that the extension throws on purpose.
static PILLION: ClassSlot = ClassSlot::new();
static INVALID_INPUT: ClassSlot = ClassSlot::new();
static NOT_FOUND: ClassSlot = ClassSlot::new();
static RATE_LIMITED: ClassSlot = ClassSlot::new();
static TIMEOUT: ClassSlot = ClassSlot::new();
static UNAVAILABLE: ClassSlot = ClassSlot::new();
static TRANSPORT: ClassSlot = ClassSlot::new();
static JSON_RPC: ClassSlot = ClassSlot::new();

/// Registers the classes. They are plain, so that file, line and trace are right.
pub fn register() -> Result<()> {
    let null = Zval::new;
    public(
        Class::new("Pillion\\Exception\\PillionException"),
        "errorCode",
        Type::STRING,
        {
            // A default must not be counted, so it is an interned string.
            let mut code = Zval::new();
            code.set_interned_string(ErrorCode::InternalError.as_str(), true)?;
            code
        },
    )
    .extends(runtime_exception())
    .register(&PILLION)?;
    child("Pillion\\Exception\\InvalidInputException").register(&INVALID_INPUT)?;
    child("Pillion\\Exception\\NotFoundException").register(&NOT_FOUND)?;
    child("Pillion\\Exception\\TimeoutException").register(&TIMEOUT)?;
    let unavailable = child("Pillion\\Exception\\UnavailableException");
    public(unavailable, "retryAfter", Type::FLOAT.nullable(), null()).register(&UNAVAILABLE)?;
    let limited = child("Pillion\\Exception\\RateLimitedException");
    public(limited, "retryAfter", Type::FLOAT.nullable(), null()).register(&RATE_LIMITED)?;
    let transport = child("Pillion\\Exception\\TransportException");
    public(transport, "httpStatus", Type::INT.nullable(), null()).register(&TRANSPORT)?;
    let rpc = public(
        child("Pillion\\Exception\\JsonRpcException"),
        "rpcCode",
        Type::INT,
        minus_one(),
    );
    public(rpc, "data", Type::MIXED, null()).register(&JSON_RPC)
}

fn child(name: &'static str) -> Class {
    Class::new(name).extends(PILLION.get())
}

fn public(class: Class, name: &'static str, kind: Type, default: Zval) -> Class {
    class.property(Property::new(PropertyFlags::Public, name, kind, default))
}

/// The code of a JSON-RPC error that has none (E3).
fn minus_one() -> Zval {
    let mut code = Zval::new();
    code.set_long(-1);
    code
}

/// The input is wrong; sending it again cannot help.
pub fn invalid_input(message: impl Into<String>) -> Failure {
    of_code(ErrorCode::InvalidInput, message)
}

/// The failure that fits an error code.
pub fn of_code(code: ErrorCode, message: impl Into<String>) -> Failure {
    let class = match code {
        ErrorCode::InvalidInput => &INVALID_INPUT,
        ErrorCode::NotFound => &NOT_FOUND,
        ErrorCode::RateLimited => &RATE_LIMITED,
        ErrorCode::Timeout => &TIMEOUT,
        ErrorCode::Unavailable => &UNAVAILABLE,
        _ => &PILLION,
    };
    Failure::Thrown(Box::new(thrown(class.get(), code, message.into())))
}

fn thrown(class: &'static ClassEntry, code: ErrorCode, message: String) -> Thrown {
    Thrown {
        class,
        message,
        code: 0,
        properties: vec![("errorCode", string_of(code.as_str()))],
    }
}
