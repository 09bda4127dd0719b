//! Reads a tool's result as MCP content blocks and as text.
//!
//! The result of an MCP tool is the unmodified JSON-RPC result, so it has the blocks that the
//! server sent, including unknown fields. Any other result is read as one text block.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ext_php_rs::types::Zval;

use super::CLASS;
use crate::exception;
use crate::json::to_value;
use crate::zend::{
    Failure, MethodCall, Object, Outcome, array_of, entries, list_of, member, run_guarded,
    string_of,
};

/// Decodes base64 with and without padding, because servers differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key of an MCP result's structured content.
const STRUCTURED: &str = "structuredContent";

fn property(this: Object<'_>, name: &str) -> Outcome {
    this.get(CLASS.get(), name)
}

/// Returns the blocks of a result in MCP form: an array whose `content` is a list of blocks, each
/// with a `type`. Returns `None` for any other result, even if it has its own `content`.
fn blocks_of(result: &Zval) -> Option<Vec<Zval>> {
    let Some(content) = member(result, "content") else {
        // Only MCP results have the key `structuredContent`.
        return member(result, STRUCTURED).map(|_| Vec::new());
    };
    if !content.is_array() {
        return None;
    }
    entries(&content)
        .zip(0..)
        .map(|((key, block), index)| {
            let has_type = member(&block, "type")?.is_string();
            (has_type && key.long() == Some(index)).then_some(block)
        })
        .collect()
}

/// Returns a member of a block if it is text.
fn text_in(block: &Zval, key: &str) -> Option<Zval> {
    member(block, key).filter(|text| text.str().is_some())
}

fn is_text(block: &Zval, key: &str, text: &str) -> bool {
    member(block, key).is_some_and(|member| member.str() == Some(text))
}

pub(super) fn is_error(call: &mut MethodCall<'_>) -> Outcome {
    let success = property(call.this(), "success")?;
    Ok(crate::zend::bool_of(success.bool() != Some(true)))
}

pub(super) fn content(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if blocks_of(&result).is_some() {
        return Ok(member(&result, "content").unwrap_or_else(|| list_of([])));
    }
    let text = unstructured_text(this, &result)?;
    Ok(list_of(text.map(|text| {
        array_of([("type", string_of("text")), ("text", text)])
    })))
}

pub(super) fn text(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    let Some(blocks) = blocks_of(&result) else {
        return Ok(unstructured_text(this, &result)?.unwrap_or_else(|| string_of("")));
    };
    let texts: Vec<_> = blocks
        .iter()
        .filter(|block| is_text(block, "type", "text"))
        .filter_map(|block| text_in(block, "text")?.string())
        .collect();
    let structured = member(&result, STRUCTURED);
    match structured.filter(|structured| texts.is_empty() && !structured.is_null()) {
        Some(structured) => Ok(string_of(to_value(&structured)?.to_string())),
        None => Ok(string_of(texts.join("\n"))),
    }
}

/// Returns the text of a result that is not in MCP form: a string unchanged, any other value as
/// JSON, and for a failure without a result the error. Returns `None` if the result is empty.
fn unstructured_text(this: Object<'_>, result: &Zval) -> Result<Option<Zval>, Failure> {
    if result.is_string() {
        return Ok(Some(result.shallow_clone()));
    }
    if !result.is_null() {
        return Ok(Some(string_of(to_value(result)?.to_string())));
    }
    let error = property(this, "error")?;
    Ok(error.is_string().then_some(error))
}

pub(super) fn structured_content(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if blocks_of(&result).is_some() {
        return Ok(member(&result, STRUCTURED).unwrap_or_default());
    }
    let data = property(this, "data")?;
    if data.is_null() && !result.is_string() {
        return Ok(result);
    }
    Ok(data)
}

pub(super) fn images(call: &mut MethodCall<'_>) -> Outcome {
    let result = property(call.this(), "result")?;
    let mut images = Vec::new();
    for (index, block) in blocks_of(&result)
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let Some((mime_type, data)) = image_in(&block) else {
            continue;
        };
        let bytes = data.str().and_then(decoded).ok_or_else(|| {
            exception::transport(format!("Content block {index} holds no valid base64"))
        })?;
        // The guard catches the abort of the request if memory is exhausted, so that `bytes` is not
        // leaked.
        let data = run_guarded(|| string_of(&bytes))?;
        images.push(array_of([("mime_type", mime_type), ("data", data)]));
    }
    Ok(list_of(images))
}

/// Returns the media type and the base64 data of an image block, or of an image in an embedded
/// resource.
fn image_in(block: &Zval) -> Option<(Zval, Zval)> {
    match text_in(block, "type")?.str()? {
        "image" => {
            let mime_type =
                text_in(block, "mimeType").unwrap_or_else(|| string_of("application/octet-stream"));
            Some((mime_type, text_in(block, "data")?))
        }
        "resource" => {
            let resource = member(block, "resource")?;
            let mime_type = text_in(&resource, "mimeType")?;
            let is_image = mime_type.str()?.starts_with("image/");
            is_image.then_some((mime_type, text_in(&resource, "blob")?))
        }
        _ => None,
    }
}

/// Decodes base64, which may contain line breaks.
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
