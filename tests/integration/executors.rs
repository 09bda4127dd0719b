//! Executors of PHP processes. This PHP process is minimal; the tests of PHP cover PHP's library.

use crate::json_lines::JsonLines;
use crate::prelude::*;

/// The PHP process's end of the connection.
struct Php {
    lines: JsonLines,
    /// Results that have arrived and that the test has not checked yet.
    early: Vec<Value>,
}

impl Php {
    /// Connects with these options. Returns the head and body of the response if the connection is
    /// rejected.
    fn try_connect(socket: &Path, options: &Value) -> Result<Self, (String, Value)> {
        let body = json!({"options": options});
        let lines = JsonLines::open(socket, "/api/v1/executors", "pillion-executor", &body)?;
        Ok(Self {
            lines,
            early: Vec::new(),
        })
    }

    fn connect(socket: &Path, options: &Value) -> Self {
        Self::try_connect(socket, options).unwrap_or_else(|rejection| panic!("{rejection:?}"))
    }

    /// Returns the next message, except notifications about calls and results, which are kept for
    /// later.
    fn read_other(&mut self) -> Value {
        loop {
            let message = self.lines.read().unwrap();
            match message["method"].as_str() {
                Some("notifications/call_started" | "notifications/call_finished") => {}
                Some("notifications/result") => self.early.push(message),
                _ => return message,
            }
        }
    }

    fn execute(&mut self, id: u64, params: &Value) {
        self.lines.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/execute", "params": params}),
        );
    }

    /// Answers a request with the result of PHP code.
    fn respond(&mut self, request: &Value, result: &Value) {
        let outcome =
            json!({"tool_call_id": "", "tool_name": "", "success": true, "result": result});
        let result = json!({"outcome": outcome});
        self.lines
            .write(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Returns the results of an execution that sends nothing else, in the order of the calls.
    fn results(&mut self, id: u64, count: usize) -> Vec<Value> {
        assert_eq!(self.read_other()["id"], id);
        let mut results = vec![Value::Null; count];
        for message in self.early.drain(..) {
            assert_json!(message["params"]["execution"], id);
            let index = message["params"]["index"].as_u64().unwrap();
            let result = &mut results[usize::try_from(index).unwrap()];
            assert!(result.is_null(), "a second result: {message}");
            *result = message["params"]["result"].clone();
        }
        assert!(results.iter().all(Value::is_object), "{results:?}");
        results
    }
}

fn greet() -> Value {
    json!({
        "number": 1,
        "name": "greet",
        "description": "Greets a person",
        "inputSchema": {"type": "object", "properties": {
            "name": {"type": "string"}, "tone": {"type": "string", "default": "kind"}
        }, "required": ["name"]},
        "category": "general",
    })
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "name": name, "arguments": arguments, "inPhp": name == "greet"})
}

#[test]
fn the_pipeline_runs_in_the_sidecar_and_the_tool_in_php() {
    let daemon = Daemon::start();
    let options = json!({"rate_limits": {"tools": {"greet": {"per_minute": 1}}}});
    let mut php = Php::connect(&daemon.socket, &options);
    let calculator = json!({"number": 2, "name": "calculator", "description": "Calculates", "inputSchema": {},
        "category": "general", "sidecarName": "calculator"});
    php.execute(
        7,
        &json!({
            "definitions": {"tools": [greet(), calculator], "aliases": {"hello": "greet"}},
            "parallel": true,
            "calls": [
                call("a", "greet", "{}"),
                call("b", "greet", r#"{"name":"Ada"}"#),
                call("c", "greet", r#"{"name":"Bob"}"#),
                call("d", "calculator", r#"{"expression":"6*7"}"#),
                call("e", "nothing", ""),
            ],
        }),
    );
    let request = php.read_other();
    assert_eq!(request["method"], "tools/call");
    assert_eq!(
        request["params"],
        json!({"name": "greet", "tool": 1, "callId": "b", "execution": 7,
            "arguments": {"name": "Ada", "tone": "kind"}})
    );
    php.respond(&request, &json!("Hello, Ada"));
    let results = php.results(7, 5);
    let codes: Vec<_> = results.iter().map(|it| it["error_code"].as_str()).collect();
    assert_eq!(
        codes,
        [
            Some("invalid_input"),
            None,
            Some("rate_limited"),
            None,
            Some("not_found")
        ]
    );
    assert_eq!(results[0]["error"], "Missing required parameter: name");
    assert_eq!(results[1]["result"], "Hello, Ada");
    assert_eq!(results[3]["result"], "42");

    // Another executor has its own tools and limits, and no client sees them.
    let mut other = Php::connect(&daemon.socket, &json!({}));
    other.execute(1, &json!({"calls": [call("a", "greet", "{}")]}));
    assert_eq!(other.results(1, 1)[0]["error_code"], "not_found");
    let tools = daemon.get("/api/v1/tools").body;
    assert_lacks!(String::from_utf8(tools).unwrap(), "greet");
}

#[test]
fn php_decides_on_approvals_and_may_make_calls_meanwhile() {
    let daemon = Daemon::start();
    let options = json!({"approvals": {"tools": {"greet": "always-ask"}}});
    let mut php = Php::connect(&daemon.socket, &options);
    let params = json!({
        "definitions": {"tools": [greet()]},
        "calls": [call("a", "greet", r#"{"name":"Ada"}"#)],
        "callbacks": {"approve": true, "before": true},
    });
    php.execute(1, &params);
    let question = php.read_other();
    assert_eq!(question["method"], "approve");
    assert_eq!(question["params"]["approvalId"].text().len(), 64);
    php.execute(
        2,
        &json!({"nested": true, "calls": [call("n", "nothing", "")]}),
    );
    assert_eq!(php.results(2, 1)[0]["error_code"], "not_found");
    php.lines
        .write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"decision": true}}));
    let before = php.read_other();
    assert_eq!(before["method"], "before");
    php.respond(&before, &json!("replaced"));
    assert_eq!(php.results(1, 1)[0]["result"], "replaced");

    php.execute(3, &params);
    let question = php.read_other();
    php.lines
        .write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"decision": false}}));
    assert_eq!(php.results(3, 1)[0]["error_code"], "denied");
}

#[test]
fn a_call_ends_at_its_timeout_while_php_still_runs() {
    let daemon = Daemon::start();
    let mut php = Php::connect(&daemon.socket, &json!({"timeout": 0.1}));
    php.execute(1, &json!({
        "definitions": {"tools": [greet()]},
        "calls": [call("a", "greet", r#"{"name":"Ada"}"#), call("b", "greet", r#"{"name":"Bob"}"#)],
    }));
    let first = php.read_other();
    std::thread::sleep(Duration::from_millis(400));
    php.respond(&first, &json!("late"));
    // While PHP ran the first tool, the second tool did not run, and its timeout had not started.
    let second = php.read_other();
    assert_eq!(second["params"]["callId"], "b");
    php.respond(&second, &json!("in time"));
    let results = php.results(1, 2);
    assert_eq!(results[0]["error"], "Tool 'greet' timed out after 0.1s");
    assert_eq!(results[1]["result"], "in time");
}

#[test]
fn invalid_options_definitions_and_messages_are_rejected() {
    let daemon = Daemon::start();
    for (options, reason) in [
        (
            json!({"timeot": 1}),
            "Invalid executor option 'timeot': unknown field",
        ),
        (
            json!({"enable_caching": false}),
            "Invalid executor option 'enable_caching': ",
        ),
    ] {
        let (head, problem) = Php::try_connect(&daemon.socket, &options).err().unwrap();
        assert_starts_with!(head, "HTTP/1.1 400");
        assert!(problem["detail"].text().starts_with(reason), "{problem}");
    }
    let mut php = Php::connect(&daemon.socket, &json!([]));
    let mut broken = greet();
    broken["inputSchema"]["properties"]["name"]["type"] = json!("money");
    php.execute(1, &json!({"definitions": {"tools": [broken]}, "calls": []}));
    let error = php.read_other();
    let message = error["error"]["message"].text();
    assert_starts_with!(message, "Tool 'greet': Invalid JSON Schema at '");
    php.lines
        .write(&json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
    assert_eq!(php.lines.read(), None, "a response to an unknown request");
}

#[test]
fn schemas_are_checked_without_a_registration() {
    let daemon = Daemon::start();
    let check = |kind: &str| {
        let schema = json!({"type": "object", "properties": {"a": {"type": kind}}});
        let body = json!({"tools": [{"name": "t", "inputSchema": schema}]}).to_string();
        daemon.post("/api/v1/schemas/check", &body)
    };
    assert_eq!(check("string").json()["success"], true);
    let problem = check("money").json();
    let detail = problem["detail"].text();
    let expected = "Tool 't': Invalid JSON Schema at '/properties/a/type";
    assert_starts_with!(detail, expected);
}

#[test]
fn a_process_that_reads_nothing_fills_no_memory() {
    let daemon = Daemon::start();
    let mut php = Php::connect(&daemon.socket, &json!({}));
    php.lines
        .writer
        .set_write_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let before = daemon.memory_bytes("VmRSS");
    let id = "x".repeat(200_000);
    let unknown = json!({"jsonrpc": "2.0", "id": id, "method": "unknown"}).to_string() + "\n";
    let writes = (0..1_000).take_while(|_| php.lines.writer.write_all(unknown.as_bytes()).is_ok());
    // The sidecar reads no further while the process reads nothing.
    let sent = writes.count();
    assert!(sent < 100, "{sent} requests were read");
    // Other executors are still served.
    let mut other = Php::connect(&daemon.socket, &json!({}));
    other.execute(1, &json!({"calls": [call("a", "nothing", "{}")]}));
    assert_eq!(other.results(1, 1)[0]["error_code"], "not_found");
    let grown = daemon.memory_bytes("VmRSS").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
}

#[test]
fn the_id_of_a_running_execution_is_rejected() {
    let daemon = Daemon::start();
    let mut php = Php::connect(&daemon.socket, &json!({}));
    let calls = json!({"calls": [call("a", "greet", r#"{"name":"Ada"}"#)]});
    php.execute(
        1,
        &json!({"definitions": {"tools": [greet()]}, "calls": calls["calls"]}),
    );
    let request = php.read_other();
    for _ in 0..3 {
        php.execute(1, &calls);
        let error = php.read_other();
        let expected = "The id 1 is used by an execution that has not ended";
        assert_eq!(error["error"]["message"], expected);
    }
    php.respond(&request, &json!("Hello"));
    assert_eq!(php.results(1, 1)[0]["result"], "Hello");
    php.execute(1, &calls);
    let request = php.read_other();
    php.respond(&request, &json!("Hello again"));
    assert_eq!(php.results(1, 1)[0]["result"], "Hello again");
}

#[test]
fn headers_calls_and_bytes_of_executions_are_limited() {
    let daemon = Daemon::with_config("[workers]\nmax_message_bytes = 4000000\n");
    let mut php = Php::connect(&daemon.socket, &json!({}));
    let calculator = json!({"number": 2, "name": "calculator", "description": "Calculates", "inputSchema": {},
        "category": "general", "sidecarName": "calculator"});
    let calls = json!([
        call("a", "calculator", r#"{"expression":"6*7"}"#),
        call("b", "greet", r#"{"name":"Ada"}"#),
    ]);
    let definitions = json!({"tools": [greet(), calculator]});
    for (count, length, key) in [
        (101, 1, "http.max_headers"),
        (40_000, 1, "http.max_headers"),
        (3, 30_000, "http.max_header_bytes"),
    ] {
        let headers: serde_json::Map<_, _> = (0..count)
            .map(|n| (format!("x-{n}"), json!("v".repeat(length))))
            .collect();
        php.execute(
            1,
            &json!({"definitions": definitions, "calls": calls, "headers": headers}),
        );
        // Only the sidecar's own tools need the headers.
        let request = php.read_other();
        php.respond(&request, &json!("Hello"));
        let results = php.results(1, 2);
        assert_eq!(results[0]["error_code"], "invalid_input", "{results:?}");
        let error = format!("The context has more headers than {key} allows");
        assert_eq!(results[0]["error"], error);
        assert_eq!(results[1]["result"], "Hello");
    }
    let none = call("", "nothing", "");
    let many: Vec<_> = (0..10_001).map(|_| none.clone()).collect();
    php.execute(2, &json!({"calls": many}));
    let error = php.read_other()["error"]["message"].clone();
    assert_contains!(error.text(), "at most 10000 calls");
    // Each call has a copy of the context.
    let approved: Vec<_> = (0..1_000).map(|n| format!("{n:064}")).collect();
    php.execute(3, &json!({"calls": many[..200], "approved": approved}));
    let error = php.read_other()["error"]["message"].clone();
    assert_contains!(error.text(), "at most 8000000 bytes");
    php.execute(4, &json!({"calls": [none], "approved": approved}));
    assert_eq!(php.results(4, 1)[0]["error_code"], "not_found");
}
