use super::ModelErrorKind::{ContextTooLong, Malformed, Rejected, Unavailable};
use super::*;
use crate::tests::fixtures;
use crate::{Delta, Provider, assistant_messages, parse_tool_calls};

/// Reads the events of this text as a stream, which may break off.
fn read_stream(text: &str) -> (Result<TurnResponse, ModelError>, Vec<Delta>) {
    let mut stream = OpenAiChat.stream();
    let mut deltas = Vec::new();
    for event in fixtures::events(text) {
        if let Err(error) = stream.push(&event, &mut deltas) {
            return (Err(error), deltas);
        }
    }
    (stream.finish(), deltas)
}

fn events(data: &[Value]) -> String {
    data.iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect()
}

/// Returns the response and deltas of a complete stream with these deltas.
fn streamed(deltas: &[Value]) -> (TurnResponse, Vec<Delta>) {
    let chunk = |delta: &Value| json!({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
    let mut chunks: Vec<_> = deltas.iter().map(chunk).collect();
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    let text = events(&chunks) + "data: [DONE]\n\n";
    let (response, deltas) = read_stream(&text);
    (response.unwrap(), deltas)
}

fn calls(response: &TurnResponse) -> Vec<(String, String, String)> {
    let parsed = parse_tool_calls(Provider::OpenAiChat, &response.body).unwrap();
    let calls = parsed.into_iter().map(|call| {
        let arguments = call.arguments_text();
        (call.id, call.name, arguments)
    });
    calls.collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

/// Returns a piece of the first call.
fn piece(id: Option<&str>, name: Option<&str>, arguments: &str) -> Delta {
    Delta::ToolCall {
        index: 0,
        id: id.map(str::to_owned),
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    }
}

#[test]
fn h4_openai_and_azure_are_known_by_their_hosts() {
    for (base_url, is_openai) in [
        ("https://api.openai.com/v1", true),
        ("https://eu.api.openai.com/v1", true),
        ("https://me.openai.azure.com/openai/v1", true),
        ("https://me.services.ai.azure.com/openai/v1", true),
        ("https://me.cognitiveservices.azure.com/openai/v1", true),
        ("https://notapi.openai.com.example/v1", false),
        ("https://api.mistral.ai/v1", false),
        ("http://127.0.0.1:8000/v1", false),
    ] {
        let member = choose_length_member(&base_url.parse().unwrap());
        let expected = if is_openai {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        assert_eq!(member, expected, "{base_url}");
    }
}

#[test]
fn h4_a_message_without_role_is_rejected_with_its_path() {
    let messages = [json!({"role": "user"}), json!("hello")];
    let error = OpenAiChat.conversation(&messages).unwrap_err();
    assert_eq!(error.kind, Rejected);
    assert_eq!(error.message, "messages[1] must be an object with a role");
}

#[test]
fn h6_pieces_of_calls_are_joined_by_index() {
    let (response, deltas) = streamed(&[
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
    assert_eq!(calls(&response), expected);
    assert_eq!(response.finish, Finish::ToolCalls);
    assert_eq!(deltas[0], piece(Some("a"), Some("roll"), ""));
    assert_eq!(deltas.last(), Some(&piece(None, None, "\"2d6\"}")));
}

#[test]
fn h6_a_streamed_call_reports_its_id_and_name_once() {
    let (response, deltas) = streamed(&[
        json!({"tool_calls": [{"index": 0, "function": {"name": "roll", "arguments": "{\"a\""}}]}),
        json!({"tool_calls": [{"index": 0, "id": "late", "function": {"name": "roll", "arguments": ":1}"}}]}),
    ]);
    assert_eq!(calls(&response), [call("call_c1_0", "roll", "{\"a\":1}")]);
    let expected = [
        piece(Some("call_c1_0"), Some("roll"), "{\"a\""),
        piece(None, None, ":1}"),
    ];
    assert_eq!(deltas, expected);
}

#[test]
fn h6_compatible_servers_may_omit_indexes_and_ids() {
    // The calls are complete, each in its own chunk, and differ only in their names.
    let (response, _) = streamed(&[
        json!({"tool_calls": [{"function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"function": {"name": "roll", "arguments": {"dice": "1d4"}}}]}),
    ]);
    let expected = [
        call("call_c1_0", "roll", "{}"),
        call("call_c1_1", "roll", "{\"dice\":\"1d4\"}"),
    ];
    assert_eq!(calls(&response), expected);
    // Every call of this server has index 0.
    let (response, _) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "time", "arguments": "{"}}]}),
        json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "time", "arguments": "}"}}]}),
    ]);
    let expected = [call("a", "roll", "{}"), call("b", "time", "{}")];
    assert_eq!(calls(&response), expected);
    // Pieces without an index belong to the last call, or to the call with their ID.
    let (response, _) = streamed(&[
        json!({"tool_calls": [{"id": "a", "function": {"name": "roll"}}]}),
        json!({"tool_calls": [{"function": {"arguments": "{\"x\""}}]}),
        json!({"tool_calls": [{"id": "b", "function": {"name": "time", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"id": "a", "function": {"arguments": ":1}"}}]}),
    ]);
    let expected = [call("a", "roll", "{\"x\":1}"), call("b", "time", "{}")];
    assert_eq!(calls(&response), expected);
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
    let (response, deltas) = read_stream(&text);
    let response = response.unwrap();
    assert_eq!(response.finish, Finish::Stop);
    let usage = Usage {
        input_tokens: 9,
        output_tokens: 3,
        cached_tokens: 8,
    };
    assert_eq!(response.usage, usage);
    assert_eq!(
        assistant_messages(Provider::OpenAiChat, &response.body).unwrap(),
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
    let in_choice = json!({"choices": [choice(5)]});
    let separate_usage = json!({"choices": [], "usage": usage(9)});
    for (chunks, input_tokens) in [
        (vec![in_choice.clone()], 5),
        (vec![json!({"choices": [choice(5)], "usage": null})], 5),
        (vec![json!({"usage": usage(7), "choices": [choice(5)]})], 7),
        (vec![in_choice.clone(), separate_usage.clone()], 9),
        (vec![separate_usage, in_choice], 5),
    ] {
        let (response, _) = read_stream(&events(&chunks));
        let expected = Usage {
            input_tokens,
            output_tokens: 3,
            cached_tokens: 0,
        };
        assert_eq!(response.unwrap().usage, expected, "{chunks:?}");
    }
    let body = json!({"choices": [choice(5)]});
    let response = OpenAiChat.parse_response(body).unwrap();
    assert_eq!(response.usage.input_tokens, 5);
}

#[test]
fn h6_a_placeholder_is_not_reported_before_the_arguments() {
    let (response, deltas) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":{}"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "time", "arguments": "{}"}}]}),
    ]);
    let expected = [call("a", "roll", "{\"a\":{}}"), call("b", "time", "{}")];
    assert_eq!(calls(&response), expected);
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
    let (response, _) = streamed(&[
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
    assert_eq!(calls(&response), expected);
}

#[test]
fn h6_keep_alive_events_are_skipped() {
    let rest = events(&[
        json!({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}),
    ]);
    for name in ["ping", "keepalive", "keep-alive", "heartbeat"] {
        for data in ["", "keep-alive", "{\"error\": 1}", "[1"] {
            let text = format!("event: {name}\ndata: {data}\n\n{rest}");
            let (response, deltas) = read_stream(&text);
            assert_eq!(response.unwrap().finish, Finish::Stop, "{text}");
            assert_eq!(deltas, [Delta::Text("Hi".into())], "{text}");
        }
    }
}

#[test]
fn h6_unknown_members_of_a_call_are_sent_back() {
    let extra = json!({"google": {"thought_signature": "CiIB"}});
    let (response, _) = streamed(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "roll", "arguments": "{}"}, "extra_content": extra}]}),
    ]);
    let messages = assistant_messages(Provider::OpenAiChat, &response.body).unwrap();
    assert_eq!(messages[0]["tool_calls"][0]["extra_content"], extra);
}

#[test]
fn h4_a_stream_that_breaks_off_or_fails_is_an_error() {
    let start = json!({"choices": [{"index": 0, "delta": {"content": "Hel"}}]});
    let (response, _) = read_stream(&events(std::slice::from_ref(&start)));
    assert_eq!(response.unwrap_err().kind, Malformed);

    let too_long = json!({"error": {"code": "context_length_exceeded", "message": "x"}});
    let invalid_call = json!({"choices": [{"delta": {"tool_calls": [7]}}]});
    for (event, kind) in [
        (json!({"error": {"message": "boom"}}), Malformed),
        (too_long, ContextTooLong),
        (json!({"error": {"code": 502, "message": "x"}}), Unavailable),
        (json!({"error": {}, "message": "boom"}), Malformed),
        (json!({"error": 7, "choices": []}), Malformed),
        (json!({"error": "Rate limit", "choices": 3}), Malformed),
        (json!(["no", "object"]), Malformed),
        (json!({"choices": [{"delta": []}]}), Malformed),
        (invalid_call, Malformed),
    ] {
        let (response, _) = read_stream(&events(&[start.clone(), event.clone()]));
        assert_eq!(response.unwrap_err().kind, kind, "{event}");
    }
    let (response, _) = read_stream("data: {\"choices\": [\n\n");
    assert_eq!(response.unwrap_err().kind, Malformed);
}

#[test]
fn an_error_in_place_of_choices_keeps_its_message() {
    for body in [
        json!({"choices": null, "error_type": "Bad", "error_message": "no disk"}),
        json!({"choices": null, "base_resp": {"status_code": 1, "status_msg": "no disk"}}),
        json!({"code": 1, "msg": "no disk"}),
        json!({"detail": "no disk"}),
        json!({"message": "no disk"}),
        json!({"error": {"message": "no disk"}}),
        json!({"errors": [{"message": "no disk"}]}),
        json!({"errors": ["no disk"]}),
        json!([{"error": {"code": 400, "message": "no disk"}}]),
    ] {
        let error = OpenAiChat.parse_response(body.clone()).unwrap_err();
        assert!(error.to_string().contains("no disk"), "{body}: {error}");
        let (response, _) =
            read_stream(&(events(std::slice::from_ref(&body)) + "data: [DONE]\n\n"));
        let error = response.unwrap_err();
        assert!(error.to_string().contains("no disk"), "{body}: {error}");
    }
    let (response, _) = read_stream("event: error\ndata: no disk\n\n");
    assert!(response.unwrap_err().to_string().contains("no disk"));
}

#[test]
fn half_of_a_surrogate_pair_does_not_end_the_stream() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi \\ud83d\"}}]}\n\n\
                data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let (response, _) = read_stream(text);
    let content = &response.unwrap().body["choices"][0]["message"]["content"];
    assert_eq!(content, "hi \u{fffd}");
}
