use crate::prelude::*;

#[test]
fn an_unknown_route_is_json() {
    let sidecar = Sidecar::start();
    for target in ["/", "/api", "/api/v2/tools/", "/api/v1/tools/execute/a/b"] {
        let reply = sidecar.post(target, "{}");
        assert_eq!(reply.status, 404, "{target}");
        let body = reply.json();
        assert_eq!(body["success"], false);
        assert_eq!(body["error"], format!("There is no route {target}"));
        assert_eq!(body["error_code"], "not_found");
    }
}

#[test]
fn a_wrong_base_url_of_a_language_model_client_is_explained() {
    let sidecar = Sidecar::start();
    for (target, kind, expected) in [
        (
            "/chat/completions",
            "invalid_request_error",
            "must end in /v1",
        ),
        ("/v1/v1/messages", "not_found_error", "must not end in /v1"),
    ] {
        let reply = sidecar.post(target, "{}");
        assert_eq!(reply.status, 404, "{target}");
        let error = &reply.json()["error"];
        assert_json!(error["type"], kind);
        let message = error["message"].text();
        assert_starts_with!(message, &format!("There is no route {target}; "));
        assert_contains!(message, expected);
    }
}

#[test]
fn a_wrong_method_is_json_and_names_the_right_one() {
    let sidecar = Sidecar::start();
    for (method, target, allowed) in [
        ("POST", "/api/v1/tools/", "get"),
        ("POST", "/api/v1/tools/execute", "get"),
        ("DELETE", "/healthz", "get"),
        ("GET", "/api/v1/tools/execute/calculator", "post"),
        ("PUT", "/api/v1/tools/batch-execute", "post"),
    ] {
        let reply = sidecar.send(method, target, "", b"");
        assert_eq!(reply.status, 405, "{method} {target}");
        assert_eq!(reply.json()["error_code"], "invalid_input");
        let expected = format!("The method {method} is not allowed for the route {target}");
        assert_eq!(reply.json()["error"], expected);
        assert_contains!(reply.head, &format!("allow: {allowed}"));
    }
}

#[test]
fn every_answer_carries_a_request_id() {
    let sidecar = Sidecar::start();
    let with_id = |headers: &str| sidecar.get_with("/nope", headers).head;
    assert_contains!(with_id("x-request-id: abc-1\r\n"), "x-request-id: abc-1");
    let too_long = format!("x-request-id: {}\r\n", "a".repeat(129));
    for headers in ["", "x-request-id: \r\n", too_long.as_str()] {
        let head = with_id(headers);
        let line = head
            .lines()
            .find(|line| line.starts_with("x-request-id: "))
            .unwrap();
        assert_eq!(line.len(), "x-request-id: ".len() + 36, "{line}");
    }
}
