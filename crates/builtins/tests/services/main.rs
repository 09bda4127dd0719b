//! The tools that ask services over the network, against a local server that answers as those
//! services do, or as they should not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod search;
mod weather;

use std::sync::Arc;

use pillion_core::executor::{Executor, ExecutorConfig};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{CallContext, Tool, ToolCall, ToolResult};
use pillion_testkit::{Fault, FaultServer};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

/// What no text may repeat.
const KEY: &str = "k3y-0f-th3-t3st";

fn key() -> SecretString {
    KEY.into()
}

/// A service that answers each request with what `answers` has for its path.
async fn service(answers: &[(&'static str, Value)]) -> FaultServer {
    let answers = answers.to_vec();
    FaultServer::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        let found = answers.iter().find(|(known, _)| *known == path);
        let (status, body) = match found {
            Some((_, body)) => ("200 OK", body.to_string()),
            None => ("404 Not Found", "{}".to_owned()),
        };
        vec![Fault::answer(status, "application/json", body)]
    })
    .await
}

fn base(server: &FaultServer) -> Url {
    let mut url: Url = server.url.parse().unwrap();
    url.set_path("/");
    url
}

/// Runs a tool through the executor, and sees to it that the key is in nothing that is shown.
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

/// The method and path of each request, query included.
fn requests(server: &FaultServer) -> Vec<String> {
    let all = server.requests.all();
    all.iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect()
}
