use pillion_core::tool::ErrorCode;
use serde_json::json;

use super::*;
use crate::{Provider, format_results};

const PNG: &str = "iVBORw0KGgo=";

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn result(content: &Value) -> ToolResult {
    ToolResult::success("c1", "shoot", json!({ "content": content }))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn e10_an_image_is_an_image_for_each_provider_that_takes_one() {
    let results = [result(&json!([text("Done."), image(PNG)]))];
    assert_eq!(
        format_results(Provider::OpenAiChat, &results),
        [
            json!({"role": "tool", "tool_call_id": "c1", "content": "Done.\n[image image/png, 8 bytes]"})
        ]
    );
    let url = format!("data:image/png;base64,{PNG}");
    assert_eq!(
        format_results(Provider::OpenAiResponses, &results),
        [
            json!({"type": "function_call_output", "call_id": "c1", "output": [
            {"type": "input_text", "text": "Done."},
            {"type": "input_image", "image_url": url}]})
        ]
    );
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    assert_eq!(
        format_results(Provider::Anthropic, &results),
        [
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [
            {"type": "text", "text": "Done."}, {"type": "image", "source": source}]}]})
        ]
    );
    assert_eq!(
        format_results(Provider::Google, &results),
        [json!({"role": "user", "parts": [
            {"functionResponse": {"name": "shoot", "id": "c1", "response": {"result": "Done.\n[image image/png, 8 bytes]"}}},
            {"text": "[Result of shoot: [image image/png, 8 bytes]]"},
            {"inlineData": {"mimeType": "image/png", "data": PNG}}]})]
    );
}

#[test]
fn e10_what_a_provider_rejects_is_a_marker() {
    let block = |kind: &str, media_type: &str, data: &str| json!({"type": kind, "data": data, "mimeType": media_type});
    let pdf = json!({"type": "resource", "resource": {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "JVBERi0x"}});
    let accepted_blocks = |provider: Provider, block: &Value| {
        let messages = format_results(provider, &[result(&json!([block]))]);
        messages
            .iter()
            .map(|message| provider.api().media_pointers(message).len())
            .sum::<usize>()
    };
    for (block, responses, anthropic, google) in [
        (block("image", "image/png", PNG), 1, 1, 1),
        (block("image", "image/gif", "R0lGODlh"), 1, 1, 0),
        (block("image", "image/heic", "AAAA"), 0, 0, 1),
        (block("image", "image/svg+xml", "AAAA"), 0, 0, 0),
        (block("image", "image/png", "not base64"), 0, 0, 0),
        (block("audio", "audio/wav", "UklGRg=="), 0, 0, 1),
        (block("audio", "audio/midi", "AAAA"), 0, 0, 0),
        (pdf, 1, 1, 1),
        (
            json!({"type": "resource", "resource": {"uri": "file:///a.zip", "mimeType": "application/zip", "blob": "AAAA"}}),
            0,
            0,
            0,
        ),
        (
            block("image", "image/png", &"A".repeat(MAX_MEDIA_ITEM_BYTES + 4)),
            0,
            0,
            0,
        ),
    ] {
        assert_eq!(accepted_blocks(Provider::OpenAiChat, &block), 0);
        assert_eq!(
            accepted_blocks(Provider::OpenAiResponses, &block),
            responses
        );
        assert_eq!(accepted_blocks(Provider::Anthropic, &block), anthropic);
        assert_eq!(accepted_blocks(Provider::Google, &block), google);
    }
}

/// Anthropic rejects a failed result with an image.
#[test]
fn e10_a_failed_result_is_text() {
    let failed = ToolResult {
        result: json!({"content": [text("no dice"), image(PNG)]}),
        ..ToolResult::failure("c1", "shoot", ErrorCode::InternalError, "boom")
    };
    for provider in Provider::ALL {
        let messages = format_results(provider, std::slice::from_ref(&failed));
        let messages_json = json!(messages).to_string();
        assert!(!messages_json.contains(PNG), "{messages_json}");
        assert!(
            messages_json.contains("[image image/png, 8 bytes]"),
            "{messages_json}"
        );
    }
}

#[test]
fn e10_a_request_has_a_limited_number_of_items() {
    let results: Vec<_> = (0..MAX_MEDIA_ITEMS + 3)
        .map(|_| result(&json!([image(PNG)])))
        .collect();
    for provider in [
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Google,
    ] {
        let messages = format_results(provider, &results);
        let media = messages
            .iter()
            .map(|message| provider.api().media_pointers(message).len());
        assert_eq!(media.sum::<usize>(), MAX_MEDIA_ITEMS, "{provider}");
        assert!(excess_result_media(provider.api(), &messages).is_empty());
        assert!(
            json!(messages)
                .to_string()
                .contains("[image image/png, 8 bytes]")
        );
    }
}

#[test]
fn e10_the_newest_items_stay_in_later_requests() {
    let large = format!("iVBORw0KGgo{}A", "A".repeat(4_000_000));
    for (provider, data, max) in [
        (Provider::OpenAiResponses, PNG, 8),
        (Provider::Anthropic, PNG, 8),
        (Provider::Google, PNG, 8),
        (Provider::Anthropic, large.as_str(), 2),
    ] {
        let mut messages = Vec::new();
        for _ in 0..10 {
            messages.push(json!({"role": "user", "content": "More."}));
            messages.extend(format_results(provider, &[result(&json!([image(data)]))]));
        }
        let excess = excess_result_media(provider.api(), &messages);
        assert_eq!(excess.len(), 10 - max, "{provider}");
        assert!(
            excess
                .iter()
                .map(|(index, _)| *index)
                .eq((0..10 - max).map(|turn| 2 * turn + 1))
        );
        for (index, pointer) in excess {
            let part = messages[index].pointer_mut(&pointer).unwrap();
            *part = provider.api().text_part("left out");
        }
        assert!(
            excess_result_media(provider.api(), &messages).is_empty(),
            "{provider}"
        );
    }
}

/// Images that the user has sent are not counted as images of results.
#[test]
fn e10_images_of_the_user_do_not_count() {
    let data = json!({"inlineData": {"mimeType": "image/png", "data": PNG}});
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    for (provider, message) in [
        (
            Provider::Google,
            json!({"role": "user", "parts": [{"text": "Look"}, data]}),
        ),
        (
            Provider::Anthropic,
            json!({"role": "user", "content": [{"type": "image", "source": source}]}),
        ),
        (
            Provider::OpenAiResponses,
            json!({"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}),
        ),
        (
            Provider::OpenAiChat,
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
        ),
    ] {
        assert!(
            provider.api().media_pointers(&message).is_empty(),
            "{provider}"
        );
    }
}
