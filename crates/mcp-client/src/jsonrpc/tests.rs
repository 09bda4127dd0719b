use super::*;

fn only(text: &str) -> Incoming {
    let mut messages = Incoming::parse(text).unwrap();
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

#[test]
fn e10_a_result_is_unchanged() {
    let text =
        r#"{"jsonrpc":"2.0","id":"mcp_1","result":{"b":1.50, "a":18446744073709551617,"z":null}}"#;
    let Incoming::Response { id, outcome } = only(text) else {
        panic!()
    };
    assert_eq!(id, RpcRequestId::Text("mcp_1".into()));
    assert_eq!(
        outcome.unwrap().get(),
        r#"{"b":1.50, "a":18446744073709551617,"z":null}"#
    );
    let Incoming::Response { outcome, .. } = only(r#"{"id":1,"result":null}"#) else {
        panic!()
    };
    assert_eq!(outcome.unwrap().get(), "null");
}

#[test]
fn e3_absent_error_fields_have_defaults() {
    let Incoming::Response { outcome, .. } = only(r#"{"id":1,"error":{}}"#) else {
        panic!()
    };
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (-1, "Unknown MCP error")
    );
    let Incoming::Response { outcome, .. } = only(r#"{"id":1,"error":"odd"}"#) else {
        panic!()
    };
    assert_eq!(outcome.unwrap_err().code, -1);
}

#[test]
fn only_a_whole_json_rpc_error_is_the_error_of_an_http_error() {
    let read = |body: &str| RpcError::of_error_body(body.as_bytes());
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
    assert!(matches!(
        only(r#"{"method":"ping","id":7}"#),
        Incoming::Request { .. }
    ));
    assert!(matches!(
        only(r#"{"method":"notifications/x"}"#),
        Incoming::Notification { .. }
    ));
    // A message with a method is not a response, whatever else it contains.
    assert!(matches!(
        only(r#"{"method":"x","id":7,"result":{}}"#),
        Incoming::Request { .. }
    ));
    let batch = r#"[{"method":"x"}, 3, {"id":1,"result":{}}]"#;
    assert_eq!(Incoming::parse(batch).unwrap().len(), 2);
    for bad in [
        "",
        "{}",
        "3",
        "null",
        r#"{"id":1}"#,
        "{bad",
        r#"{"id":{},"result":1}"#,
    ] {
        assert!(Incoming::parse(bad).is_err(), "{bad}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(Incoming::parse(&deep).unwrap().is_empty());
    let batch = |values: usize| format!("[{}1]", "1,".repeat(values - 1));
    assert!(Incoming::parse(&batch(10_000)).unwrap().is_empty());
    assert!(Incoming::parse(&batch(10_001)).is_err());
}

#[test]
fn encoded_messages_are_json_rpc() {
    let params = RawValue::from_string("{\"a\":{}}".into()).unwrap();
    assert_eq!(
        request(&RpcRequestId::Number(1), "tools/call", &params),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":{}}}"#
    );
    let id = RawValue::from_string("\"s1\"".into()).unwrap();
    assert_eq!(
        answer(&id, Ok(serde_json::json!({}))),
        r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#
    );
    assert_eq!(
        answer(&id, Err(RpcError::new(-32601, "Method not found"))),
        r#"{"jsonrpc":"2.0","id":"s1","error":{"code":-32601,"message":"Method not found"}}"#
    );
    assert_eq!(
        notification::<Value>("notifications/x", None),
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#
    );
}

#[test]
fn parameters_and_errors_with_too_many_values_are_not_kept() {
    let many = format!("[{}0]", "[],".repeat(500_000));
    for method in ["sampling/createMessage", "notifications/message"] {
        let text = format!(r#"{{"method":"{method}","id":1,"params":{{"x":{many}}}}}"#);
        let error = Incoming::parse(&text).unwrap_err().to_string();
        assert!(
            error.starts_with("more than 1000000 JSON values"),
            "{error}"
        );
    }
    // The request of a response gets an error.
    let text = format!(r#"{{"id":1,"error":{{"code":1,"message":"no","data":{many}}}}}"#);
    let Incoming::Response { outcome, .. } = only(&text) else {
        panic!()
    };
    let error = outcome.unwrap_err();
    assert_eq!(
        error.message,
        "the server's error has more than 1000000 JSON values"
    );
    assert!(error.data.is_none());
}
