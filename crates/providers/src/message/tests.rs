use serde_json::{Value, json};

use crate::anthropic::Anthropic;
use crate::{ModelErrorKind, Provider, ProviderApi};

#[test]
fn h1_invalid_messages_are_rejected_with_their_path() {
    let image = |url: &str| {
        json!([{"role": "user", "content": [
            {"type": "text", "text": "x"},
            {"type": "image_url", "image_url": {"url": url}},
        ]}])
    };
    let invalid_data_url =
        "messages[0].content[1].image_url.url must be a base64 data URL of an image";
    let call = |call: Value| json!([{"role": "assistant", "tool_calls": [call]}]);
    for (messages, words) in [
        (json!([]), "messages is empty"),
        (json!(["hi"]), "messages[0] is a string, expected an object"),
        (json!([{"content": "x"}]), "messages[0].role is missing"),
        (
            json!([{"role": "user", "content": "x"}, {"role": "function", "content": "x"}]),
            "messages[1].role must be one of system, developer, user, assistant and tool",
        ),
        (
            json!([{"role": "user", "content": 5}]),
            "messages[0].content is a number, expected a string or an array",
        ),
        (
            json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
            "messages[0].content[0].type must be one of text, image_url and refusal",
        ),
        (
            json!([{"role": "user", "content": [{"type": "text", "text": null}]}]),
            "messages[0].content[0].text is missing",
        ),
        (
            image("ftp://host/x.png"),
            "messages[0].content[1].image_url.url must be a data, http or https URL",
        ),
        (image("data:image/png,abc"), invalid_data_url),
        (image("data:text/html;base64,abcd"), invalid_data_url),
        (image("data:image/png;base64,a b"), invalid_data_url),
        (
            json!([{"role": "system", "content": image("https://h/x.png")[0]["content"]}]),
            "messages[0] must have text only, because its role is system",
        ),
        (
            json!([{"role": "assistant", "content": image("https://h/x.png")[0]["content"]}]),
            "messages[0] must have text only, because its role is assistant",
        ),
        (
            json!([{"role": "assistant", "function_call": {"name": "x"}}]),
            "messages[0] has a function_call, which is not supported: use tool_calls",
        ),
        (
            call(json!({"id": "1", "type": "custom", "custom": {}})),
            "messages[0].tool_calls[0].type must be 'function'",
        ),
        (
            call(json!({"id": "1", "function": {}})),
            "messages[0].tool_calls[0].function.name is missing",
        ),
        (
            call(json!({"function": {"name": "x"}})),
            "messages[0].tool_calls[0].id is missing",
        ),
        (
            json!([{"role": "tool", "tool_call_id": "1", "content": "x"}]),
            "messages[0].tool_call_id names no tool call of an earlier message",
        ),
        (
            json!([{"role": "system", "content": "x"}, {"role": "user", "content": ""}]),
            "messages has no user or assistant message",
        ),
    ] {
        // For Chat Completions, the messages are in the provider's format already and stay
        // unchanged.
        for provider in Provider::ALL.into_iter().skip(1) {
            let messages = messages.as_array().unwrap();
            let error = provider.api().conversation(messages).unwrap_err();
            assert_eq!(
                (error.kind, error.message.as_str()),
                (ModelErrorKind::Rejected, words)
            );
        }
    }
}

/// Browsers and PHP write data URLs in different forms.
#[test]
fn h1_all_forms_of_data_urls_are_read() {
    for url in [
        "data:image/PNG;base64,aGk=",
        "DATA:image/png;name=x.png;Base64,aGk=",
    ] {
        let messages = [json!({"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": url}}]})];
        let conversation = Anthropic.conversation(&messages).unwrap();
        assert_eq!(
            conversation.messages[0]["content"][0]["source"],
            json!({"type": "base64", "media_type": "image/png", "data": "aGk="})
        );
    }
}
