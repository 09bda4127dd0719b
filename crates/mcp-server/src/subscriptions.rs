//! Subscriptions to single resources, of packs or of upstream servers.

use pillion_mcp_client::{RpcError, SubscriptionFilter};
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::Caller;
use super::catalog::rpc_error;
use super::local;
use super::resource_not_found::resource_not_found;
use pillion_gateway::accounts::{AccountLimits, Charge, PrincipalAccounts, Usage};
use pillion_gateway::calling_client::message::{
    INVALID_PARAMS, check_identifier, error_with, invalid_params,
};

/// Maximum number of resource subscriptions of one principal, and maximum size of their URIs, over
/// all sessions and streams. Sessions keep their subscriptions even without a connection.
const MAX_PER_PRINCIPAL: Usage = Usage {
    count: 10_000,
    bytes: 4 * 1024 * 1024,
};

/// Maximum number and size of the subscriptions of all principals together.
const MAX_TOTAL: Usage = Usage {
    count: 40_000,
    bytes: 16 * 1024 * 1024,
};

/// A subscription, which ends when dropped.
#[derive(Debug)]
pub(super) struct Subscribed {
    _task: AbortOnDropHandle<()>,
    _charge: Charge,
}

/// Creates the accounts of the subscriptions.
pub(super) fn accounts() -> PrincipalAccounts {
    PrincipalAccounts::new(AccountLimits {
        principal: MAX_PER_PRINCIPAL,
        total: MAX_TOTAL,
    })
}

/// Subscribes to a resource. `notify` receives the method and parameters of each notification until
/// the subscription is dropped.
pub(super) async fn subscribe(
    caller: &Caller,
    uri: &str,
    notify: impl Fn(&str, &RawValue) + Clone + Send + 'static,
) -> Result<Subscribed, RpcError> {
    check_identifier("uri", uri)?;
    let usage = Usage::one(u64::try_from(uri.len()).unwrap_or(u64::MAX));
    let principal = caller.context.principal.as_deref();
    let charged = caller.mcp.state.subscriptions.charge(principal, usage);
    let charge = charged.ok_or_else(|| {
        invalid_params("The caller has too many resource subscriptions over all its sessions")
    })?;
    if let Some(subscribed) = local::subscribe(caller, uri, notify.clone()) {
        return subscribed.map(|task| Subscribed {
            _task: task,
            _charge: charge,
        });
    }
    let owner = caller.mcp.state.catalog.owner(caller, uri).await;
    let server = owner.ok_or_else(|| resource_not_found(uri))?;
    if server.uses_user_credentials() {
        let reason =
            "Resources of a server that uses credentials of users do not support subscriptions";
        return Err(error_with(INVALID_PARAMS, reason, &json!({ "uri": uri })));
    }
    let filter = SubscriptionFilter {
        resources: vec![uri.to_owned()],
        ..SubscriptionFilter::default()
    };
    let subscribed = server.shared.client.subscribe(filter).await;
    let mut subscription = subscribed.map_err(|error| rpc_error(&server, &error))?;
    let task = tokio::spawn(async move {
        while let Some(notice) = subscription.next().await {
            notify(&notice.method, &notice.params);
        }
    });
    Ok(Subscribed {
        _task: AbortOnDropHandle::new(task),
        _charge: charge,
    })
}
