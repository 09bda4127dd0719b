//! Subscriptions to single resources, of packs or of upstream servers.

use pillion_mcp_client::{RpcError, SubscriptionFilter};
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::Caller;
use super::catalog::rpc_error;
use super::local;
use crate::McpServer;
use pillion_gateway::calling_client::message::{INVALID_PARAMS, error_with};

/// A subscription, which ends when dropped.
pub(super) type Subscribed = AbortOnDropHandle<()>;

/// Subscribes to a resource. `notify` receives the method and parameters of each notification until
/// the subscription is dropped.
pub(super) async fn subscribe(
    mcp: &McpServer,
    caller: &Caller,
    uri: &str,
    notify: impl Fn(&str, &RawValue) + Clone + Send + 'static,
) -> Result<Subscribed, RpcError> {
    if let Some(subscribed) = local::subscribe(mcp, caller, uri, notify.clone()) {
        return subscribed;
    }
    let server = mcp.state.catalog.server_of(mcp, caller, uri).await;
    let server = server.ok_or_else(|| not_found(uri))?;
    if server.uses_user_credentials() {
        let reason =
            "Resources of a server that uses credentials of users do not support subscriptions";
        return Err(error_with(INVALID_PARAMS, reason, &json!({ "uri": uri })));
    }
    let filter = SubscriptionFilter {
        resources: vec![uri.to_owned()],
        ..SubscriptionFilter::default()
    };
    let subscription = server.shared.client.subscribe(filter).await;
    let mut subscription = subscription.map_err(|error| rpc_error(&server, &error))?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        while let Some(notice) = subscription.next().await {
            notify(&notice.method, &notice.params);
        }
    })))
}

/// Returns the error for an unknown resource.
pub(super) fn not_found(uri: &str) -> RpcError {
    error_with(INVALID_PARAMS, "Resource not found", &json!({ "uri": uri }))
}
