use crate::prelude::*;

#[test]
fn i1_the_list_has_the_documented_shape() {
    let sidecar = Sidecar::start();
    let reply = sidecar.get("/api/v1/tools/");
    assert_eq!(reply.status, 200);
    assert_contains!(reply.head, "content-type: application/json");
    let body = reply.json();
    assert_eq!(body["success"], true);
    assert_eq!(body["total"], body["tools"].items().len());
    assert!(body.get("unavailable_servers").is_none());
    let calculator = &body["tools"][0];
    assert_eq!(calculator["name"], "calculator");
    assert_eq!(calculator["category"], "math");
    assert!(!calculator["description"].text().is_empty());
    let expression = &calculator["parameters"][0];
    assert_eq!(expression["name"], "expression");
    assert_eq!(expression["type"], "STRING");
    assert_eq!(expression["required"], true);
    assert_eq!(expression.get("default"), Some(&json!(null)));
    assert!(!expression["description"].text().is_empty());
}

#[test]
fn i1_the_trailing_slash_makes_no_difference() {
    let sidecar = Sidecar::start();
    let with = sidecar.get("/api/v1/tools/");
    let without = sidecar.get("/api/v1/tools");
    assert_eq!(with.body, without.body);
}

#[test]
fn b2_the_list_can_be_filtered_by_category() {
    let sidecar = Sidecar::start();
    let client = sidecar.client();
    let list_of = |category| {
        let request = client.request(route::LIST_TOOLS, []);
        let response = request.query([("category", category)]).send().unwrap();
        response.decode().unwrap()
    };
    let list = list_of("test");
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["sleep"]);
    assert_eq!(list_of("a&b").total, 0);
}
