//! The tools that use network services, against a local server that sends valid and invalid
//! responses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod search;
mod weather;

use std::sync::Arc;

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolCall, ToolResult};
use pillion_testkit::{Fault, FaultServer};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

/// The API key, which no text may contain.
const KEY: &str = "k3y-0f-th3-t3st";

fn key() -> SecretString {
    KEY.into()
}

/// Starts a service that responds to each path with its entry in `responses`.
async fn service(responses: &[(&'static str, Value)]) -> FaultServer {
    let responses = responses.to_vec();
    FaultServer::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let found = responses.iter().find(|(known, _)| *known == path);
        let (status, body) = match found {
            Some((_, body)) => ("200 OK", body.to_string()),
            None => ("404 Not Found", "{}".to_owned()),
        };
        vec![Fault::response(status, "application/json", body)]
    })
    .await
}

/// Checks the error code and the message of a failed call.
#[track_caller]
fn assert_failed(result: &ToolResult, code: ErrorCode, message: &str) {
    assert_eq!(result.error_code, Some(code), "{result:?}");
    let error = result.error.as_deref().unwrap();
    assert!(error.contains(message), "{result:?}");
}

fn base(server: &FaultServer) -> Url {
    let mut url: Url = server.url.parse().unwrap();
    url.set_path("/");
    url
}

/// Runs a tool through the executor, and checks that no output contains the key.
async fn run(tool: impl Tool + std::fmt::Debug, arguments: Value) -> ToolResult {
    let shown = format!("{tool:?}");
    let registry = Arc::new(ToolRegistry::new());
    let name = tool.definition().name().to_string();
    registry.register(Arc::new(tool)).unwrap();
    let executor = Executor::new(registry, ExecutorConfig::default());
    let context = CallContext::default();
    let call = ToolCall::new("1", name, arguments);
    let result = Box::pin(executor.execute_one(call, &context)).await;
    for shown in [shown, format!("{result:?}")] {
        assert!(!shown.contains(key().expose_secret()), "{shown}");
    }
    result
}

/// Returns the method and path of each request, including the query.
fn requests(server: &FaultServer) -> Vec<String> {
    let all = server.requests.all();
    all.iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}
