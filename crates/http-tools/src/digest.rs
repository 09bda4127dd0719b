//! Computes the digest of a tool, so that an approval does not apply to a changed tool.

use pillion_core::digest::sha256_hex;
use pillion_core::tool::ToolDefinition;
use serde_json::{Value, json};

use crate::api_access::ApiAccess;
use crate::request::RequestPlan;

/// Returns the SHA-256 of a tool's request, credential identity, result path and description. The
/// digest contains the location of each secret instead of the value, so that a changed credential
/// does not change the digest.
pub(crate) fn compute_tool_digest(
    definition: &ToolDefinition,
    plan: &RequestPlan,
    access: &ApiAccess,
    result_at: Option<&str>,
) -> String {
    let headers = plan.headers.iter().map(|(name, value)| {
        let digest_value = if access.is_secret(name) {
            json!("secret")
        } else {
            value.to_value()
        };
        json!([name.as_str(), digest_value])
    });
    let query = plan.query.iter().map(|part| {
        let style = format!("{:?}", part.style);
        json!([part.name, part.value.to_value(), style])
    });
    let mut tool = json!({
        "definition": [
            definition.name().as_str(),
            definition.description(),
            definition.category(),
            definition.input_schema(),
            definition.annotations(),
        ],
        "method": plan.method.as_str(),
        "url": plan.url.to_string(),
        "query": query.collect::<Value>(),
        "headers": headers.collect::<Value>(),
        "body": plan.body.as_ref().map(|body| body.to_value()),
        "identity": access.credential_identity,
        "success": access.limits.success_statuses,
        "result_at": result_at,
    });
    tool.sort_all_objects();
    sha256_hex(&tool.to_string())
}

#[cfg(test)]
mod tests {
    use pillion_core::tool::Tool;

    use super::*;
    use crate::HttpTool;

    fn declared() -> Value {
        json!({
            "name": "orders",
            "description": "Orders",
            "url": "https://shop.example/orders/{number}",
            "query": {"page": {"$from": "/input/page"}},
            "headers": {"X-Account": "one", "X-Key": "s3cret"},
            "secret_headers": ["x-key"],
            "authentication": {"type": "bearer", "token": "t0ken"},
        })
    }

    fn digest_with(changes: &Value) -> String {
        let mut entry = declared();
        for (key, value) in changes.as_object().unwrap() {
            entry[key] = value.clone();
        }
        let tool = HttpTool::new(serde_json::from_value(entry).unwrap()).unwrap();
        tool.digest().unwrap()
    }

    #[test]
    fn g3_different_tools_have_different_digests() {
        let schema = json!({"type": "object", "properties": {"number": {}, "page": {}}});
        let changes = [
            json!({}),
            json!({"description": "Other orders"}),
            json!({"category": "shop"}),
            json!({"method": "DELETE"}),
            json!({"url": "https://shop.example/customers/{number}"}),
            json!({"url": "https://other.example/orders/{number}"}),
            json!({"query": {"page": 1}}),
            json!({"headers": {"X-Account": "two", "X-Key": "s3cret"}}),
            json!({"headers": {"X-Account": "one", "X-Key": "s3cret", "X-More": {"$from": "/input/more"}}}),
            json!({"method": "POST", "body": {"a": 1}}),
            json!({"method": "POST", "body": {"$literal": {"a": 1, "b": 2}}}),
            json!({"input_schema": schema}),
            json!({"authentication": {"type": "none"}}),
            json!({"authentication": {"type": "api-key", "key": "t0ken"}}),
            json!({"authentication": {"type": "basic", "username": "a", "password": "t0ken"}}),
            json!({"authentication": {"type": "basic", "username": "b", "password": "t0ken"}}),
            json!({"success": ["2XX", 404]}),
            json!({"result_at": "/orders"}),
            json!({"read_only": false}),
        ];
        let mut digests: Vec<_> = changes.iter().map(digest_with).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), changes.len());
    }

    #[test]
    fn l1_secrets_do_not_change_the_digest() {
        let same = digest_with(&json!({}));
        for change in [
            json!({"authentication": {"type": "bearer", "token": "another"}}),
            json!({"headers": {"X-Account": "one", "X-Key": "another"}}),
            json!({"timeout_ms": 5}),
            json!({"method": "get"}),
        ] {
            assert_eq!(digest_with(&change), same, "{change}");
        }
        let plain = |token| json!({"headers": {"Authorization": token, "X-Key": "k"}});
        assert_eq!(digest_with(&plain("a")), digest_with(&plain("b")));
    }
}
