//! What a result says, as the content blocks of MCP and as text.
//!
//! The result of an MCP tool is the JSON-RPC result unchanged, so its blocks are there as the
//! server sent them, with fields that nobody here knows. Any other result is read as one
//! block of text.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ext_php_rs::types::{ZendHashTable, Zval};

use super::CLASS;
use crate::exception;
use crate::json::to_value;
use crate::zend::{Call, Failure, Object, Outcome, array_of, entries, guarded, list_of, string_of};

/// Servers differ in whether they pad.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn property(this: Object<'_>, name: &str) -> Outcome {
    this.get(CLASS.get(), name)
}

/// The blocks of a result that has the form of MCP: an array whose `content` is a list of
/// blocks, each with a `type`. `None` for any other result, also one with `content` of its
/// own.
fn blocks_of(result: &Zval) -> Option<Vec<&ZendHashTable>> {
    let result = result.array()?;
    let Some(content) = result.get("content") else {
        // Only what MCP defines has this name.
        return result.get("structuredContent").map(|_| Vec::new());
    };
    entries(content.dereference().array()?)
        .zip(0..)
        .map(|((key, block), place)| {
            let block = block.dereference().array()?;
            block.get("type")?.dereference().zend_str()?;
            (key.long() == Some(place)).then_some(block)
        })
        .collect()
}

fn text_in<'a>(block: &'a ZendHashTable, key: &str) -> Option<&'a str> {
    block.get(key)?.dereference().str()
}

pub(super) fn is_error(call: &mut Call<'_>) -> Outcome {
    let success = property(call.this(), "success")?;
    Ok(crate::zend::bool_of(success.bool() != Some(true)))
}

pub(super) fn content(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if let Some(blocks) = blocks_of(&result) {
        if let Some(content) = result.array().and_then(|result| result.get("content")) {
            return Ok(content.dereference().shallow_clone());
        }
        debug_assert!(blocks.is_empty());
        return Ok(list_of([]));
    }
    let text = said(this, &result)?;
    Ok(list_of(text.map(|text| {
        array_of([("type", string_of("text")), ("text", text)])
    })))
}

pub(super) fn text(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    let Some(blocks) = blocks_of(&result) else {
        return Ok(said(this, &result)?.unwrap_or_else(|| string_of("")));
    };
    let texts: Vec<_> = blocks
        .into_iter()
        .filter(|block| text_in(block, "type") == Some("text"))
        .filter_map(|block| text_in(block, "text"))
        .collect();
    let structured = structured_in(&result);
    match structured.filter(|structured| texts.is_empty() && !structured.is_null()) {
        Some(structured) => Ok(string_of(to_value(structured)?.to_string())),
        None => Ok(string_of(texts.join("\n"))),
    }
}

/// What a result that is not of MCP's form says: the text, else its JSON; of a failure
/// without a result the error; `None` when it says nothing.
fn said(this: Object<'_>, result: &Zval) -> Result<Option<Zval>, Failure> {
    if result.is_string() {
        return Ok(Some(result.shallow_clone()));
    }
    if !result.is_null() {
        return Ok(Some(string_of(to_value(result)?.to_string())));
    }
    let error = property(this, "error")?;
    Ok(error.is_string().then_some(error))
}

fn structured_in(result: &Zval) -> Option<&Zval> {
    let structured = result.array()?.get("structuredContent")?;
    Some(structured.dereference())
}

pub(super) fn structured_content(call: &mut Call<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if blocks_of(&result).is_some() {
        return Ok(structured_in(&result).map_or_else(Zval::new, Zval::shallow_clone));
    }
    let data = property(this, "data")?;
    if data.is_null() && !result.is_string() {
        return Ok(result);
    }
    Ok(data)
}

pub(super) fn images(call: &mut Call<'_>) -> Outcome {
    let result = property(call.this(), "result")?;
    let mut images = Vec::new();
    for (place, block) in blocks_of(&result)
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let Some((mime_type, data)) = image_in(block) else {
            continue;
        };
        let data = decoded(data).ok_or_else(|| {
            exception::transport(format!("Content block {place} holds no valid base64"))
        })?;
        // The engine may give up the request for want of memory, and must not leak `data`.
        let data = guarded(|| string_of(&data))?;
        images.push(array_of([
            ("mime_type", string_of(mime_type)),
            ("data", data),
        ]));
    }
    Ok(list_of(images))
}

/// The type and the base64 of an image, as a block or as a resource inside one.
fn image_in(block: &ZendHashTable) -> Option<(&str, &str)> {
    match text_in(block, "type")? {
        "image" => {
            let mime_type = text_in(block, "mimeType").unwrap_or("application/octet-stream");
            Some((mime_type, text_in(block, "data")?))
        }
        "resource" => {
            let resource = block.get("resource")?.dereference().array()?;
            let mime_type = text_in(resource, "mimeType")?;
            let is_image = mime_type.starts_with("image/");
            is_image.then_some((mime_type, text_in(resource, "blob")?))
        }
        _ => None,
    }
}

/// Base64 may be broken into lines.
fn decoded(text: &str) -> Option<Vec<u8>> {
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let whole: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        return BASE64.decode(whole).ok();
    }
    BASE64.decode(text).ok()
}
