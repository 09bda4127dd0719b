//! Tests for what the parsers of all providers have in common.

use serde_json::{Value, json};

use crate::tests::fixtures::{cases, event, read_stream};
use crate::{ModelErrorKind, Provider, assistant_messages, assistant_text, parse_tool_calls};

#[test]
fn a6_a_malformed_body_names_the_path() {
    for (provider, case) in cases(include_str!("../../tests/corpus/malformed.jsonl")) {
        let fault = case["fault"].as_str().unwrap();
        let expected = format!("Malformed response of the provider '{provider}': {fault}");
        let error = parse_tool_calls(provider, &case["body"]).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = assistant_messages(provider, &case["body"]).unwrap_err();
        assert_eq!(error.to_string(), expected);
        if provider != Provider::OpenAiChat {
            let error = provider
                .api()
                .parse_response(case["body"].clone())
                .unwrap_err();
            assert_eq!(error.message, expected);
        }
    }
}

#[test]
fn a6_an_error_of_the_provider_is_reported() {
    for provider in Provider::ALL {
        for error in [json!("Overloaded"), json!({"message": "Overloaded"})] {
            let body = json!({"status": "failed", "output": [], "error": error});
            for error in [
                parse_tool_calls(provider, &body).unwrap_err(),
                assistant_text(provider, &body).unwrap_err(),
            ] {
                assert_eq!(
                    error.to_string(),
                    format!("The provider '{provider}' reported an error: Overloaded")
                );
            }
        }
    }
}

#[test]
fn h4_failures_have_a_kind_and_no_key() {
    for (provider, case) in cases(include_str!("../../tests/corpus/failures.jsonl")) {
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let body = match &case["body"] {
            Value::String(text) => text.clone(),
            body => body.to_string(),
        };
        let error = provider.api().failure(status, body.as_bytes());
        let message = case["message"].as_str().unwrap();
        assert_eq!(
            error.message,
            format!("The provider '{provider}' {message}")
        );
        assert_eq!(format!("{:?}", error.kind), case["kind"], "{case}");
        assert_eq!(error.status, Some(status));
    }
}

/// The error is in a whole response or in a stream.
#[test]
fn h4_an_error_in_a_response_of_status_200_is_an_error() {
    let error = json!({"code": "server_error", "message": "Try again"});
    let failed = json!({"status": "failed", "error": error, "output": []});
    let overloaded = json!({"type": "overloaded_error", "message": "Try again"});
    let overloaded = json!({"type": "error", "error": overloaded});
    let start = json!({"type": "message_start", "message": {"content": []}});
    let unavailable = json!({"code": 503, "status": "UNAVAILABLE", "message": "Try again"});
    let unavailable = json!({ "error": unavailable });
    let unavailable_error = json!({"code": 502, "message": "Try again"});
    let partial_response = json!({"choices": [{"index": 0, "delta": {"content": "hel"}}]});
    let broken = json!({"choices": [{"message": {"content": "hel"}, "error": unavailable_error}]});
    let responses = |event: Value| (Provider::OpenAiResponses, vec![event]);
    let streams = [
        (Provider::OpenAiChat, vec![partial_response, broken.clone()]),
        responses(json!({"type": "response.failed", "response": failed})),
        responses(json!({"type": "error", "code": "server_error", "message": "Try again"})),
        responses(json!({"type": "error", "error": error})),
        responses(json!({ "error": error })),
        (Provider::Anthropic, vec![start, overloaded.clone()]),
        (Provider::Google, vec![unavailable.clone()]),
    ];
    let streamed = streams.map(|(provider, events)| {
        let events: Vec<_> = events.iter().map(event).collect();
        (provider, read_stream(provider.api(), &events).unwrap_err())
    });
    let bodies = Provider::ALL
        .into_iter()
        .zip([broken, failed, overloaded, unavailable]);
    let whole =
        bodies.map(|(provider, body)| (provider, provider.api().parse_response(body).unwrap_err()));
    for (provider, error) in whole.chain(streamed) {
        let message = format!("The provider '{provider}' is temporarily unavailable: Try again");
        assert_eq!(error.message, message);
        assert_eq!(error.kind, ModelErrorKind::Unavailable);
    }
}
