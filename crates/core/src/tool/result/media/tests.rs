use proptest::prelude::*;
use serde_json::json;

use super::super::reading;
use super::*;

fn media(media_type: &'static str, data: &'static str) -> Media<'static> {
    Media {
        kind: "image",
        uri: None,
        media_type,
        data,
    }
}

#[test]
fn e10_every_kind_of_block_is_text_or_a_marker() {
    let png = "iVBORw0KGgo=";
    for (block, expected) in [
        (
            json!({"type": "image", "data": png, "mimeType": "image/png"}),
            "[image image/png, 8 bytes]",
        ),
        (
            json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
            "[audio audio/wav, 3 bytes]",
        ),
        (
            json!({"type": "image", "data": "AA\nAA"}),
            "[image application/octet-stream, 3 bytes]",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "Hi"}}),
            "[resource file:///a]\nHi",
        ),
        (
            json!({"type": "resource", "resource": {"uri": "file:///a", "mimeType": "application/zip", "blob": "AAAA"}}),
            "[resource file:///a application/zip, 3 bytes]",
        ),
        (
            json!({"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/csv", "size": 7, "description": "All sales"}),
            "[resource link file:///a a, text/csv, 7 bytes]\nAll sales",
        ),
    ] {
        let text = json!({"type": "text", "text": "Done."});
        let result = json!({"content": [text, block, {"type": "hologram", "depth": 3}]});
        let expected = format!("Done.\n{expected}\n{{\"type\":\"hologram\",\"depth\":3}}");
        assert_eq!(*reading::extract_reading(&result), expected.as_str());
    }
}

#[test]
fn e10_structured_content_is_read_beside_blocks_without_text() {
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let result = json!({"content": [image], "structuredContent": {"total": 15}});
    let expected = "[image image/png, 3 bytes]\n{\"total\":15}";
    assert_eq!(*reading::extract_reading(&result), expected);
}

/// A tool may return data in its own format.
#[test]
fn e10_encoded_data_of_any_form_are_never_text() {
    let data = "QUJD".repeat(1_000);
    let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
    for result in [
        json!({"content": [image], "sources": ["a"]}),
        json!([image]),
        json!({"screenshot": image}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        json!({"inlineData": {"mimeType": "image/png", "data": data}}),
        json!({"content": [{"type": "resource", "resource": {"mimeType": "a/b", "blob": data}}]}),
        json!({"content": [{"type": "image", "data": 7}, {"type": "new", "blob": data, "mimeType": "a/b"}]}),
        json!({"content": [{"type": "resource_link", "uri": format!("data:image/png;base64,{data}")}]}),
        json!({"content": [image], "structuredContent": {"shot": image}}),
    ] {
        let text = reading::extract_reading(&result).to_string();
        let is_short = text.len() < 700;
        assert!(is_short || !text.contains("QUJDQUJDQUJDQUJD"), "{text}");
        assert!(text.len() < 1_000, "{text}");
    }
    for text in [
        json!({"data": data}),
        json!({"mimeType": "image/png", "data": "AAAA"}),
    ] {
        assert_eq!(*reading::extract_reading(&text), text);
    }
}

#[test]
fn e10_the_media_type_is_that_of_the_data() {
    for (declared, data, expected) in [
        ("image/png", "iVBORw0KGgo=", "image/png"),
        ("image/png", "/9j/AAAA", "image/jpeg"),
        ("image/JPG; q=1", "AAAA", "image/jpeg"),
        ("application/octet-stream", "JVBERi0x", "application/pdf"),
        ("audio/wav", "UklGRg==", "audio/wav"),
    ] {
        assert_eq!(media(declared, data).media_type(), expected);
    }
}

#[test]
fn e10_base64_is_padded_and_anything_else_is_rejected() {
    for (data, expected) in [
        ("AAAA", Some("AAAA")),
        ("AA==", Some("AA==")),
        ("AA", Some("AA==")),
        ("AA=", Some("AA==")),
        ("AAA\r\n A", Some("AAAA")),
        ("", None),
        ("A", None),
        ("AAAA====", None),
        ("A=AA", None),
        ("AA_-", None),
        ("!!!!", None),
    ] {
        let base64 = media("image/png", data).base64();
        assert_eq!(base64.as_deref(), expected, "{data}");
    }
}

proptest! {
    #[test]
    fn e10_a_marker_is_short_and_one_line(uri in "\\PC{0,2000}", media_type in ".{0,2000}") {
        let media = Media { kind: "resource", uri: Some(&uri), media_type: &media_type, data: "AAAA" };
        let marker = media.marker();
        prop_assert!(marker.len() < 1_200);
        prop_assert!(!marker.contains('\n'));
    }
}
