use crate::prelude::*;

#[test]
fn i5_every_operation_has_an_id_and_every_reference_resolves() {
    let sidecar = Sidecar::start();
    let reply = sidecar.get("/openapi.json");
    assert_eq!(reply.status, 200);
    assert_contains!(reply.head, "content-type: application/json");
    let document = reply.json();
    assert_starts_with!(document["openapi"].text(), "3.");
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|item| item.as_object().unwrap().values());
    let mut ids: Vec<_> = operations
        .map(|operation| operation["operationId"].text())
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

#[test]
fn i5_each_optional_body_may_be_absent_or_null() {
    let sidecar = Sidecar::start();
    let document = sidecar.get("/openapi.json").json();
    let schema_pointer = "/requestBody/content/application~1json/schema/oneOf";
    let mut operation_count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schemas = operation.pointer(schema_pointer).and_then(Value::as_array);
            if !schemas.is_some_and(|schemas| schemas.contains(&json!({"type": "null"}))) {
                continue;
            }
            operation_count += 1;
            let path = path.replace(['{', '}'], "");
            for body in ["", "null", "{}"] {
                let reply = sidecar.send(&method.to_uppercase(), &path, "", body.as_bytes());
                assert_ne!(
                    reply.status,
                    400,
                    "{method} {path} {body:?}: {}",
                    reply.text()
                );
            }
        }
    }
    assert!(operation_count >= 5, "{operation_count} optional bodies");
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
