use percent_encoding::percent_decode_str;
use serde_json::Value;

/// Maximum length of a reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 1_024;

/// Maximum number of references in a chain.
const MAX_CHAIN_REFERENCES: usize = 32;

/// Returns the value that a chain of `$ref`s leads to.
pub(super) fn resolve<'a>(root: &'a Value, mut value: &'a Value) -> Result<&'a Value, String> {
    for _ in 0..MAX_CHAIN_REFERENCES {
        match value.get("$ref").and_then(Value::as_str) {
            None => return Ok(value),
            Some(reference) => value = find_target(root, reference)?,
        }
    }
    Err(format!(
        "references form a cycle, or a chain of more than {MAX_CHAIN_REFERENCES} references"
    ))
}

/// Returns the target of a reference within the document.
pub(super) fn find_target<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, String> {
    if reference.len() > MAX_REFERENCE_BYTES {
        return Err(format!(
            "a reference has {} bytes; the limit is {MAX_REFERENCE_BYTES}",
            reference.len()
        ));
    }
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(format!(
            "'{reference}' points to another document: only references within the same document \
            are supported"
        ));
    };
    let pointer = percent_decode_str(fragment).decode_utf8_lossy();
    root.pointer(&pointer).ok_or_else(|| {
        format!("the reference '{reference}' points to a missing part of the document")
    })
}
