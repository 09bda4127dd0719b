//! E10 and E11: unchanged results, arguments as objects, lists with all pages.

use pillion_mcp_tools::McpTool;

use super::*;

#[tokio::test]
async fn e10_a_result_is_unchanged_byte_for_byte() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let results = [
        r#"{"total":15,"rolls":[15]}"#,
        r#"{ "b" : 1.50, "a":18446744073709551617, "a":1e400, "z":"\u0041\/é🎲"}"#,
        "null",
        "\"text\"",
        "-0.0",
        "[]",
        &deep,
    ];
    for result in results {
        for (dialect, transport) in dialects() {
            let sent = result.to_owned();
            let server = FakeMcp::start_with(dialect.clone(), "tools/call", move |_| {
                Reply::raw_result(&sent)
            });
            let got = roll(&client(&server.url, transport)).await.unwrap();
            assert!(got.get() == result, "{dialect:?}: {:.80}", got.get());
        }
    }
}

#[tokio::test]
async fn e10_is_error_is_a_result_in_the_client_and_a_failure_in_the_tool() {
    let result = r#"{"content":[{"type":"text","text":"no such dice"}],"isError":true}"#;
    let server = FakeMcp::start_with(Dialect::StreamableJson, "tools/call", move |_| {
        Reply::raw_result(result)
    });
    let client = client(&server.url, TransportKind::StreamableHttp);
    assert_eq!(roll(&client).await.unwrap().get(), result);

    let registry = Arc::new(pillion_core::registry::ToolRegistry::new());
    for tool in McpTool::discover(&client, "fake_").await.unwrap() {
        registry.register(tool).unwrap();
    }
    let executor = pillion_core::executor::Executor::new(registry, Default::default());
    let call = pillion_core::tool::ToolCall::new("1", "fake_roll", json!({"dice": "1d0"}));
    let failed = executor.execute_one(call, &Default::default()).await;
    let failed = serde_json::to_value(&failed).unwrap();
    assert_json!(failed["success"], false);
    assert_contains!(failed.to_string(), "no such dice", "isError");
}

#[tokio::test]
async fn e11_empty_arguments_are_an_object() {
    let (server, client) = start(Dialect::PostSse, TransportKind::PostSse);
    let nothing: [Value; 3] = [json!([]), json!({}), json!(null)];
    for arguments in &nothing {
        client.call_tool("roll", arguments).await.unwrap();
    }
    client.call_tool("roll", &()).await.unwrap();
    client.call_tool("roll", &Vec::<u8>::new()).await.unwrap();
    client.request("ping", &json!([])).await.unwrap();
    for request in server.requests.all() {
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        let expected = match request.rpc_method().as_str() {
            "ping" => r#""params":{}}"#,
            _ => r#""arguments":{}}}"#,
        };
        assert_ends_with!(body, expected);
    }
}

/// Starts a server whose list has this many pages of two tools, or endless pages.
fn paged(dialect: Dialect, pages: Option<usize>) -> FakeMcp {
    FakeMcp::start_with(dialect, "tools/list", move |params| {
        let page: usize = params["cursor"].as_str().unwrap_or("0").parse().unwrap();
        let mut result = json!({"tools": [
            {"name": format!("a{page}"), "inputSchema": {"type": "object"}},
            {"name": format!("b{page}"), "inputSchema": {"type": "object"}},
        ]});
        if pages.is_none_or(|pages| page + 1 < pages) {
            result["nextCursor"] = json!((page + 1).to_string());
        }
        Reply::result(&result)
    })
}

#[tokio::test]
async fn every_page_of_a_list_is_fetched() {
    for (dialect, transport) in dialects() {
        let server = paged(dialect, Some(4));
        let tools = client(&server.url, transport).list_tools().await.unwrap();
        let names: Vec<String> = tools
            .iter()
            .map(|tool| serde_json::from_str::<Value>(tool.get()).unwrap())
            .map(|tool| tool["name"].text().to_owned())
            .collect();
        assert_eq!(names, ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]);
        assert_eq!(server.requests.count("tools/list"), 4);
    }
}

#[tokio::test]
async fn an_endless_list_is_an_error() {
    let server = paged(Dialect::PlainHttp, None);
    let mut config = config(&server.url, TransportKind::Http);
    config.limits.max_pages = 5;
    let client = McpClient::new(config);
    let text = "MCP request failed: the list has more than 5 pages";
    let failure = Failure::internal(text, |kind| {
        matches!(kind, McpErrorKind::TooManyPages { limit: 5 })
    });
    failure.check(&client.list_tools().await.unwrap_err(), "endless");
    assert_eq!(server.requests.count("tools/list"), 5);
    roll(&client).await.unwrap();
}

#[tokio::test]
async fn a_malformed_list_is_an_error() {
    for result in [r#"{"tools":7}"#, "[]", "\"x\"", r#"{"tools":"none"}"#] {
        let server = FakeMcp::start_with(Dialect::PlainHttp, "tools/list", move |_| {
            Reply::raw_result(result)
        });
        let client = client(&server.url, TransportKind::Http);
        match client.list_tools().await {
            // PHP servers may write an empty list for an empty object.
            Ok(tools) => assert!(tools.is_empty() && result == "[]", "{result}"),
            Err(error) => assert_matches!(
                error.kind(),
                McpErrorKind::UnexpectedResult { .. },
                "{result}"
            ),
        }
        roll(&client).await.unwrap();
    }
}

#[tokio::test]
async fn f6_an_invalid_entry_is_skipped() {
    let list = fixed(json!({"tools": [
        {"name": "good"}, {"description": "no name"}, 7, {"name": 8}, {"name": ""},
        {"name": "schema", "inputSchema": "none"}, {"name": "fine", "extra": true},
        {"name": "odd", "title": 5, "description": {}, "annotations": null},
    ]}));
    let server = FakeMcp::start_with(Dialect::PlainHttp, "tools/list", list);
    let client = client(&server.url, TransportKind::Http);
    let tools = McpTool::discover(&client, "x_").await.unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool.definition().name().to_string())
        .collect();
    assert_eq!(names, ["x_good", "x_fine", "x_odd"]);
}

#[tokio::test]
async fn f6_a_name_that_is_too_long_with_its_prefix_is_shortened() {
    let fits = "y".repeat(126);
    let long = "y".repeat(127);
    let listed = json!({"tools": [{"name": fits}, {"name": long}, {"name": "good"}]});
    let server = FakeMcp::start_with(Dialect::PlainHttp, "tools/list", fixed(listed));
    let client = client(&server.url, TransportKind::Http);
    // The name is valid in the list; only the prefixed name is too long.
    assert_eq!(client.list_tools().await.unwrap().len(), 3);
    let tools = McpTool::discover(&client, "x_").await.unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool.definition().name().to_string())
        .collect();
    let [first, shortened, last] = &names[..] else {
        panic!("{names:?}");
    };
    assert_eq!([first, last], [&format!("x_{fits}"), "x_good"]);
    assert!(shortened.len() == 128 && shortened.starts_with("x_yyy"));
}
