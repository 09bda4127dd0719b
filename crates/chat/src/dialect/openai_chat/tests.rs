use std::sync::Arc;
use std::time::Instant;

use pillion_core::provider::{assistant_messages, parse_tool_calls};
use pillion_core::tool::ToolDefinition;
use pillion_sse::SseDecoder;
use proptest::prelude::*;

use super::*;
use crate::{Delta, TurnOptions};

fn dialect() -> OpenAiChat {
    OpenAiChat::at(&"http://127.0.0.1:11434/v1".parse().unwrap())
}

/// Reads a stream that arrives in these pieces.
fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<TurnAnswer, ModelError>, Vec<Delta>) {
    let mut decoder = SseDecoder::new(1 << 20);
    let mut stream = dialect().stream();
    let mut deltas = Vec::new();
    for piece in pieces {
        decoder.feed(piece).unwrap();
        while let Some(event) = decoder.next_event() {
            if let Err(error) = stream.push(&event, &mut deltas) {
                return (Err(error), deltas);
            }
        }
    }
    (stream.finish(), deltas)
}

fn events(data: &[Value]) -> String {
    data.iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect()
}

/// Returns the answer and deltas of a complete stream with these deltas.
fn streamed(deltas: &[Value]) -> (TurnAnswer, Vec<Delta>) {
    let chunk = |delta: &Value| json!({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
    let mut chunks: Vec<_> = deltas.iter().map(chunk).collect();
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    let text = events(&chunks) + "data: [DONE]\n\n";
    let (answer, deltas) = read([text.as_bytes()]);
    (answer.unwrap(), deltas)
}

fn calls(answer: &TurnAnswer) -> Vec<(String, String, String)> {
    let calls = parse_tool_calls(Provider::OpenAiChat, &answer.body).unwrap();
    let calls = calls.into_iter().map(|call| {
        let arguments = call.arguments_text();
        (call.id, call.name, arguments)
    });
    calls.collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn h1_a_request_has_tools_options_and_extra() {
    let ping = ToolDefinition::builder("ping", "Says pong")
        .build()
        .unwrap();
    let messages = [json!({"role": "user", "content": "Ping?", "name": "ada"})];
    let conversation = dialect().conversation(&messages).unwrap();
    let options = TurnOptions {
        tool_choice: None,
        one_call_at_a_time: false,
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_output_tokens: Some(100),
        stop: vec!["END".to_owned()],
        extra: json!({"seed": 7, "temperature": 0.1})
            .as_object()
            .unwrap()
            .clone(),
    };
    let tools = [Arc::new(ping.clone())];
    let turn = ModelTurn {
        conversation: &conversation,
        tools: &tools,
        options: &options,
        stream: true,
        deadline: Instant::now(),
    };
    let expected = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "Ping?", "name": "ada"}],
        "tools": [ping.to_schema()],
        "temperature": 0.1,
        "top_p": 0.9,
        "max_tokens": 100,
        "stop": ["END"],
        "stream_options": {"include_usage": true},
        "seed": 7,
        "stream": true,
    });
    assert_eq!(dialect().body("m", &turn), expected);
}

#[test]
fn h4_a_request_without_tools_has_no_tool_members() {
    let conversation = ProviderConversation::default();
    let options = TurnOptions {
        max_output_tokens: Some(5),
        extra: json!({"tool_choice": "auto", "parallel_tool_calls": false})
            .as_object()
            .unwrap()
            .clone(),
        ..TurnOptions::default()
    };
    let turn = ModelTurn {
        conversation: &conversation,
        tools: &[],
        options: &options,
        stream: false,
        deadline: Instant::now(),
    };
    let own = OpenAiChat::at(&"https://api.openai.com/v1".parse().unwrap());
    assert_eq!(
        own.body("m", &turn),
        json!({"model": "m", "messages": [], "max_completion_tokens": 5, "stream": false})
    );
}

#[test]
fn h4_openai_and_azure_are_known_by_their_hosts() {
    for (base_url, longest_answer) in [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        (
            "https://me.openai.azure.com/openai/v1",
            "max_completion_tokens",
        ),
        (
            "https://me.services.ai.azure.com/openai/v1",
            "max_completion_tokens",
        ),
        (
            "https://me.cognitiveservices.azure.com/openai/v1",
            "max_completion_tokens",
        ),
        ("https://notapi.openai.com.example/v1", "max_tokens"),
        ("https://api.mistral.ai/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ] {
        let dialect = OpenAiChat::at(&base_url.parse().unwrap());
        assert_eq!(dialect.longest_answer, longest_answer, "{base_url}");
    }
}

#[test]
fn h4_a_message_without_role_is_rejected_with_its_path() {
    let error = dialect()
        .conversation(&[json!({"role": "user"}), json!("hello")])
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert_eq!(error.message, "messages[1] must be an object with a role");
}

#[test]
fn h6_pieces_of_calls_are_joined_by_index() {
    let (answer, deltas) = streamed(&[
        json!({"role": "assistant", "content": null}),
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "roll", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "time", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"dice\":"}}, {"index": 1, "function": {"arguments": "{\"tz\""}}]}),
        json!({"tool_calls": [{"index": 1, "function": {"arguments": ":\"UTC\"}"}}, {"index": 0, "function": {"arguments": "\"2d6\"}"}}]}),
    ]);
    let expected = [
        call("a", "roll", "{\"dice\":\"2d6\"}"),
        call("b", "time", "{\"tz\":\"UTC\"}"),
    ];
    assert_eq!(calls(&answer), expected);
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(
        deltas[0],
        Delta::ToolCall {
            index: 0,
            id: Some("a".into()),
            name: Some("roll".into()),
            arguments: String::new()
        }
    );
    assert_eq!(
        deltas.last(),
        Some(&Delta::ToolCall {
            index: 0,
            id: None,
            name: None,
            arguments: "\"2d6\"}".into()
        })
    );
}

#[test]
fn h6_a_streamed_call_reports_its_id_and_name_once() {
    let (answer, deltas) = streamed(&[
        json!({"tool_calls": [{"index": 0, "function": {"name": "roll", "arguments": "{\"a\""}}]}),
        json!({"tool_calls": [{"index": 0, "id": "late", "function": {"name": "roll", "arguments": ":1}"}}]}),
    ]);
    assert_eq!(calls(&answer), [call("call_c1_0", "roll", "{\"a\":1}")]);
    let piece = |id: Option<&str>, name: Option<&str>, arguments: &str| Delta::ToolCall {
        index: 0,
        id: id.map(str::to_owned),
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    };
    let expected = [
        piece(Some("call_c1_0"), Some("roll"), "{\"a\""),
        piece(None, None, ":1}"),
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn h6_compatible_servers_may_omit_indexes_and_ids() {
    // Complete calls, each in its own chunk, that differ only in their names.
    let (answer, _) = streamed(&[
        json!({"tool_calls": [{"function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"function": {"name": "roll", "arguments": {"dice": "1d4"}}}]}),
    ]);
    assert_eq!(
        calls(&answer),
        [
            call("call_c1_0", "roll", "{}"),
            call("call_c1_1", "roll", "{\"dice\":\"1d4\"}")
        ]
    );
    // Every call has index 0.
    let (answer, _) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "time", "arguments": "{"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "time", "arguments": "}"}}]}),
    ]);
    assert_eq!(
        calls(&answer),
        [call("a", "roll", "{}"), call("b", "time", "{}")]
    );
    // Pieces without an index belong to the last call, or to the call with their id.
    let (answer, _) = streamed(&[
        json!({"tool_calls": [{"id": "a", "function": {"name": "roll"}}]}),
        json!({"tool_calls": [{"function": {"arguments": "{\"x\""}}]}),
        json!({"tool_calls": [{"id": "b", "function": {"name": "time", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"id": "a", "function": {"arguments": ":1}"}}]}),
    ]);
    assert_eq!(
        calls(&answer),
        [call("a", "roll", "{\"x\":1}"), call("b", "time", "{}")]
    );
}

#[test]
fn h6_usage_has_a_separate_chunk_and_thoughts_are_kept() {
    let text = events(&[
        json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "Hm"}}]}),
        json!({"choices": [{"index": 0, "delta": {"reasoning_content": "m.", "content": null}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}, {"index": 1, "delta": {"content": "Bye"}}]}),
        json!({"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}], "usage": null}),
        json!({"choices": null, "usage": {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}}),
    ]);
    // The stream has no `[DONE]`.
    let (answer, deltas) = read([text.as_bytes()]);
    let answer = answer.unwrap();
    assert_eq!(answer.finish, Finish::Stop);
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 3,
        cached_tokens: 8,
    };
    assert_eq!(answer.usage, usage);
    assert_eq!(
        assistant_messages(Provider::OpenAiChat, &answer.body).unwrap(),
        [json!({"role": "assistant", "reasoning_content": "Hmm.", "content": "Hello"})]
    );
    let expected = [
        Delta::Thought("Hm".into()),
        Delta::Thought("m.".into()),
        Delta::Text("Hel".into()),
        Delta::Text("lo".into()),
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn h6_usage_in_a_choice_counts() {
    let usage = |input: u64| json!({"prompt_tokens": input, "completion_tokens": 3});
    let choice = |input: u64| json!({"index": 0, "delta": {"content": "Hi"}, "message": {"content": "Hi"}, "finish_reason": "stop", "usage": usage(input)});
    for (chunks, input_tokens) in [
        (vec![json!({"choices": [choice(5)]})], 5),
        (vec![json!({"choices": [choice(5)], "usage": null})], 5),
        (vec![json!({"usage": usage(7), "choices": [choice(5)]})], 7),
        (
            vec![
                json!({"choices": [choice(5)]}),
                json!({"choices": [], "usage": usage(9)}),
            ],
            9,
        ),
        (
            vec![
                json!({"choices": [], "usage": usage(9)}),
                json!({"choices": [choice(5)]}),
            ],
            5,
        ),
    ] {
        let (answer, _) = read([events(&chunks).as_bytes()]);
        let expected = Usage {
            input_tokens,
            output_tokens: 3,
            cached_tokens: 0,
        };
        assert_eq!(answer.unwrap().usage, expected, "{chunks:?}");
    }
    let answer = dialect().answer(json!({"choices": [choice(5)]})).unwrap();
    assert_eq!(answer.usage.input_tokens, 5);
}

#[test]
fn h6_a_placeholder_is_not_reported_before_the_arguments() {
    let (answer, deltas) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":{}"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "time", "arguments": "{}"}}]}),
    ]);
    let expected = [call("a", "roll", "{\"a\":{}}"), call("b", "time", "{}")];
    assert_eq!(calls(&answer), expected);
    let mut reported = [String::new(), String::new()];
    for delta in deltas {
        if let Delta::ToolCall {
            index, arguments, ..
        } = delta
        {
            reported[index].push_str(&arguments);
        }
    }
    assert_eq!(reported, ["{\"a\":{}}", "{}"]);
}

#[test]
fn h6_a_piece_that_repeats_the_name_is_no_call() {
    let piece = |name: &str, arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"name": name, "arguments": arguments}}]});
    let (answer, _) = streamed(&[
        piece("roll", "{\"a\":"),
        piece("roll", "{\"b\":1}"),
        piece("roll", "}"),
        piece("roll", ""),
        piece("roll", "{\"a\":{\"b\":1}}"),
        piece("time", "{}"),
        piece("time", "{\"tz\":\"UTC\"}"),
    ]);
    let expected = [
        call("call_c1_0", "roll", "{\"a\":{\"b\":1}}"),
        call("call_c1_1", "time", "{\"tz\":\"UTC\"}"),
    ];
    assert_eq!(calls(&answer), expected);
}

#[test]
fn h6_keep_alive_events_are_skipped() {
    let rest = events(&[
        json!({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}),
    ]);
    for name in ["ping", "keepalive", "keep-alive", "heartbeat"] {
        for data in ["", "keep-alive", "{\"error\": 1}", "[1"] {
            let text = format!("event: {name}\ndata: {data}\n\n{rest}");
            let (answer, deltas) = read([text.as_bytes()]);
            assert_eq!(answer.unwrap().finish, Finish::Stop, "{text}");
            assert_eq!(deltas, [Delta::Text("Hi".into())], "{text}");
        }
    }
}

#[test]
fn h6_unknown_members_of_a_call_are_sent_back() {
    let extra = json!({"google": {"thought_signature": "CiIB"}});
    let (answer, _) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}, "extra_content": extra}]}),
    ]);
    let messages = assistant_messages(Provider::OpenAiChat, &answer.body).unwrap();
    assert_eq!(messages[0]["tool_calls"][0]["extra_content"], extra);
}

#[test]
fn h4_a_stream_that_breaks_off_or_fails_is_an_error() {
    let start = json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]});
    let (answer, _) = read([events(std::slice::from_ref(&start)).as_bytes()]);
    assert_eq!(answer.unwrap_err().kind, ModelErrorKind::Malformed);

    for (event, kind) in [
        (
            json!({"error": {"message": "boom"}}),
            ModelErrorKind::Malformed,
        ),
        (
            json!({"error": {"code": "context_length_exceeded", "message": "x"}}),
            ModelErrorKind::ContextTooLong,
        ),
        (
            json!({"error": {"code": 502, "message": "x"}}),
            ModelErrorKind::Unavailable,
        ),
        (
            json!({"error": {}, "message": "boom"}),
            ModelErrorKind::Malformed,
        ),
        (
            json!({"error": 7, "choices": []}),
            ModelErrorKind::Malformed,
        ),
        (
            json!({"error": "Rate limit", "choices": 3}),
            ModelErrorKind::Malformed,
        ),
        (json!(["no", "object"]), ModelErrorKind::Malformed),
        (
            json!({"choices": [{"delta": []}]}),
            ModelErrorKind::Malformed,
        ),
        (
            json!({"choices": [{"delta": {"tool_calls": [7]}}]}),
            ModelErrorKind::Malformed,
        ),
    ] {
        let (answer, _) = read([events(&[start.clone(), event.clone()]).as_bytes()]);
        assert_eq!(answer.unwrap_err().kind, kind, "{event}");
    }
    let (answer, _) = read([b"data: {\"choices\": [\n\n".as_slice()]);
    assert_eq!(answer.unwrap_err().kind, ModelErrorKind::Malformed);
}

#[test]
fn h4_a_response_of_status_200_may_be_an_error() {
    for body in [
        json!(null),
        json!({}),
        json!({"choices": []}),
        json!({"choices": [{"message": null}]}),
    ] {
        let error = dialect().answer(body.clone()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{body}");
    }
    let error = dialect()
        .answer(json!({"error": {"message": "no such model"}}))
        .unwrap_err();
    assert!(error.message.contains("no such model"), "{error}");
}

#[test]
fn h4_failures_have_distinct_kinds() {
    let with =
        |code: &str| json!({"error": {"message": "Sorry", "type": code, "code": code}}).to_string();
    for (status, body, kind) in [
        (401, with("invalid_api_key"), ModelErrorKind::Unauthorized),
        (403, String::new(), ModelErrorKind::Unauthorized),
        (
            429,
            with("rate_limit_exceeded"),
            ModelErrorKind::RateLimited,
        ),
        (429, with("insufficient_quota"), ModelErrorKind::Exhausted),
        (
            400,
            with("context_length_exceeded"),
            ModelErrorKind::ContextTooLong,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 8 tokens"}"#
                .into(),
            ModelErrorKind::ContextTooLong,
        ),
        (400, with("invalid_request_error"), ModelErrorKind::Refused),
        (404, "<html>".into(), ModelErrorKind::Refused),
        (500, with("server_error"), ModelErrorKind::Unavailable),
        (529, String::new(), ModelErrorKind::Unavailable),
    ] {
        let error = dialect().failure(status, body.as_bytes());
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{body}");
    }
    let error = dialect().failure(400, with("invalid_request_error").as_bytes());
    assert!(error.message.contains("Sorry"), "{error}");
}

proptest! {
    #[test]
    fn h6_chunk_boundaries_do_not_change_an_answer(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let text = events(&[
            json!({"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Grüße, 世界 "}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{\"dice"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\": \"2d6\"}"}}]}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        ]) + ": a comment\r\n\r\ndata: [DONE]\r\n\r\n";
        let bytes = text.as_bytes();
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        ends.extend([0, bytes.len()]);
        ends.sort_unstable();
        let pieces = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        let (whole, whole_deltas) = read([bytes]);
        let (cut, cut_deltas) = read(pieces);
        prop_assert_eq!(whole.unwrap(), cut.unwrap());
        prop_assert_eq!(whole_deltas, cut_deltas);
    }
}

#[test]
fn the_error_of_a_choice_ends_the_answer() {
    let error = json!({"code": 502, "message": "the backend is gone"});
    let choice = json!({"index": 0, "finish_reason": "error", "error": error});
    let begun = json!({"choices": [{"index": 0, "delta": {"content": "hel"}}]});
    let text = events(&[begun, json!({"choices": [choice]})]) + "data: [DONE]\n\n";
    let (answer, _) = read([text.as_bytes()]);
    let mut whole = json!({"choices": [choice]});
    whole["choices"][0]["message"] = json!({"role": "assistant", "content": "hel"});
    for failed in [answer.unwrap_err(), dialect().answer(whole).unwrap_err()] {
        assert!(
            failed.to_string().contains("the backend is gone"),
            "{failed}"
        );
        assert_eq!(failed.kind, ModelErrorKind::Unavailable);
    }
    for blank in [json!(null), json!({}), json!("")] {
        let whole = json!({"choices": [{"error": blank, "message": {"content": "hi"}}]});
        dialect().answer(whole).unwrap();
    }
}

#[test]
fn an_error_in_place_of_choices_keeps_its_message() {
    for body in [
        json!({"choices": null, "error_type": "Bad", "error_message": "no disk"}),
        json!({"choices": null, "base_resp": {"status_code": 1, "status_msg": "no disk"}}),
        json!({"code": 1, "msg": "no disk"}),
        json!({"detail": "no disk"}),
        json!({"message": "no disk"}),
        json!({"errors": [{"message": "no disk"}]}),
        json!({"errors": ["no disk"]}),
        json!([{"error": {"code": 400, "message": "no disk"}}]),
    ] {
        let error = dialect().answer(body.clone()).unwrap_err();
        assert!(error.to_string().contains("no disk"), "{body}: {error}");
        let (answer, _) =
            read([(events(std::slice::from_ref(&body)) + "data: [DONE]\n\n").as_bytes()]);
        let error = answer.unwrap_err();
        assert!(error.to_string().contains("no disk"), "{body}: {error}");
    }
    let (answer, _) = read([b"event: error\ndata: no disk\n\n".as_slice()]);
    assert!(answer.unwrap_err().to_string().contains("no disk"));
}

#[test]
fn calls_in_another_choice_are_calls_of_the_answer() {
    let function = json!({"name": "roll", "arguments": "{}"});
    let call_entry = json!({"id": "c1", "type": "function", "function": function});
    let answer = dialect().answer(json!({"choices": [
        {"index": 0, "finish_reason": "tool_calls", "message": {"content": "I roll."}},
        {"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call_entry]}},
    ]}));
    let answer = answer.unwrap();
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(calls(&answer), [call("c1", "roll", "{}")]);
}

#[test]
fn half_of_a_surrogate_pair_does_not_end_the_stream() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi \\ud83d\"}}]}\n\n\
                data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let (answer, _) = read([text.as_bytes()]);
    let content = &answer.unwrap().body["choices"][0]["message"]["content"];
    assert_eq!(content, "hi \u{fffd}");
}
