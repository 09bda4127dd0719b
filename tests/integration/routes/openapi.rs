use serde_json::Value;

use crate::http;
use crate::sidecar::Sidecar;

#[test]
fn i5_the_document_describes_every_route() {
    let sidecar = Sidecar::start();
    let reply = http::get(&sidecar.socket, "/openapi.json");
    assert_eq!(reply.status, 200);
    assert!(
        reply.head.contains("content-type: application/json"),
        "{}",
        reply.head
    );
    let document = reply.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    for (path, method) in [
        ("/api/v1/tools/", "get"),
        ("/api/v1/tools/schemas", "get"),
        ("/api/v1/tools/{tool_name}", "get"),
        ("/api/v1/tools/execute/{tool_name}", "post"),
        ("/api/v1/tools/batch-execute", "post"),
        ("/api/v1/servers/", "get"),
        ("/api/v1/servers/test", "post"),
        ("/api/v1/servers/refresh", "post"),
        ("/api/v1/servers/{id}", "get"),
        ("/api/v1/servers/{id}", "put"),
        ("/api/v1/servers/{id}", "patch"),
        ("/api/v1/servers/{id}", "delete"),
        ("/api/v1/servers/{id}/enable", "post"),
        ("/api/v1/servers/{id}/disable", "post"),
        ("/api/v1/servers/{id}/reconnect", "post"),
        ("/api/v1/servers/{id}/tools", "get"),
        ("/api/v1/servers/{id}/test", "post"),
        ("/api/v1/vault/rotate", "post"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/api/v1/status", "get"),
    ] {
        let operation = &document["paths"][path][method];
        assert!(!operation["responses"]["200"].is_null(), "{method} {path}");
    }
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|item| item.as_object().unwrap().values());
    let mut ids: Vec<_> = operations
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} leads nowhere"
        );
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::String(target) if key == "$ref" => found.push(target.clone()),
                    _ => collect_references(value, found),
                }
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        _ => {}
    }
}
