//! Subscriptions to single resources, of packs or of upstream servers.

use pillion_mcp_client::{RpcError, SubscriptionFilter};
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::Caller;
use super::catalog::rpc_error;
use super::local;
use super::resource_not_found::resource_not_found;
use pillion_gateway::accounts::{AccountLimits, AccountReservation, PrincipalAccounts, Usage};
use pillion_gateway::calling_client::message::{
    INVALID_PARAMS, check_identifier, error_with_data, invalid_params,
};

/// Maximum number of resource subscriptions of one principal over all sessions and streams
/// (`count`), and maximum total size of the subscribed URIs (`bytes`). Sessions keep their
/// subscriptions even without a connection.
const MAX_PER_PRINCIPAL: Usage = Usage {
    count: 10_000,
    bytes: 4 * 1024 * 1024,
};

/// Maximum number of resource subscriptions of all principals together (`count`), and maximum total
/// size of the subscribed URIs (`bytes`).
const MAX_FOR_ALL_PRINCIPALS: Usage = Usage {
    count: 40_000,
    bytes: 16 * 1024 * 1024,
};

/// A subscription, which ends when dropped.
#[derive(Debug)]
pub(super) struct ResourceSubscription {
    _task: AbortOnDropHandle<()>,
    _reservation: AccountReservation,
}

/// Creates the accounts that limit the resource subscriptions of each principal.
pub(super) fn create_accounts() -> PrincipalAccounts {
    PrincipalAccounts::new(AccountLimits {
        principal: MAX_PER_PRINCIPAL,
        total: MAX_FOR_ALL_PRINCIPALS,
    })
}

/// Subscribes to a resource. `notify` receives the method and parameters of each notification until
/// the subscription is dropped.
pub(super) async fn subscribe(
    caller: &Caller,
    uri: &str,
    notify: impl Fn(&str, &RawValue) + Clone + Send + 'static,
) -> Result<ResourceSubscription, RpcError> {
    check_identifier("uri", uri)?;
    let usage = Usage::for_request(u64::try_from(uri.len()).unwrap_or(u64::MAX));
    let principal = caller.context.principal.as_deref();
    let reserve_result = caller.mcp.state.subscriptions.try_reserve(principal, usage);
    let reservation = reserve_result.ok_or_else(|| {
        let max_count = MAX_PER_PRINCIPAL.count;
        invalid_params(format!(
            "The caller may have at most {max_count} resource subscriptions over all sessions, and \
             fewer if their URIs are long: unsubscribe from other resources first"
        ))
    })?;
    if let Some(local_result) = local::subscribe(caller, uri, notify.clone()) {
        return local_result.map(|task| ResourceSubscription {
            _task: task,
            _reservation: reservation,
        });
    }
    let owner = caller.mcp.state.catalog.find_owner(caller, uri).await;
    let server = owner.ok_or_else(|| resource_not_found(uri))?;
    if server.uses_user_credentials() {
        let reason =
            "Resources of a server that uses credentials of users do not support subscriptions";
        return Err(error_with_data(
            INVALID_PARAMS,
            reason,
            &json!({ "uri": uri }),
        ));
    }
    let filter = SubscriptionFilter {
        resources: vec![uri.to_owned()],
        ..SubscriptionFilter::default()
    };
    let subscribe_result = server.shared_connection.client.subscribe(filter).await;
    let mut subscription = subscribe_result.map_err(|error| rpc_error(&server, &error))?;
    let task = tokio::spawn(async move {
        while let Some(notice) = subscription.next().await {
            notify(&notice.method, &notice.params);
        }
    });
    Ok(ResourceSubscription {
        _task: AbortOnDropHandle::new(task),
        _reservation: reservation,
    })
}
