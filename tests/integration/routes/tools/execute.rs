use pillion_client::wire::{ExecuteResponse, Execution};

use crate::prelude::*;

fn execute(sidecar: &Sidecar, tool: &str, arguments: &Value) -> Execution {
    let caller = Caller::default();
    match sidecar.client().execute(tool, arguments, &caller).unwrap() {
        ExecuteResponse::Executed(execution) => execution,
        ExecuteResponse::NotFound(failure) => panic!("{failure:?}"),
    }
}

#[test]
fn i1_a_call_has_all_keys_of_the_envelope() {
    let sidecar = Sidecar::start();
    let target = "/api/v1/tools/execute/calculator";
    let body = sidecar
        .post(target, r#"{"expression": "2 + 2"}"#)
        .expect(200);
    assert_eq!(body["success"], true);
    assert_eq!(body["tool"], "calculator");
    assert_eq!(body["result"]["success"], true);
    let expected = json!({"expression": "2 + 2", "result": 4});
    assert_eq!(body["result"]["data"], expected);
    assert_eq!(body["result"].get("error"), Some(&json!(null)));
    assert!(body["result"]["metadata"]["execution_time"].is_f64());
    assert_eq!(body["result"]["text"], "4");
    assert_eq!(
        sidecar
            .post(&format!("{target}/"), r#"{"expression": "1"}"#)
            .status,
        200
    );
}

#[test]
fn i1_all_data_of_a_tools_result_is_returned() {
    let sidecar = Sidecar::start();
    let outcome = execute(&sidecar, "both", &json!({})).result;
    assert_eq!(outcome.data, json!({"for": "programs"}));
    assert_eq!(outcome.result, Some(json!("for the model")));
    assert_eq!(outcome.text, "for the model");
    assert_eq!(outcome.metadata["source"], "test");
    let outcome = execute(&sidecar, "who", &json!({})).result;
    assert!(outcome.data.is_object());
    assert_eq!(outcome.result, None);
    assert_eq!(outcome.text, outcome.data.to_string());
}

#[test]
fn i2_a_failing_tool_gives_status_200_with_an_error_in_the_body() {
    let sidecar = Sidecar::start();
    let body = sidecar
        .post("/api/v1/tools/execute/refuse", "{}")
        .expect(200);
    assert_eq!(body["success"], true);
    assert_eq!(body["result"]["success"], false);
    assert_eq!(body["result"]["error"], "No, thank you");
    assert_eq!(body["result"]["error_code"], "invalid_input");
    assert_eq!(body["result"]["data"], json!({"kept": true}));
    assert_eq!(body["result"]["text"], "Error: No, thank you");
}

#[test]
fn i2_c3_invalid_arguments_give_a_failed_result() {
    let sidecar = Sidecar::start();
    for (arguments, error) in [
        (json!({}), "Missing required parameter: ms"),
        (
            json!({"ms": "soon"}),
            "Invalid type for ms: expected integer",
        ),
    ] {
        let outcome = execute(&sidecar, "sleep", &arguments).result;
        assert_eq!(outcome.error.as_deref(), Some(error));
        assert_eq!(outcome.error_code.as_deref(), Some("invalid_input"));
    }
}

#[test]
fn b5_an_unknown_tool_is_rejected_with_the_available_tools() {
    let sidecar = Sidecar::start();
    let body = sidecar.post("/api/v1/tools/execute/nope", "{}").expect(200);
    assert_eq!(body["success"], false);
    assert_eq!(body["tool"], "nope");
    assert_eq!(body["error"], "Tool 'nope' not found");
    assert_eq!(body["error_code"], "not_found");
    let available = body["details"]["available_tools"].items();
    assert!(available.contains(&json!("calculator")), "{available:?}");
}

#[test]
fn b5_odd_names_are_unknown_tools() {
    let sidecar = Sidecar::start();
    let long = "x".repeat(5000);
    for name in [
        "a b",
        "a/b",
        "../../etc/passwd",
        "ü",
        "%",
        "<script>",
        &long,
    ] {
        let failure = sidecar.client().run_missing_tool(name);
        let shown: String = name.chars().take(128).collect();
        assert_eq!(failure.error, format!("Tool '{shown}' not found"));
    }
}

#[test]
fn h3_aliases_call_their_tools() {
    let sidecar = Sidecar::start();
    let execution = execute(&sidecar, "time_tool", &json!({"format": "date"}));
    assert!(execution.result.success, "{execution:?}");
    assert_eq!(execution.tool, "time_tool");
    // This sidecar has neither tool, so the aliases are as unknown as their targets.
    for (alias, target) in [("search_tool", "web_search"), ("weather", "get_weather")] {
        let response = |name| {
            sidecar
                .client()
                .execute(name, &json!({}), &Caller::default())
                .unwrap()
        };
        assert_eq!(
            matches!(response(alias), ExecuteResponse::NotFound(_)),
            matches!(response(target), ExecuteResponse::NotFound(_))
        );
    }
}

#[test]
fn c2_a_slow_tool_times_out() {
    let sidecar = Sidecar::with_config("[tools.sleep]\ntimeout_ms = 100");
    let started = Instant::now();
    let outcome = execute(&sidecar, "sleep", &json!({"ms": 20_000})).result;
    assert_eq!(
        outcome.error.as_deref(),
        Some("Tool 'sleep' timed out after 0.1s")
    );
    assert_eq!(outcome.error_code.as_deref(), Some("timeout"));
    assert!(started.elapsed().as_secs() < 10);
}

#[test]
fn c5_a_panic_fails_only_its_call() {
    let sidecar = Sidecar::start();
    let outcome = execute(&sidecar, "panic", &json!({})).result;
    assert_eq!(outcome.error_code.as_deref(), Some("internal_error"));
    assert_lacks!(outcome.error.unwrap(), "secret");
    assert!(execute(&sidecar, "both", &json!({})).result.success);
}

#[test]
fn c7_rate_limits_count_per_user() {
    let sidecar = Sidecar::with_config("[tools.both.rate_limit]\nper_minute = 1");
    let run = |user: &str| {
        let caller = Caller::default().user(user);
        sidecar.client().run_tool("both", &json!({}), &caller)
    };
    assert!(run("alice").success);
    let rejected = run("alice");
    assert_eq!(rejected.error_code.as_deref(), Some("rate_limited"));
    assert!(rejected.metadata["retry_after"].as_u64().unwrap() <= 60);
    assert!(run("bob").success);
}

#[test]
fn the_caller_reaches_the_tool() {
    let sidecar = Sidecar::start();
    let caller = Caller::default()
        .user("Jürgen")
        .channel("support")
        .request_id("r-1");
    let outcome = sidecar.client().run_tool("who", &json!({}), &caller);
    let expected = json!({"user": "Jürgen", "channel": "support", "call_id": "r-1"});
    assert_eq!(outcome.data, expected);
}

#[test]
fn an_empty_body_and_phps_empty_array_mean_no_arguments() {
    let sidecar = Sidecar::start();
    for body in ["", " \n", "{}", "[]"] {
        let reply = sidecar.post("/api/v1/tools/execute/both", body);
        assert_eq!(reply.status, 200, "{body:?}");
        assert_eq!(reply.json()["result"]["success"], true, "{body:?}");
    }
}

#[test]
fn a_disconnect_cancels_the_call() {
    let sidecar = Sidecar::start();
    let client = pillion_client::Client::builder(&sidecar.socket)
        .timeout(std::time::Duration::from_millis(200))
        .build();
    let error = client
        .execute("sleep", &json!({"ms": 25_000}), &Caller::default())
        .unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // A running call would delay the end of the sidecar.
    let started = Instant::now();
    assert_eq!(sidecar.end().cut_off_connections, 0);
    assert!(started.elapsed().as_secs() < 10);
}
