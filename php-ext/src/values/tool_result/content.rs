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
    MethodCall, Object, Outcome, Result, entries, member, new_array, new_list, new_string,
    run_guarded,
};

/// A base64 decoder that accepts data with and without padding, because some servers omit the
/// padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The key of an MCP result's structured content.
const STRUCTURED_CONTENT: &str = "structuredContent";

fn property(this: Object<'_>, name: &str) -> Outcome {
    this.get(CLASS.get(), name)
}

/// Returns the blocks of a result in MCP form: an array whose `content` is a list of blocks, each
/// with a `type`. Returns `None` for any other result, even if the result has a `content` of
/// another form.
fn find_blocks(result: &Zval) -> Option<Vec<Zval>> {
    let Some(content) = member(result, "content") else {
        // The key `structuredContent` marks an MCP result, because no other result has it.
        return member(result, STRUCTURED_CONTENT).map(|_| Vec::new());
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

/// Returns a member of a block; `None` if the member is not text.
fn text_member(block: &Zval, key: &str) -> Option<Zval> {
    member(block, key).filter(|text| text.str().is_some())
}

fn has_text(block: &Zval, key: &str, text: &str) -> bool {
    member(block, key).is_some_and(|member| member.str() == Some(text))
}

pub(super) fn is_error(call: &mut MethodCall<'_>) -> Outcome {
    let success_value = property(call.this(), "success")?;
    Ok(crate::zend::new_bool(success_value.bool() != Some(true)))
}

pub(super) fn content(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if find_blocks(&result).is_some() {
        return Ok(member(&result, "content").unwrap_or_else(|| new_list([])));
    }
    let text = unstructured_text(this, &result)?;
    Ok(new_list(text.map(|text| {
        new_array([("type", new_string("text")), ("text", text)])
    })))
}

pub(super) fn text(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    let Some(blocks) = find_blocks(&result) else {
        return Ok(unstructured_text(this, &result)?.unwrap_or_else(|| new_string("")));
    };
    let texts: Vec<_> = blocks
        .iter()
        .filter(|block| has_text(block, "type", "text"))
        .filter_map(|block| text_member(block, "text")?.string())
        .collect();
    let structured_content = member(&result, STRUCTURED_CONTENT);
    match structured_content.filter(|content| texts.is_empty() && !content.is_null()) {
        Some(content) => Ok(new_string(to_value(&content)?.to_string())),
        None => Ok(new_string(texts.join("\n"))),
    }
}

/// Returns the text of a result that is not in MCP form: a string unchanged, any other value as
/// JSON, and the error message for a failure without a result. Returns `None` if the result is
/// empty.
fn unstructured_text(this: Object<'_>, result: &Zval) -> Result<Option<Zval>> {
    if result.is_string() {
        return Ok(Some(result.shallow_clone()));
    }
    if !result.is_null() {
        return Ok(Some(new_string(to_value(result)?.to_string())));
    }
    let error = property(this, "error")?;
    Ok(error.is_string().then_some(error))
}

pub(super) fn structured_content(call: &mut MethodCall<'_>) -> Outcome {
    let this = call.this();
    let result = property(this, "result")?;
    if find_blocks(&result).is_some() {
        return Ok(member(&result, STRUCTURED_CONTENT).unwrap_or_default());
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
    let blocks = find_blocks(&result).unwrap_or_default();
    for (index, block) in blocks.iter().enumerate() {
        let Some((mime_type, data)) = find_image(block) else {
            continue;
        };
        let bytes = data.str().and_then(decode_base64).ok_or_else(|| {
            exception::transport_failure(format!(
                "Content block {index} does not contain valid base64"
            ))
        })?;
        // The string is created in a guard, so that `bytes` is not leaked if memory is exhausted
        // and PHP's engine bails out.
        let image_data = run_guarded(|| new_string(&bytes))?;
        images.push(new_array([("mime_type", mime_type), ("data", image_data)]));
    }
    Ok(new_list(images))
}

/// Returns the media type and the base64 data of an image block, or of an image in an embedded
/// resource.
fn find_image(block: &Zval) -> Option<(Zval, Zval)> {
    match text_member(block, "type")?.str()? {
        "image" => {
            let mime_type = text_member(block, "mimeType")
                .unwrap_or_else(|| new_string("application/octet-stream"));
            Some((mime_type, text_member(block, "data")?))
        }
        "resource" => {
            let resource = member(block, "resource")?;
            let mime_type = text_member(&resource, "mimeType")?;
            let is_image = mime_type.str()?.starts_with("image/");
            is_image.then_some((mime_type, text_member(&resource, "blob")?))
        }
        _ => None,
    }
}

/// Decodes base64, which may contain line breaks.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let base64_characters: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        return BASE64.decode(base64_characters).ok();
    }
    BASE64.decode(text).ok()
}
