use pillion_client::ClientError;
use pillion_client::wire::{
    BatchCall, BatchMode, BatchRequest, BatchResponse, ExecuteResponse, route,
};

use crate::prelude::*;

fn call(id: &str, name: &str, arguments: Value) -> BatchCall {
    BatchCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

fn send(
    sidecar: &Sidecar,
    request: &BatchRequest,
    caller: &Caller,
) -> Result<BatchResponse, ClientError> {
    let client = sidecar.client();
    let sent = client.request(route::EXECUTE_BATCH, []).caller(caller);
    sent.send_json(request)?.decode()
}

fn run(sidecar: &Sidecar, calls: Vec<BatchCall>, mode: BatchMode) -> Vec<(String, bool)> {
    let request = BatchRequest { calls, mode };
    let response = send(sidecar, &request, &Caller::default()).unwrap();
    assert_eq!(response.total, response.results.len());
    let results = response.results.into_iter();
    results
        .map(|result| (result.id, result.response.is_success()))
        .collect()
}

#[test]
fn c1_order_is_kept_and_failures_affect_no_other_call() {
    let sidecar = Sidecar::start();
    for mode in [BatchMode::Parallel, BatchMode::Sequential] {
        let calls = vec![
            call("1", "calculator", json!({"expression": "1+1"})),
            call("2", "calculator", json!({"expression": "1/0"})),
            call("3", "nope", json!({})),
            call("4", "panic", json!({})),
            call("5", "sleep", json!({"ms": 30})),
            call("6", "calculator", json!(r#"{"expression": "2+2"}"#)),
        ];
        let results = run(&sidecar, calls, mode);
        let expected: Vec<_> = [
            ("1", true),
            ("2", false),
            ("3", false),
            ("4", false),
            ("5", true),
            ("6", true),
        ]
        .map(|(id, ok)| (id.to_owned(), ok))
        .into();
        assert_eq!(results, expected, "{mode:?}");
    }
}

#[test]
fn i2_each_result_equals_the_result_of_a_single_call() {
    let sidecar = Sidecar::start();
    let body = json!({"calls": [
        {"id": "a", "type": "function", "index": 0, "name": "both", "arguments": {}},
        {"id": "b", "name": "nope"},
    ]});
    let body = sidecar
        .post("/api/v1/tools/batch-execute/", body.to_string())
        .expect(200);
    assert_eq!(body["success"], true);
    assert_eq!(body["total"], 2);
    assert_eq!(body["results"][0]["id"], "a");
    assert_eq!(body["results"][0]["tool"], "both");
    let expected = json!({"for": "programs"});
    assert_eq!(body["results"][0]["result"]["data"], expected);
    assert_eq!(body["results"][1]["success"], false);
    assert_eq!(body["results"][1]["error"], "Tool 'nope' not found");
    assert_eq!(body["results"][1]["error_code"], "not_found");
}

#[test]
fn c1_parallel_calls_run_side_by_side() {
    let sidecar = Sidecar::start();
    let calls = |count| {
        (0..count)
            .map(|n: u32| call(&n.to_string(), "sleep", json!({"ms": 400})))
            .collect()
    };
    let started = Instant::now();
    run(&sidecar, calls(5), BatchMode::Parallel);
    assert!(
        started.elapsed() < Duration::from_millis(1900),
        "{:?}",
        started.elapsed()
    );
    let started = Instant::now();
    run(&sidecar, calls(2), BatchMode::Sequential);
    assert!(started.elapsed() >= Duration::from_millis(800));
}

#[test]
fn a_batch_over_the_limit_runs_nothing() {
    let sidecar = Sidecar::with_config("[http]\nmax_batch_calls = 2");
    let calls = (0..3)
        .map(|n| call(&n.to_string(), "sleep", json!({"ms": 1})))
        .collect();
    let request = BatchRequest {
        calls,
        mode: BatchMode::Parallel,
    };
    let error = send(&sidecar, &request, &Caller::default()).unwrap_err();
    assert_matches!(error, ClientError::Status { status: 400, .. });
    assert_eq!(error.to_string(), "The batch has 3 calls; the limit is 2");
    sidecar.client().fetch(route::HEALTH).unwrap();
    assert_eq!(
        sidecar
            .sleeps_begun
            .load(std::sync::atomic::Ordering::SeqCst),
        0
    );
}

#[test]
fn an_empty_batch_has_no_results() {
    let sidecar = Sidecar::start();
    assert!(run(&sidecar, Vec::new(), BatchMode::Parallel).is_empty());
}

#[test]
fn a_body_that_is_not_a_batch_is_rejected() {
    let sidecar = Sidecar::start();
    let cases = [
        ("{}", "missing field `calls`"),
        ("[]", "The request body is not a valid batch"),
        (r#"{"calls": {}}"#, "The request body is not a valid batch"),
        (r#"{"calls": [{"name": "both"}]}"#, "missing field `id`"),
        (r#"{"calls": [], "mode": "both"}"#, "unknown variant `both`"),
        (
            r#"{"calls": [], "parallel": true}"#,
            "unknown field `parallel`",
        ),
        (r#"{"calls": ["#, "Malformed JSON"),
        ("", "Malformed JSON"),
    ];
    for (body, expected) in cases {
        let reply = sidecar.post("/api/v1/tools/batch-execute", body);
        assert_eq!(reply.status, 400, "{body}");
        let error = reply.json();
        assert!(error["error"].text().contains(expected), "{error}");
        assert_eq!(error["error_code"], "invalid_input");
    }
}

#[test]
fn the_caller_reaches_every_call() {
    let sidecar = Sidecar::start();
    let request = BatchRequest {
        calls: vec![call("x", "who", json!({}))],
        mode: BatchMode::Parallel,
    };
    let caller = Caller::default().user("alice");
    let response = send(&sidecar, &request, &caller).unwrap();
    let ExecuteResponse::Executed(execution) = &response.results[0].response else {
        panic!("{response:?}");
    };
    let expected = json!({"user": "alice", "channel": null, "call_id": "x"});
    assert_eq!(execution.result.data, expected);
}
