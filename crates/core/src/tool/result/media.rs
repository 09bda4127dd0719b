//! The content blocks of MCP results that are not text.

use std::borrow::Cow;

use serde_json::Value;

use crate::truncated;

/// Maximum length of a URI, a name or a media type in a marker, in bytes. The length is limited
/// because a URI may contain encoded data.
const MAX_SHOWN_BYTES: usize = 512;

/// Minimum length, in characters, of a member outside a content block that is regarded as encoded
/// data.
const MIN_DATA_CHARS: usize = 256;

/// The names of members that contain encoded data, in objects that also have a media type.
const DATA_MEMBERS: [&str; 2] = ["data", "blob"];

/// File signatures (magic numbers) in Base64, each with the media type of the file.
const MAGIC_NUMBERS: [(&str, &str); 4] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("JVBERi0", "application/pdf"),
];

/// A part of an MCP result, as a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPart<'a> {
    /// Text, such as the text of a block, or the description of a resource link.
    Text(Cow<'a, str>),
    /// An image, audio, or an embedded resource whose contents are not text.
    Media(Media<'a>),
}

/// An image, audio or a file in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media<'a> {
    /// The kind of media: `image`, `audio` or `resource`.
    kind: &'a str,
    uri: Option<&'a str>,
    media_type: &'a str,
    /// The data in Base64, as the server has sent them.
    data: &'a str,
}

impl<'a> Media<'a> {
    fn read(value: &'a Value, kind: &'a str, data_member: &str) -> Option<Self> {
        let media_type = value.get("mimeType").and_then(Value::as_str);
        Some(Self {
            kind,
            uri: value.get("uri").and_then(Value::as_str),
            media_type: media_type.unwrap_or("application/octet-stream"),
            data: value.get(data_member)?.as_str()?,
        })
    }

    /// Returns the marker: the text that replaces the data.
    #[must_use]
    pub fn marker(&self) -> String {
        let uri = self.uri.map(|uri| format!(" {}", to_line(uri)));
        format!(
            "[{}{} {}, {} bytes]",
            self.kind,
            uri.unwrap_or_default(),
            to_line(self.media_type),
            decoded_len(self.data)
        )
    }

    /// Returns the media type in the form that providers expect. If the beginning of the data
    /// identifies the format, returns the media type of that format, because providers reject an
    /// image whose declared media type is that of another format.
    #[must_use]
    pub fn media_type(&self) -> String {
        let mut formats = MAGIC_NUMBERS.iter();
        let detected_format = formats.find(|(start, _)| self.data.starts_with(start));
        if let Some((_, media_type)) = detected_format {
            return (*media_type).to_owned();
        }
        let declared_type = self.media_type.split(';').next().unwrap_or_default();
        match declared_type.trim().to_ascii_lowercase().as_str() {
            "image/jpg" => "image/jpeg".to_owned(),
            declared_type => declared_type.to_owned(),
        }
    }

    /// Returns the data as Base64 with padding and without white space; `None` if the data are not
    /// Base64.
    #[must_use]
    pub fn base64(&self) -> Option<Cow<'a, str>> {
        let mut data = Cow::Borrowed(self.data);
        if data.bytes().any(|byte| byte.is_ascii_whitespace()) {
            let parts = data.split_ascii_whitespace();
            data = Cow::Owned(parts.collect());
        }
        let digits = data.trim_end_matches('=');
        let padding = data.len() - digits.len();
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let is_base64 = !digits.is_empty() && digits.len() % 4 != 1 && digits.bytes().all(is_digit);
        if !is_base64 || padding > 2 {
            return None;
        }
        let len = digits.len();
        let is_padded = (len + padding).is_multiple_of(4);
        Some(if is_padded {
            data
        } else {
            format!("{digits:=<width$}", width = len.next_multiple_of(4)).into()
        })
    }
}

/// Returns the parts of the content of an MCP result; `None` if no block is an image, audio, an
/// embedded resource or a resource link.
pub(super) fn parse_parts<'a>(
    blocks: &'a [Value],
    structured_content: Option<&'a Value>,
) -> Option<Vec<ResultPart<'a>>> {
    let is_text = |block: &Value| super::reading::block_text(block).is_some();
    // Results that contain only text, which are the most frequent, are recognized first.
    if blocks.iter().all(is_text) {
        return None;
    }
    let mut parts: Vec<_> = blocks.iter().map(parse_part).collect();
    if parts.iter().all(Option::is_none) {
        return None;
    }
    for (part, block) in parts.iter_mut().zip(blocks) {
        // The block is text, or has a type that this version of Pillion does not know.
        part.get_or_insert_with(|| {
            ResultPart::Text(match super::reading::block_text(block) {
                Some(text) => text.into(),
                None => replace_data(block).to_string().into(),
            })
        });
    }
    if let (false, Some(content)) = (blocks.iter().any(is_text), structured_content) {
        let text = replace_data(content).to_string();
        parts.push(Some(ResultPart::Text(text.into())));
    }
    Some(parts.into_iter().flatten().collect())
}

/// Converts an image, audio, an embedded resource or a resource link to a part of the result;
/// `None` for any other block.
fn parse_part(block: &Value) -> Option<ResultPart<'_>> {
    match block.get("type")?.as_str()? {
        "image" => Media::read(block, "image", "data").map(ResultPart::Media),
        "audio" => Media::read(block, "audio", "data").map(ResultPart::Media),
        "resource" => {
            let resource = block.get("resource")?;
            let uri = resource.get("uri")?.as_str()?;
            match resource.get("text").and_then(Value::as_str) {
                Some(text) => {
                    let text = format!("[resource {}]\n{text}", to_line(uri));
                    Some(ResultPart::Text(text.into()))
                }
                None => Media::read(resource, "resource", "blob").map(ResultPart::Media),
            }
        }
        "resource_link" => link_text(block).map(|text| ResultPart::Text(text.into())),
        _ => None,
    }
}

fn link_text(block: &Value) -> Option<String> {
    let text = |key: &str| block.get(key).and_then(Value::as_str).map(to_line);
    let mut line = format!("[resource link {}", text("uri")?);
    if let Some(name) = text("title").or_else(|| text("name")) {
        line += &format!(" {name}");
    }
    if let Some(media_type) = text("mimeType") {
        line += &format!(", {media_type}");
    }
    if let Some(bytes) = block.get("size").and_then(Value::as_u64) {
        line += &format!(", {bytes} bytes");
    }
    line.push(']');
    if let Some(description) = block.get("description").and_then(Value::as_str) {
        line += &format!("\n{description}");
    }
    Some(line)
}

/// Returns the value with a marker in place of each encoded image, audio or file.
pub(super) fn replace_data(value: &Value) -> Cow<'_, Value> {
    if !has_data(value) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    put_markers(&mut value);
    Cow::Owned(value)
}

fn has_data(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_data),
        Value::Object(members) => data_member(value).is_some() || members.values().any(has_data),
        _ => false,
    }
}

fn put_markers(value: &mut Value) {
    while let Some((member, marker)) = data_member(value) {
        value[member] = Value::String(marker);
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(put_markers),
        Value::Object(members) => members.values_mut().for_each(put_markers),
        _ => {}
    }
}

/// Returns the member of an object that holds encoded data, and a marker for the data.
fn data_member(value: &Value) -> Option<(&'static str, String)> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let type_members = ["mimeType", "mime_type", "media_type"].into_iter();
    let declared_type = type_members.filter_map(text).next();
    let kind = text("type").filter(|kind| matches!(*kind, "image" | "audio"));
    declared_type.or(kind)?;
    let mut members = DATA_MEMBERS.into_iter();
    members.find_map(|member| {
        let media = Media {
            kind: kind.unwrap_or("file"),
            uri: None,
            media_type: declared_type.unwrap_or("application/octet-stream"),
            data: text(member)?,
        };
        let is_data = media.data.len() >= MIN_DATA_CHARS && media.base64().is_some();
        is_data.then(|| (member, media.marker()))
    })
}

/// Returns a server's text on one line, truncated if it is too long.
fn to_line(text: &str) -> Cow<'_, str> {
    let start = truncated(text, MAX_SHOWN_BYTES);
    if start.len() == text.len() && !start.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = start.replace(char::is_control, " ");
    if start.len() < text.len() {
        line.push_str("...");
    }
    Cow::Owned(line)
}

/// Returns the size of data in Base64, in bytes.
fn decoded_len(base64: &str) -> usize {
    let is_digit = |byte: &u8| !byte.is_ascii_whitespace() && *byte != b'=';
    base64.bytes().filter(is_digit).count() * 3 / 4
}

#[cfg(test)]
mod tests;
