use crate::prelude::*;

#[test]
fn i1_the_schemas_have_the_documented_shape() {
    let sidecar = Sidecar::start();
    for path in ["/api/v1/tools/schemas", "/api/v1/tools/schemas/"] {
        let body = sidecar.get(path).expect(200);
        assert_eq!(body["success"], true);
        assert_eq!(body["total"], body["schemas"].items().len());
        let calculator = &body["schemas"][0];
        assert_eq!(calculator["type"], "function");
        let function = &calculator["function"];
        assert_eq!(function["name"], "calculator");
        assert!(function.get("strict").is_none());
        assert_eq!(function["parameters"]["type"], "object");
        assert_eq!(function["parameters"]["required"], json!(["expression"]));
        let expression = &function["parameters"]["properties"]["expression"];
        assert_eq!(expression["type"], "string");
    }
}

#[test]
fn a3_required_is_present_even_if_empty() {
    let sidecar = Sidecar::start();
    let schemas = sidecar.client().fetch(route::LIST_SCHEMAS).unwrap().schemas;
    let get_time = schemas
        .iter()
        .find(|schema| schema["function"]["name"] == "get_time")
        .unwrap();
    assert_eq!(get_time["function"]["parameters"]["required"], json!([]));
}
