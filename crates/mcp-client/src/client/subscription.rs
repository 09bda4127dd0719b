use std::time::Duration;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, json};
use tokio::sync::{broadcast, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::delivery::Delivery;
use super::{McpClient, RequestOptions};
use crate::session::RequestExtras;
use crate::{Feature, McpError, McpErrorKind, Notification};

/// Maximum number of notifications that wait for a slow subscriber.
const MAX_WAITING: usize = 256;

const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(500);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(60);

/// Interval for checking that a connection with subscribers is open.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum interval while the connection is reopened repeatedly.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(30);

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Selects the notifications of a subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionFilter {
    /// Whether to receive `notifications/tools/list_changed`.
    pub tools_list_changed: bool,
    /// Whether to receive `notifications/prompts/list_changed`.
    pub prompts_list_changed: bool,
    /// Whether to receive `notifications/resources/list_changed`.
    pub resources_list_changed: bool,
    /// URIs for which to receive `notifications/resources/updated`.
    #[serde(rename = "resourceSubscriptions")]
    pub resources: Vec<String>,
}

/// A subscription to notifications, which ends when this value is dropped and survives
/// reconnections. Notifications of more than 64 KiB are dropped, and so are some that wait for a
/// slow subscriber.
#[derive(Debug)]
pub struct Subscription {
    notices: mpsc::Receiver<Notification>,
    _task: AbortOnDropHandle<()>,
}

impl Subscription {
    /// Returns the next notification; `None` if the server has ended the subscription.
    pub async fn next(&mut self) -> Option<Notification> {
        self.notices.recv().await
    }
}

impl SubscriptionFilter {
    fn matches(&self, notice: &Notification) -> bool {
        #[derive(Deserialize)]
        struct Updated {
            uri: String,
        }
        match notice.method.as_str() {
            "notifications/tools/list_changed" => self.tools_list_changed,
            "notifications/prompts/list_changed" => self.prompts_list_changed,
            "notifications/resources/list_changed" => self.resources_list_changed,
            "notifications/resources/updated" => {
                let updated = serde_json::from_str::<Updated>(notice.params.get());
                updated.is_ok_and(|updated| self.resources.contains(&updated.uri))
            }
            _ => false,
        }
    }
}

impl McpClient {
    /// Subscribes to notifications: with `subscriptions/listen` since revision 2026-07-28; before,
    /// with `resources/subscribe` and the notifications that the server pushes.
    ///
    /// # Errors
    /// [`McpError`] if the server rejects the subscription.
    pub async fn subscribe(&self, filter: SubscriptionFilter) -> Result<Subscription, McpError> {
        let subscribe = async {
            let session = self.shared.connections.session().await?;
            if session.has(Feature::RequestMetadata) {
                self.open_stream(filter).await
            } else {
                self.subscribe_to_pushed(filter).await
            }
        };
        let name = || {
            format!(
                "the notification subscription at server '{}'",
                self.config().label
            )
        };
        self.in_time(&RequestOptions::default(), name, subscribe)
            .await
    }

    async fn open_stream(&self, filter: SubscriptionFilter) -> Result<Subscription, McpErrorKind> {
        let (routed, mut incoming) = mpsc::channel(MAX_WAITING);
        let (sender, notices) = mpsc::channel(MAX_WAITING);
        let (ended, mut failure) = mpsc::channel(1);
        let client = self.clone();
        let params =
            to_raw_value(&json!({ "notifications": filter })).map_err(McpErrorKind::Encode)?;
        let task = tokio::spawn(async move {
            let error = client.run_subscription(&params, &routed).await;
            let _ = ended.send(error).await;
        });
        let stream = AbortOnDropHandle::new(task);
        let first = tokio::select! {
            // A rejection also ends the stream, so it has to be checked first.
            biased;
            Some(Err(error)) = failure.recv() => return Err(error),
            first = incoming.recv() => first,
        };
        let task = tokio::spawn(async move {
            let _stream = stream;
            let mut next = first;
            while let Some(notice) = next {
                if notice.method != ACKNOWLEDGED && sender.send(notice).await.is_err() {
                    return;
                }
                next = incoming.recv().await;
            }
        });
        Ok(Subscription {
            notices,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// Listens until the server ends the subscription, and reconnects if the connection breaks.
    async fn run_subscription(
        &self,
        params: &RawValue,
        notices: &mpsc::Sender<Notification>,
    ) -> Result<(), McpErrorKind> {
        let mut pause = MIN_BACKOFF_INTERVAL;
        loop {
            let outcome = match self.shared.connections.session().await {
                Ok(session) => {
                    let extras = RequestExtras {
                        subscriber: Some(notices.clone()),
                        ..RequestExtras::default()
                    };
                    let since = tokio::time::Instant::now();
                    let outcome = session
                        .exchange("subscriptions/listen", params, extras)
                        .await;
                    if since.elapsed() > MAX_BACKOFF_INTERVAL {
                        pause = MIN_BACKOFF_INTERVAL;
                    }
                    outcome
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => return Err(McpErrorKind::Rpc(error)),
                Err(error @ McpErrorKind::HttpStatus { status, .. }) if status < 500 => {
                    return Err(error);
                }
                Err(error @ McpErrorKind::Disconnected) => return Err(error),
                Err(error) => {
                    tracing::debug!(
                        %error, ?pause,
                        "A subscription stream ended and will be reopened"
                    );
                }
            }
            let closed = self.shared.connections.closed();
            closed.run_until_closed(tokio::time::sleep(pause)).await?;
            pause = (pause * 2).min(MAX_BACKOFF_INTERVAL);
        }
    }

    async fn subscribe_to_pushed(
        &self,
        filter: SubscriptionFilter,
    ) -> Result<Subscription, McpErrorKind> {
        let mut pushed = self.shared.peer.notices();
        let mut subscriptions = Vec::new();
        for uri in &filter.resources {
            subscriptions.push(self.subscribe_resource(uri).await?);
        }
        let mut session = self.shared.connections.listen().await?;
        let (sender, notices) = mpsc::channel(MAX_WAITING);
        let client = self.clone();
        let task = tokio::spawn(async move {
            let _subscriptions = subscriptions;
            let mut until_look = CHECK_INTERVAL;
            loop {
                match tokio::time::timeout(until_look, pushed.recv()).await {
                    Ok(Ok(notice)) if filter.matches(&notice) => {
                        if sender.send(notice).await.is_err() {
                            return;
                        }
                    }
                    Ok(Ok(_) | Err(broadcast::error::RecvError::Lagged(_))) => {}
                    Ok(Err(broadcast::error::RecvError::Closed)) => return,
                    Err(_) if session.is_open() => until_look = CHECK_INTERVAL,
                    Err(_) => {
                        match client.shared.connections.listen().await {
                            Ok(opened) => session = opened,
                            Err(McpErrorKind::Disconnected) => return,
                            Err(error) => {
                                tracing::debug!(%error, "No connection for server notifications");
                            }
                        }
                        // Half to all of the interval, so that clients do not reconnect at the same
                        // time.
                        let jitter = rand::rng().random_range(0.5..=1.0);
                        until_look = MAX_CHECK_INTERVAL
                            .min(until_look * 2)
                            .mul_f64(jitter)
                            .max(CHECK_INTERVAL);
                    }
                }
            }
        });
        Ok(Subscription {
            notices,
            _task: AbortOnDropHandle::new(task),
        })
    }

    async fn subscribe_resource(&self, uri: &str) -> Result<ResourceSubscription, McpErrorKind> {
        let subscription = ResourceSubscription {
            client: self.clone(),
            uri: uri.to_owned(),
        };
        self.shared.connections.settings().add(uri);
        send_resource_request(self, "resources/subscribe", uri).await?;
        Ok(subscription)
    }
}

/// A subscription to one resource, which unsubscribes on drop if it is the last one.
struct ResourceSubscription {
    client: McpClient,
    uri: String,
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);
        let was_last = self.client.shared.connections.settings().remove(&self.uri);
        if let (true, Ok(runtime)) = (was_last, tokio::runtime::Handle::try_current()) {
            let client = self.client.clone();
            let uri = std::mem::take(&mut self.uri);
            runtime.spawn(tokio::time::timeout(UNSUBSCRIBE_TIMEOUT, async move {
                if client.shared.connections.settings().has(&uri) {
                    return; // There is a new subscriber.
                }
                let outcome = send_resource_request(&client, "resources/unsubscribe", &uri).await;
                if let Err(error) = outcome {
                    tracing::debug!(
                        %error,
                        "The server did not confirm the end of a resource subscription"
                    );
                }
            }));
        }
    }
}

async fn send_resource_request(
    client: &McpClient,
    method: &str,
    uri: &str,
) -> Result<(), McpErrorKind> {
    let params = to_raw_value(&json!({ "uri": uri })).map_err(McpErrorKind::Encode)?;
    let (outcome, _) = client
        .exchange(method, &params, &Map::new(), &Delivery::default())
        .await?;
    outcome?;
    Ok(())
}
