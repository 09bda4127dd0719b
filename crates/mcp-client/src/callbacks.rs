use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::RpcError;

/// Handlers for requests and notifications of a server. The client announces only the capabilities
/// whose handlers are set, and rejects all other requests. The client also rejects requests that
/// arrive while 16 earlier requests are being processed. If the server cancels its request, the
/// handler's future is dropped.
///
/// A handler gets the request's `params` as the server wrote them, and returns the `result`:
/// `CreateMessageResult`, `ElicitResult` (MCP 2025-11-25, client features).
///
/// ```
/// use pillion_mcp_client::Callbacks;
/// use serde_json::json;
/// let callbacks = Callbacks::new()
///     .on_elicitation(|question| async move {
///         println!("{question}");
///         Ok(json!({"action": "decline"}))
///     })
///     .roots([("file:///srv/project", "project")]);
/// ```
#[derive(Clone, Default)]
pub struct Callbacks {
    sampling_callback: Option<RequestCallback>,
    elicitation_callback: Option<RequestCallback>,
    roots_callback: Option<RequestCallback>,
    notification_callback: Option<NotificationCallback>,
    /// Whether the notification handler gets only notifications that arrive with responses, so that
    /// the client opens no separate stream.
    notifies_without_listening: bool,
}

type CallbackFuture = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;
type RequestCallback = Arc<dyn Fn(Box<RawValue>) -> CallbackFuture + Send + Sync>;
type NotificationCallback = Arc<dyn Fn(&Notification) + Send + Sync>;

/// A function that is called with each progress notification of one request. The function must not
/// block.
pub type ProgressCallback = Arc<dyn Fn(ProgressNotification) + Send + Sync>;

/// A notification from the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Notification {
    /// The method of the notification, such as `notifications/tools/list_changed`.
    pub method: String,
    /// The `params` of the notification, as the server wrote them; `{}` if the notification has
    /// none.
    pub params: Box<RawValue>,
}

/// The progress of a request (`notifications/progress`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ProgressNotification {
    /// The progress that the request has made; increases with each notification.
    pub progress: f64,
    /// The progress at which the request is complete; `None` if the server does not know the total.
    pub total: Option<f64>,
    /// A message about the progress, for users.
    pub message: Option<String>,
}

impl ProgressNotification {
    pub(super) fn from_message(progress: f64, message: String) -> Self {
        Self {
            progress,
            total: None,
            message: Some(message),
        }
    }
}

impl Callbacks {
    /// Creates an empty set of handlers, with which a client rejects every request except `ping`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the handler of `sampling/createMessage`, by which the server requests a completion from
    /// a model.
    #[must_use]
    pub fn on_sampling<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(Box<RawValue>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.sampling_callback = Some(Arc::new(move |params| Box::pin(callback(params))));
        self
    }

    /// Sets the handler of `elicitation/create`, by which the server asks the user a question, as a
    /// form or at a URL. Fields missing from an accepted form get their defaults, if any.
    #[must_use]
    pub fn on_elicitation<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(Box<RawValue>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.elicitation_callback = Some(Arc::new(move |params| {
            let defaults = collect_form_defaults(&params);
            let response = callback(params);
            Box::pin(async move { Ok(add_defaults(response.await?, defaults)) })
        }));
        self
    }

    /// Sets a handler of `roots/list` that returns the given roots, each a URI and a name.
    #[must_use]
    pub fn roots<U: Into<String>, N: Into<String>>(
        mut self,
        roots: impl IntoIterator<Item = (U, N)>,
    ) -> Self {
        let roots: Vec<Value> = roots
            .into_iter()
            .map(|(uri, name)| json!({"uri": uri.into(), "name": name.into()}))
            .collect();
        let result = json!({ "roots": roots });
        self.roots_callback = Some(Arc::new(move |_| Box::pin(ready(Ok(result.clone())))));
        self
    }

    /// Sets the handler of `roots/list`. Unlike [`roots`](Self::roots), the handler can return
    /// roots that depend on the user.
    #[must_use]
    pub fn on_roots<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(Box<RawValue>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.roots_callback = Some(Arc::new(move |params| Box::pin(callback(params))));
        self
    }

    /// Sets the handler of all notifications except `notifications/progress`. The handler must not
    /// block.
    #[must_use]
    pub fn on_notification(
        mut self,
        callback: impl Fn(&Notification) + Send + Sync + 'static,
    ) -> Self {
        self.notification_callback = Some(Arc::new(callback));
        self
    }

    /// Sets the handler like [`on_notification`](Self::on_notification), but only for notifications
    /// that arrive with responses. Over HTTP, the client then opens no stream for other
    /// notifications.
    #[must_use]
    pub fn on_notification_without_listening(
        mut self,
        callback: impl Fn(&Notification) + Send + Sync + 'static,
    ) -> Self {
        self.notifies_without_listening = true;
        self.on_notification(callback)
    }

    /// Returns the capabilities to announce to the server (`ClientCapabilities`).
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        let mut capabilities = Map::new();
        if self.roots_callback.is_some() {
            capabilities.insert("roots".to_owned(), json!({}));
        }
        if self.sampling_callback.is_some() {
            capabilities.insert("sampling".to_owned(), json!({}));
        }
        if self.elicitation_callback.is_some() {
            let modes = json!({"form": {}, "url": {}});
            capabilities.insert("elicitation".to_owned(), modes);
        }
        capabilities
    }

    /// Returns a future with the result of a request from the server; the future fails if no
    /// handler is set for the method.
    pub(super) fn respond(&self, method: &str, params: Option<Box<RawValue>>) -> CallbackFuture {
        let callback = match method {
            "ping" => return Box::pin(ready(Ok(json!({})))),
            "sampling/createMessage" => &self.sampling_callback,
            "elicitation/create" => &self.elicitation_callback,
            "roots/list" => &self.roots_callback,
            _ => &None,
        };
        match callback {
            Some(callback) => callback(params.unwrap_or_else(empty_object)),
            None => Box::pin(ready(Err(RpcError::new(-32601, "Method not found")))),
        }
    }

    /// Returns whether a handler needs messages that the server sends outside of responses.
    pub(super) fn needs_listening(&self) -> bool {
        self.sampling_callback.is_some()
            || self.elicitation_callback.is_some()
            || self.roots_callback.is_some()
            || self.notification_callback.is_some() && !self.notifies_without_listening
    }

    pub(super) fn notify(&self, notification: &Notification) {
        if let Some(callback) = &self.notification_callback {
            callback(notification);
        }
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks")
            .field("capabilities", &self.capabilities())
            .field("notification", &self.notification_callback.is_some())
            .finish()
    }
}

/// Returns the default values of a form's fields (MCP 2025-11-25, "Requested Schema").
fn collect_form_defaults(params: &RawValue) -> Map<String, Value> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "requestedSchema")]
        schema: FormSchema,
    }
    #[derive(Deserialize)]
    struct FormSchema {
        properties: Map<String, Value>,
    }
    let Ok(Params { schema }) = serde_json::from_str(params.get()) else {
        return Map::new();
    };
    let fields = schema.properties.into_iter();
    fields
        .filter_map(|(name, field)| Some((name, field.get("default")?.clone())))
        .collect()
}

/// Adds the default values to the content of an accepted form.
fn add_defaults(mut response: Value, defaults: Map<String, Value>) -> Value {
    let is_accepted = response.get("action").and_then(Value::as_str) == Some("accept");
    if is_accepted
        && !defaults.is_empty()
        && let Some(members) = response.as_object_mut()
        && let Some(content) = members
            .entry("content")
            .or_insert_with(|| json!({}))
            .as_object_mut()
    {
        for (name, default) in defaults {
            content.entry(name).or_insert(default);
        }
    }
    response
}

pub(super) fn empty_object() -> Box<RawValue> {
    serde_json::value::to_raw_value(&Map::new()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_accepted_form_gets_the_defaults_of_omitted_fields() {
        let respond = async |action: &'static str, params: Value| {
            let callbacks = Callbacks::new().on_elicitation(move |_| async move {
                Ok(json!({"action": action, "content": {"name": "Eve"}}))
            });
            let params = serde_json::value::to_raw_value(&params).unwrap();
            callbacks
                .respond("elicitation/create", Some(params))
                .await
                .unwrap()
        };
        let form = json!({"requestedSchema": {"type": "object", "properties": {
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "note": {"type": "string"},
        }}});
        let accepted = respond("accept", form.clone()).await;
        assert_eq!(accepted["content"], json!({"name": "Eve", "age": 30}));
        let declined = respond("decline", form).await;
        assert_eq!(declined["content"], json!({"name": "Eve"}));
        let at_a_url = respond("accept", json!({"url": "https://x.example"})).await;
        assert_eq!(at_a_url["content"], json!({"name": "Eve"}));
    }

    #[test]
    fn passive_listeners_open_no_stream() {
        assert!(Callbacks::new().on_notification(|_| {}).needs_listening());
        let passive = Callbacks::new().on_notification_without_listening(|_| {});
        assert!(!passive.needs_listening());
        assert!(passive.roots([("file:///a", "a")]).needs_listening());
    }

    #[tokio::test]
    async fn unsupported_requests_are_rejected_and_ping_is_answered() {
        let callbacks = Callbacks::new().roots([("file:///a", "a")]);
        let capabilities = Value::Object(callbacks.capabilities());
        assert_eq!(capabilities, json!({"roots": {}}));
        assert_eq!(callbacks.respond("ping", None).await.unwrap(), json!({}));
        let roots = callbacks.respond("roots/list", None).await.unwrap();
        assert_eq!(roots, json!({"roots": [{"uri": "file:///a", "name": "a"}]}));
        let rejected = callbacks.respond("sampling/createMessage", None).await;
        assert_eq!(rejected.unwrap_err().code, -32601);
    }
}
