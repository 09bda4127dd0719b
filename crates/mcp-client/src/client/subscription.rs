use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::request_sender::{RequestSender, to_raw};
use crate::on_drop::run_in_background;
use crate::session::RequestExtras;
use crate::{Feature, McpErrorKind, Notification};

/// Maximum number of notifications that wait for a slow subscriber.
const MAX_QUEUED_NOTIFICATIONS: usize = 256;

const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(500);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(60);

/// Interval at which a subscription checks that its connection is open.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum interval between two checks of a subscription's connection. The interval grows while the
/// connection keeps breaking.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(30);

const ACKNOWLEDGED_METHOD: &str = "notifications/subscriptions/acknowledged";

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

/// A subscription to notifications. Survives reconnections, and ends when this value is dropped. A
/// notification is lost if it has more than 64 KiB, or if the queue of a slow subscriber is full.
#[derive(Debug)]
pub struct Subscription {
    notifications: mpsc::Receiver<Notification>,
    _task: AbortOnDropHandle<()>,
}

impl Subscription {
    /// Returns the next notification; `None` if the server has ended the subscription.
    pub async fn next(&mut self) -> Option<Notification> {
        self.notifications.recv().await
    }
}

impl SubscriptionFilter {
    fn matches(&self, notification: &Notification) -> bool {
        #[derive(Deserialize)]
        struct UpdatedParams {
            uri: String,
        }
        match notification.method.as_str() {
            "notifications/tools/list_changed" => self.tools_list_changed,
            "notifications/prompts/list_changed" => self.prompts_list_changed,
            "notifications/resources/list_changed" => self.resources_list_changed,
            "notifications/resources/updated" => {
                let params = serde_json::from_str::<UpdatedParams>(notification.params.get());
                params.is_ok_and(|params| self.resources.contains(&params.uri))
            }
            _ => false,
        }
    }
}

/// Subscribes to notifications: since revision 2026-07-28 with `subscriptions/listen`; in older
/// revisions with `resources/subscribe` and the notifications that the server pushes.
pub(super) async fn subscribe(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let session = sender.connections.session().await?;
    if session.has_feature(Feature::RequestMetadata) {
        open_stream(sender, filter).await
    } else {
        subscribe_to_pushed_notifications(sender, filter).await
    }
}

async fn open_stream(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let (stream_tx, mut stream_rx) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
    let (subscriber_tx, notifications) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
    let (outcome_tx, mut outcome_rx) = mpsc::channel(1);
    let sender = Arc::clone(sender);
    let params = to_raw(&json!({ "notifications": filter }))?;
    let stream_task = tokio::spawn(async move {
        let outcome = run_subscription(&sender, &params, &stream_tx).await;
        let _ = outcome_tx.send(outcome).await;
    });
    let stream_guard = AbortOnDropHandle::new(stream_task);
    let first_notification = tokio::select! {
        // A rejection of the subscription also ends `stream_rx`, so `outcome_rx` is checked first.
        biased;
        Some(Err(error)) = outcome_rx.recv() => return Err(error),
        notification = stream_rx.recv() => notification,
    };
    let task = tokio::spawn(async move {
        let _stream_guard = stream_guard;
        let mut next_notification = first_notification;
        while let Some(notification) = next_notification {
            if notification.method != ACKNOWLEDGED_METHOD
                && subscriber_tx.send(notification).await.is_err()
            {
                return;
            }
            next_notification = stream_rx.recv().await;
        }
    });
    Ok(Subscription {
        notifications,
        _task: AbortOnDropHandle::new(task),
    })
}

/// Receives notifications until the server ends the subscription. Reconnects if the connection
/// breaks.
async fn run_subscription(
    sender: &RequestSender,
    params: &RawValue,
    subscriber: &mpsc::Sender<Notification>,
) -> Result<(), McpErrorKind> {
    let mut backoff = MIN_BACKOFF_INTERVAL;
    loop {
        let outcome = match sender.connections.session().await {
            Ok(session) => {
                let extras = RequestExtras {
                    subscriber: Some(subscriber.clone()),
                    ..RequestExtras::default()
                };
                let started_at = tokio::time::Instant::now();
                let outcome = session
                    .exchange("subscriptions/listen", params, extras)
                    .await;
                if started_at.elapsed() > MAX_BACKOFF_INTERVAL {
                    backoff = MIN_BACKOFF_INTERVAL;
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
                    %error, pause = ?backoff,
                    "A subscription stream ended and will be reopened"
                );
            }
        }
        let close_signal = &sender.connections.close_signal;
        let pause_timer = tokio::time::sleep(backoff);
        close_signal.run_until_closed(pause_timer).await?;
        backoff = (backoff * 2).min(MAX_BACKOFF_INTERVAL);
    }
}

async fn subscribe_to_pushed_notifications(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let mut pushed_notifications = sender.peer.subscribe_to_notifications();
    let mut subscriptions = Vec::new();
    for uri in &filter.resources {
        subscriptions.push(subscribe_resource(sender, uri).await?);
    }
    let mut session = sender.connections.listen().await?;
    let (subscriber_tx, notifications) = mpsc::channel(MAX_QUEUED_NOTIFICATIONS);
    let sender = Arc::clone(sender);
    let task = tokio::spawn(async move {
        let _subscriptions = subscriptions;
        let mut check_interval = CHECK_INTERVAL;
        loop {
            match tokio::time::timeout(check_interval, pushed_notifications.recv()).await {
                Ok(Ok(notification)) if filter.matches(&notification) => {
                    if subscriber_tx.send(notification).await.is_err() {
                        return;
                    }
                }
                Ok(Ok(_) | Err(broadcast::error::RecvError::Lagged(_))) => {}
                Ok(Err(broadcast::error::RecvError::Closed)) => return,
                Err(_) if session.is_open() => check_interval = CHECK_INTERVAL,
                Err(_) => {
                    match sender.connections.listen().await {
                        Ok(new_session) => session = new_session,
                        Err(McpErrorKind::Disconnected) => return,
                        Err(error) => {
                            tracing::debug!(
                                %error,
                                "Cannot connect to receive notifications; retrying"
                            );
                        }
                    }
                    // The interval until the next check is randomly reduced by up to half, so that
                    // many clients do not reconnect at the same time.
                    let jitter = rand::rng().random_range(0.5..=1.0);
                    let interval = MAX_CHECK_INTERVAL.min(check_interval * 2);
                    check_interval = interval.mul_f64(jitter).max(CHECK_INTERVAL);
                }
            }
        }
    });
    Ok(Subscription {
        notifications,
        _task: AbortOnDropHandle::new(task),
    })
}

async fn subscribe_resource(
    sender: &Arc<RequestSender>,
    uri: &str,
) -> Result<ResourceSubscription, McpErrorKind> {
    let subscription = ResourceSubscription {
        sender: Arc::clone(sender),
        uri: uri.to_owned(),
    };
    sender.connections.settings.add_subscriber(uri);
    let params = json!({ "uri": uri });
    sender.send("resources/subscribe", &params).await?;
    Ok(subscription)
}

/// A subscription to one resource. When the last subscription to a resource is dropped, the client
/// sends `resources/unsubscribe`.
struct ResourceSubscription {
    sender: Arc<RequestSender>,
    uri: String,
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let settings = &self.sender.connections.settings;
        if !settings.remove_subscriber(&self.uri) {
            return;
        }
        let (sender, uri) = (Arc::clone(&self.sender), std::mem::take(&mut self.uri));
        run_in_background(async move {
            if sender.connections.settings.has_subscribers(&uri) {
                return; // The resource has a new subscriber, so the subscription must continue.
            }
            let params = json!({ "uri": uri });
            if let Err(error) = sender.send("resources/unsubscribe", &params).await {
                tracing::debug!(
                    %error,
                    "The server did not confirm the end of a resource subscription"
                );
            }
        });
    }
}
