use http::HeaderMap;

use super::*;

fn only(text: &str) -> IncomingMessage {
    let mut messages = IncomingMessage::parse(text).unwrap();
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

/// Returns the ID and the outcome of a response.
fn read_response(text: &str) -> (RpcRequestId, RpcOutcome) {
    match only(text) {
        IncomingMessage::Response { id, outcome } => (id, outcome),
        other => panic!("{other:?}"),
    }
}

#[test]
fn e10_a_result_is_unchanged() {
    for result in [r#"{"b":1.50, "a":18446744073709551617,"z":null}"#, "null"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"mcp_1","result":{result}}}"#);
        let (id, outcome) = read_response(&text);
        assert_eq!(id, RpcRequestId::Text("mcp_1".into()));
        assert_eq!(outcome.unwrap().get(), result);
    }
}

#[test]
fn e3_an_error_in_another_form_keeps_its_code_and_message() {
    for (error, code, message) in [
        (r#""no disk""#, -1, "no disk"),
        (
            r#"[{"code": -32000, "message": "no disk"}]"#,
            -32000,
            "no disk",
        ),
        (r#"{"code": "ERR_X", "message": "no disk"}"#, -1, "no disk"),
        (
            r#"{"code": "-32001", "message": "no disk"}"#,
            -32001,
            "no disk",
        ),
        (r#"{"code": null, "message": "no disk"}"#, -1, "no disk"),
        (
            r#"{"code": -32000.0, "message": "no disk"}"#,
            -32000,
            "no disk",
        ),
        (r#"{"code": 1e30, "message": "no disk"}"#, -1, "no disk"),
        (r#"{"message": "no disk"}"#, -1, "no disk"),
        (r#"{"code": 5, "message": {"a": 1}}"#, 5, r#"{"a":1}"#),
        (
            r#"{"code": 5, "message": null, "data": "no disk"}"#,
            5,
            "no disk",
        ),
        (r#"{"reason": "no disk"}"#, -1, r#"{"reason":"no disk"}"#),
        (r#"{"code": 5}"#, 5, "Unknown MCP error"),
        ("{}", -1, "Unknown MCP error"),
        ("[]", -1, "Unknown MCP error"),
        ("false", -1, "false"),
    ] {
        let (_, outcome) = read_response(&format!(r#"{{"id":1,"error":{error}}}"#));
        let read = outcome.unwrap_err();
        assert_eq!((read.code, &*read.message), (code, message), "{error}");
    }
}

#[test]
fn an_id_in_another_form_is_the_same_id() {
    for (id, expected) in [
        ("3", RpcRequestId::Number(3)),
        ("3.0", RpcRequestId::Number(3)),
        ("3e0", RpcRequestId::Number(3)),
        (r#""3""#, RpcRequestId::Number(3)),
        (r#""mcp_3""#, RpcRequestId::Text("mcp_3".into())),
    ] {
        let (read, _) = read_response(&format!(r#"{{"id":{id},"result":{{}}}}"#));
        assert_eq!(read, expected, "{id}");
    }
    for id in ["{}", "[3]", "true", "3.5", "1e300"] {
        let parsed = IncomingMessage::parse(&format!(r#"{{"id":{id},"result":{{}}}}"#));
        let error = parsed.unwrap_err().to_string();
        let expected = "expected an ID: a whole number or a string";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn only_a_whole_json_rpc_error_is_the_error_of_an_http_error() {
    let read = |body: &str| RpcError::from_error_body(body.as_bytes());
    let whole =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No session","data":[1]}}"#;
    for body in [
        whole.to_owned(),
        format!("\u{feff} {whole}\n"),
        format!("[3, {whole}]"),
        whole.replace(r#""id":null,"#, ""),
    ] {
        let error = read(&body).unwrap_or_else(|| panic!("{body}"));
        assert_eq!((error.code, error.message.as_str()), (-32000, "No session"));
        assert_eq!(error.data.unwrap().get(), "[1]");
    }
    for body in [
        "",
        "no",
        "null",
        r#"{"error":"boom"}"#,
        r#"{"error":{"code":-32000,"message":"boom"}}"#,
        r#"{"jsonrpc":"1.0","error":{"code":-32000,"message":"boom"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":"x","message":"boom"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32000}}"#,
        r#"{"jsonrpc":"2.0","error":{"message":"boom"}}"#,
        r#"{"jsonrpc":"2.0","error":"boom"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[{"error":"boom"}]"#,
    ] {
        assert!(read(body).is_none(), "{body}");
    }
}

#[test]
fn requests_notifications_batches_and_invalid_messages_are_distinguished() {
    // A message with a method is not a response, whatever else it contains.
    for text in [
        r#"{"method":"ping","id":7}"#,
        r#"{"method":"x","id":7,"result":{}}"#,
    ] {
        assert!(matches!(only(text), IncomingMessage::Request { .. }));
    }
    let message = only(r#"{"method":"notifications/x"}"#);
    assert!(matches!(message, IncomingMessage::Notification { .. }));
    let batch = r#"[{"method":"x"}, 3, {"id":1,"result":{}}]"#;
    assert_eq!(IncomingMessage::parse(batch).unwrap().len(), 2);
    for bad in [
        "",
        "{}",
        "3",
        "null",
        r#"{"id":1}"#,
        "{bad",
        r#"{"id":{},"result":1}"#,
    ] {
        assert!(IncomingMessage::parse(bad).is_err(), "{bad}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(IncomingMessage::parse(&deep).unwrap().is_empty());
    let batch = |values: usize| format!("[{}1]", "1,".repeat(values - 1));
    assert!(IncomingMessage::parse(&batch(10_000)).unwrap().is_empty());
    assert!(IncomingMessage::parse(&batch(10_001)).is_err());
}

#[test]
fn encoded_messages_are_json_rpc() {
    let params = RawValue::from_string("{\"a\":{}}".into()).unwrap();
    assert_eq!(
        encode_request(&RpcRequestId::Number(1), "tools/call", &params),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":{}}}"#
    );
    let id = RawValue::from_string("\"s1\"".into()).unwrap();
    assert_eq!(
        encode_response(&id, Ok(serde_json::json!({}))),
        r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#
    );
    assert_eq!(
        encode_response(&id, Err(RpcError::new(-32601, "Method not found"))),
        r#"{"jsonrpc":"2.0","id":"s1","error":{"code":-32601,"message":"Method not found"}}"#
    );
    assert_eq!(
        encode_notification::<Value>("notifications/x", None),
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#
    );
}

#[test]
fn parameters_and_errors_with_too_many_values_are_not_kept() {
    let many = format!("[{}0]", "[],".repeat(500_000));
    for method in ["sampling/createMessage", "notifications/message"] {
        let request = format!(r#"{{"method":"{method}","id":1,"params":{{"x":{many}}}}}"#);
        let text = IncomingMessage::parse(&request).unwrap_err().to_string();
        assert!(text.starts_with("more than 1000000 JSON values"), "{text}");
    }
    // The request that waits for the response gets an error.
    let text = format!(r#"{{"id":1,"error":{{"code":1,"message":"no","data":{many}}}}}"#);
    let error = read_response(&text).1.unwrap_err();
    let expected = "the server's error has more than 1000000 JSON values";
    assert_eq!(error.message, expected);
    assert!(error.data.is_none());
}

#[test]
fn half_of_a_surrogate_pair_does_not_lose_the_message() {
    let text =
        r#"{"id":1,"result":{"content":[{"type":"text","text":"cut \ud83d"}],"a":"\ud83d\ude00"}}"#;
    for text in [text.to_owned(), format!("[{text}]")] {
        let (_, outcome) = read_response(&text);
        let result: Value = serde_json::from_str(outcome.unwrap().get()).unwrap();
        assert_eq!(result["content"][0]["text"], "cut \u{fffd}");
        assert_eq!(result["a"], "\u{1f600}");
    }
}

#[test]
fn only_an_error_without_an_id_answers_the_open_request() {
    let (id, _) = read_response(r#"{"id":null,"error":{}}"#);
    assert!(id.matches(&RpcRequestId::Number(7)));
    for text in [r#"{"id":null,"result":{}}"#, r#"{"result":{}}"#] {
        assert!(IncomingMessage::parse(text).is_err(), "{text}");
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn additions_to_meta_leave_the_rest_unchanged() {
    let params =
        raw(r#"{"_meta":{"a":1},"name":"x","arguments":{"n":1.50,"big":18446744073709551617}}"#);
    let mut request = RequestMetadata::from_params(&params).unwrap();
    let mut more = Map::new();
    more.insert("a".to_owned(), json!(2));
    more.insert("b".to_owned(), json!([]));
    request.add(more).unwrap();
    let entries = [("b", "2"), ("c", r#"{"d":1}"#)];
    let owned = entries.map(|(key, value)| (key.to_owned(), raw(value)));
    let shared = SharedMetadata::new(owned.into()).unwrap();
    request.add_shared(&shared);
    assert_eq!(
        serde_json::to_string(&request).unwrap(),
        r#"{"name":"x","arguments":{"n":1.50,"big":18446744073709551617},"_meta":{"a":1,"b":[],"c":{"d":1}}}"#
    );
    let params = raw("{}");
    let mut request = RequestMetadata::from_params(&params).unwrap();
    request.add_shared(&shared);
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(text, r#"{"_meta":{"b":2,"c":{"d":1}}}"#);
    assert!(RequestMetadata::from_params(&raw("[1]")).is_err());
    assert!(RequestMetadata::from_params(&raw(r#"{"_meta":3}"#)).is_err());
}

#[test]
fn headers_mirror_the_method_and_its_subject() {
    let name = |method, params: &str| {
        let params = raw(params);
        let mut mirrored = MirroredHeaders::new();
        let request = RequestMetadata::from_params(&params).unwrap();
        request.add_mirrored_headers(method, &mut mirrored);
        let headers: HeaderMap = mirrored.into_iter().collect();
        assert_eq!(headers["mcp-method"], method);
        let name = headers.get("mcp-name");
        name.map(|name| name.to_str().unwrap().to_owned())
    };
    assert_eq!(name("tools/list", "{}"), None);
    assert_eq!(name("tools/call", r#"{"name":"roll"}"#).unwrap(), "roll");
    let uri = name("resources/read", r#"{"uri":"file:///a/b"}"#).unwrap();
    assert_eq!(uri, "file:///a/b");
    assert_eq!(name("prompts/get", r#"{"name":3}"#), None);
}

#[test]
fn values_that_are_invalid_in_headers_are_encoded() {
    // The examples in the specification.
    for (text, value) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
    ] {
        assert_eq!(encode_header_value(text), value, "{text}");
    }
}
