use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::sync::{broadcast, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::delivery::Delivery;
use super::request_sender::RequestSender;
use super::rounds::raw;
use crate::on_drop::run_in_background;
use crate::session::RequestExtras;
use crate::{Feature, McpErrorKind, Notification};

/// Maximum number of notifications that wait for a slow subscriber.
const MAX_WAITING: usize = 256;

const MIN_BACKOFF_INTERVAL: Duration = Duration::from_millis(500);
const MAX_BACKOFF_INTERVAL: Duration = Duration::from_secs(60);

/// Interval for checking that the connection of a subscription is open.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum interval for checking a connection that keeps breaking.
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

/// A subscription to notifications. Survives reconnections, and ends when this value is dropped.
/// Notifications of more than 64 KiB are dropped, and so are the ones that exceed the queue of a
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

/// Subscribes to notifications: since revision 2026-07-28 with `subscriptions/listen`; in older
/// revisions with `resources/subscribe` and the notifications that the server pushes.
pub(super) async fn subscribe(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let session = sender.connections.session().await?;
    if session.has(Feature::RequestMetadata) {
        open_stream(sender, filter).await
    } else {
        subscribe_to_pushed(sender, filter).await
    }
}

async fn open_stream(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let (routed, mut incoming) = mpsc::channel(MAX_WAITING);
    let (notify, notices) = mpsc::channel(MAX_WAITING);
    let (ended, mut rejection) = mpsc::channel(1);
    let sender = Arc::clone(sender);
    let params = raw(&json!({ "notifications": filter }))?;
    let stream = tokio::spawn(async move {
        let error = run_subscription(&sender, &params, &routed).await;
        let _ = ended.send(error).await;
    });
    let stream = AbortOnDropHandle::new(stream);
    let first = tokio::select! {
        // A rejection also ends the stream, so the rejection has to be checked first.
        biased;
        Some(Err(error)) = rejection.recv() => return Err(error),
        first = incoming.recv() => first,
    };
    let task = tokio::spawn(async move {
        let _stream = stream;
        let mut next = first;
        while let Some(notice) = next {
            if notice.method != ACKNOWLEDGED && notify.send(notice).await.is_err() {
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

/// Receives notifications until the server ends the subscription. Reconnects if the connection
/// breaks.
async fn run_subscription(
    sender: &RequestSender,
    params: &RawValue,
    notices: &mpsc::Sender<Notification>,
) -> Result<(), McpErrorKind> {
    let mut pause = MIN_BACKOFF_INTERVAL;
    loop {
        let outcome = match sender.connections.session().await {
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
        let closed = &sender.connections.closed;
        closed.run_until_closed(tokio::time::sleep(pause)).await?;
        pause = (pause * 2).min(MAX_BACKOFF_INTERVAL);
    }
}

async fn subscribe_to_pushed(
    sender: &Arc<RequestSender>,
    filter: SubscriptionFilter,
) -> Result<Subscription, McpErrorKind> {
    let mut pushed = sender.peer.notices();
    let mut subscriptions = Vec::new();
    for uri in &filter.resources {
        subscriptions.push(subscribe_resource(sender, uri).await?);
    }
    let mut session = sender.connections.listen().await?;
    let (notify, notices) = mpsc::channel(MAX_WAITING);
    let sender = Arc::clone(sender);
    let task = tokio::spawn(async move {
        let _subscriptions = subscriptions;
        let mut until_look = CHECK_INTERVAL;
        loop {
            match tokio::time::timeout(until_look, pushed.recv()).await {
                Ok(Ok(notice)) if filter.matches(&notice) => {
                    if notify.send(notice).await.is_err() {
                        return;
                    }
                }
                Ok(Ok(_) | Err(broadcast::error::RecvError::Lagged(_))) => {}
                Ok(Err(broadcast::error::RecvError::Closed)) => return,
                Err(_) if session.is_open() => until_look = CHECK_INTERVAL,
                Err(_) => {
                    match sender.connections.listen().await {
                        Ok(opened) => session = opened,
                        Err(McpErrorKind::Disconnected) => return,
                        Err(error) => {
                            tracing::debug!(%error, "No connection for server notifications");
                        }
                    }
                    // The interval is randomly reduced by up to half, so that clients do not
                    // reconnect together.
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

async fn subscribe_resource(
    sender: &Arc<RequestSender>,
    uri: &str,
) -> Result<ResourceSubscription, McpErrorKind> {
    let subscription = ResourceSubscription {
        sender: Arc::clone(sender),
        uri: uri.to_owned(),
    };
    sender.connections.settings.add(uri);
    send_resource_request(sender, "resources/subscribe", uri).await?;
    Ok(subscription)
}

/// A subscription to one resource. Dropping the last one of a resource unsubscribes.
struct ResourceSubscription {
    sender: Arc<RequestSender>,
    uri: String,
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        if !self.sender.connections.settings.remove(&self.uri) {
            return;
        }
        let (sender, uri) = (Arc::clone(&self.sender), std::mem::take(&mut self.uri));
        run_in_background(async move {
            if sender.connections.settings.has(&uri) {
                return; // The resource has a new subscriber.
            }
            let outcome = send_resource_request(&sender, "resources/unsubscribe", &uri).await;
            if let Err(error) = outcome {
                tracing::debug!(
                    %error,
                    "The server did not confirm the end of a resource subscription"
                );
            }
        });
    }
}

async fn send_resource_request(
    sender: &RequestSender,
    method: &str,
    uri: &str,
) -> Result<(), McpErrorKind> {
    let params = raw(&json!({ "uri": uri }))?;
    let (outcome, _) = sender
        .exchange(method, &params, &Map::new(), &Delivery::default())
        .await?;
    outcome?;
    Ok(())
}
