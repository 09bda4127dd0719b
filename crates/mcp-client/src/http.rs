//! The HTTP client of the transports: one connection pool per client, size limits for responses,
//! and redirects only within the origin.

mod attempts;
mod body_form;
mod failure;
mod rejection;
mod response;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

use super::oauth::OAuthAuthorizer;
use super::repeat::RepeatSafety;
use super::secrets::Secrets;
use super::{
    Authentication, AuthorizationResponse, Limits, McpErrorKind, PendingAuthorization,
    ServerConfig, TransportKind,
};
use attempts::Attempts;
use body_form::ContentTypeWarning;
pub(super) use failure::{check_status, has_status, not_oauth_error, send_error};
use pillion_egress::{
    ConnectionChoice, DirectClient, EgressClient, EgressClientSettings, Reachability, SendOutcome,
    Trust,
};
pub(super) use rejection::{Rejection, RejectionResponse};
pub(super) use response::{EventBody, ResponseBody, ResponseReader, parse_event};
use response::{read_body, read_event_body};

const CONTENT_TYPE_JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Number of headers for which capacity is reserved, in addition to the fixed headers of a message:
/// each message adds headers for the session, the method and the connection.
const EXTRA_HEADER_COUNT: usize = 8;
const ACCEPT_VALUE: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// A connection pool for one server and one credential. Cheap to clone.
#[derive(Clone)]
pub(super) struct HttpLink {
    client: EgressClient,
    /// A faster path for messages to a server on this machine that needs no OAuth tokens.
    direct_client: Option<Arc<DirectClient>>,
    /// Adds OAuth tokens to requests, if configured.
    authorizer: Option<Arc<OAuthAuthorizer>>,
    headers: HeaderMap,
    /// The headers in `headers`, and the fixed headers of a JSON-RPC message.
    message_headers: HeaderMap,
    /// Whether the server keeps a stream open after the response.
    keeps_streams_open: Arc<AtomicBool>,
    reachability: Arc<Reachability>,
    content_type_warning: Arc<ContentTypeWarning>,
    pub(super) label: Arc<str>,
    pub(super) url: Url,
    pub(super) limits: Limits,
}

impl HttpLink {
    /// Creates the pool. Does no I/O, except that for an `https` server it reads the system's
    /// certificates.
    pub(super) fn new(config: &ServerConfig, secrets: &Arc<Secrets>) -> Result<Self, McpErrorKind> {
        let headers = config.build_header_map()?;
        let url = config.request_url()?;
        config.egress.check_url(&url)?;
        let mut settings = EgressClientSettings::for_server(match url.scheme() {
            // For an `http` URL, no certificates are loaded, because a redirect to `https` would
            // leave the origin.
            "http" => Trust::NoCertificates,
            _ => Trust::SystemCertificates,
        });
        settings.is_http1_only = config.transport_kind() == TransportKind::WebSocket;
        let authorizer = match &config.authentication {
            Authentication::OAuth(oauth) => Some(OAuthAuthorizer::new(oauth, config, secrets)?),
            _ => None,
        };
        let mut message_headers = headers.clone();
        message_headers.insert(CONTENT_TYPE, CONTENT_TYPE_JSON);
        message_headers.insert(ACCEPT, ACCEPT_VALUE);
        // Reserves capacity for the headers that a message adds.
        message_headers.reserve(EXTRA_HEADER_COUNT);
        let direct_client = match authorizer {
            None => DirectClient::for_url(&url, &config.egress),
            Some(_) => None,
        };
        Ok(Self {
            message_headers,
            direct_client,
            keeps_streams_open: Arc::default(),
            reachability: Arc::default(),
            label: config.label.as_str().into(),
            content_type_warning: Arc::new(ContentTypeWarning::new(&config.label)),
            client: EgressClient::new(&config.egress, settings).map_err(McpErrorKind::Setup)?,
            authorizer: authorizer.map(Arc::new),
            headers,
            url,
            limits: config.limits,
        })
    }

    /// Completes an authorization that another client started.
    pub(super) async fn finish_authorization(
        &self,
        pending_authorization: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        match &self.authorizer {
            Some(authorizer) => authorizer.finish(pending_authorization, response).await,
            None => Err(not_oauth_error()),
        }
    }

    /// Returns the fixed headers of a message, to which a transport adds its own.
    pub(super) fn message_headers(&self) -> HeaderMap {
        self.message_headers.clone()
    }

    /// Sends a JSON-RPC message and returns the head of the response, whatever its status, without
    /// reading the body. Sends the message again in two cases:
    ///
    /// - The server refused the connection: the server may be restarting.
    /// - The connection broke, and `repeat_safety` allows sending the message again.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        repeat_safety: RepeatSafety,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let send = |choice| self.post_once(url, &headers, &body, choice);
        self.send_repeatedly(repeat_safety, send).await
    }

    /// Sends a request, and sends it again after connection errors as long as `repeat_safety`
    /// allows. `send` makes one attempt.
    async fn send_repeatedly<F>(
        &self,
        repeat_safety: RepeatSafety,
        send: impl Fn(ConnectionChoice) -> F,
    ) -> Result<reqwest::Response, McpErrorKind>
    where
        F: Future<Output = Result<reqwest::Response, McpErrorKind>>,
    {
        let mut attempts = Attempts::new(self, repeat_safety);
        loop {
            match send(attempts.connection_choice()).await {
                Ok(response) => {
                    self.reachability.note_response();
                    return Ok(response);
                }
                // The future is boxed, because waiting is rare and would enlarge the future of
                // every message.
                Err(error) => Box::pin(attempts.wait_after(error)).await?,
            }
        }
    }

    async fn post_once(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
        choice: ConnectionChoice,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let mut target_url = Cow::Borrowed(url);
        if let Some(direct_client) = &self.direct_client
            && *target_url == self.url
        {
            match direct_client.post(headers, body.clone(), choice).await {
                SendOutcome::Response(response) => return Ok(response),
                SendOutcome::Broken(error) => {
                    return Err(McpErrorKind::ConnectionBroken(error.into()));
                }
                SendOutcome::RedirectRejected => return Err(McpErrorKind::Redirect),
                SendOutcome::Redirected(location) => target_url = Cow::Owned(location),
                SendOutcome::NotSent => {}
            }
        }
        let request = (Method::POST, &*target_url, headers.clone(), body.clone());
        self.send(request, choice).await
    }

    /// Reads the body of a response, or as much as is necessary to determine its kind.
    pub(super) async fn read_body(
        &self,
        response: reqwest::Response,
    ) -> Result<ResponseBody, McpErrorKind> {
        let idle_time = Reachability::idle_before(&response);
        let body = read_body(response, &self.limits, &self.content_type_warning).await;
        if matches!(body, Err(McpErrorKind::ConnectionBroken(_))) {
            self.reachability.note_cut_off(idle_time);
        }
        body
    }

    /// Reads a stream to its end after the response, so that the next request can reuse the
    /// connection. Most servers end the stream with the response. If the server keeps a stream
    /// open, its connection is closed after a while, and later calls do not wait for the end of
    /// their streams.
    pub(super) async fn finish_stream(&self, mut reader: Box<ResponseReader>) {
        const GRACE_TIMEOUT: Duration = Duration::from_millis(2);
        const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
        // The stream is first polled without a timer: usually the end of the stream has already
        // arrived, and the connection's task reads it when it runs next.
        if poll_twice(reader.skip_rest()).await.is_some() {
            return;
        }
        let may_end_stream = !self.keeps_streams_open.load(Ordering::Relaxed);
        if may_end_stream && timeout(GRACE_TIMEOUT, reader.skip_rest()).await.is_ok() {
            return;
        }
        let keeps_streams_open = Arc::clone(&self.keeps_streams_open);
        tokio::spawn(async move {
            let has_ended = timeout(GRACE_TIMEOUT, reader.skip_rest()).await.is_ok();
            keeps_streams_open.store(!has_ended, Ordering::Relaxed);
            if !has_ended {
                let _ = timeout(DRAIN_TIMEOUT, reader.skip_rest()).await;
            }
        });
    }

    /// Sends a GET request, and returns the event stream of a successful response.
    pub(super) async fn get_stream(
        &self,
        mut extra_headers: HeaderMap,
    ) -> Result<EventBody, McpErrorKind> {
        extra_headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = check_status(self.get(extra_headers).await?).await?;
        read_event_body(response, &self.content_type_warning).await
    }

    /// Sends a GET request and returns the head of the response, whatever its status. Sends the
    /// request again as [`post`](Self::post) does for a harmless message.
    pub(super) async fn get(
        &self,
        extra_headers: HeaderMap,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let mut headers = self.headers.clone();
        headers.extend(extra_headers);
        let send = |choice| {
            let request = (Method::GET, &self.url, headers.clone(), Bytes::new());
            self.send(request, choice)
        };
        self.send_repeatedly(RepeatSafety::Harmless, send).await
    }

    /// Sends a DELETE request, which ends a session, and ignores the response. If the connection
    /// breaks, sends the request once more over a new connection, which is harmless.
    pub(super) async fn delete(&self, extra_headers: HeaderMap) {
        let mut headers = self.headers.clone();
        headers.extend(extra_headers);
        for choice in [ConnectionChoice::Any, ConnectionChoice::New] {
            let pool_use = self.reachability.choose_pool_use(choice).await;
            let (client, url) = (&self.client, &self.url);
            let Ok(request) =
                client.request_over_pool(pool_use, Method::DELETE, url, headers.clone())
            else {
                return; // No session can have been opened with an invalid URL.
            };
            // A rejected token is not replaced, so that closing a session never asks the user for
            // an authorization.
            let outcome = match &self.authorizer {
                Some(authorizer) => authorizer.send_once(request).await,
                None => request.send().await.map_err(send_error),
            };
            if !matches!(outcome, Err(McpErrorKind::ConnectionBroken(_))) {
                return;
            }
        }
    }

    /// Runs `work` with a timeout. The timeout restarts after each authorization that `work` waits
    /// for, because the user's time does not count. Returns `None` if the timeout expires.
    pub(super) async fn run_in_time<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        // After the authorization, the same future continues, because a new future could ask the
        // user again although the user has just denied the authorization.
        let mut pinned_work = pin!(work);
        loop {
            match pillion_deadline::timeout(timeout, pinned_work.as_mut()).await {
                Ok(outcome) => return Some(outcome),
                Err(_) if self.wait_for_authorization().await => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits for a running authorization. Returns `false` if none is running.
    async fn wait_for_authorization(&self) -> bool {
        match &self.authorizer {
            Some(authorizer) => authorizer.wait_for_authorization().await,
            None => false,
        }
    }

    /// Sends a request with `client`, which supports TLS and OAuth, instead of `direct_client`.
    async fn send(
        &self,
        (method, url, headers, body): (Method, &Url, HeaderMap, Bytes),
        choice: ConnectionChoice,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let pool_use = self.reachability.choose_pool_use(choice).await;
        let client = &self.client;
        let mut request = client.request_over_pool(pool_use, method, url, headers)?;
        if !body.is_empty() {
            request = request.body(body);
        }
        let mut outcome = match &self.authorizer {
            Some(authorizer) => Box::pin(authorizer.send(request)).await,
            None => request.send().await.map_err(send_error),
        };
        match &mut outcome {
            Ok(response) => self.reachability.learn_response(pool_use, response),
            Err(McpErrorKind::ConnectionBroken(_)) => self.reachability.learn_break(pool_use),
            Err(_) => {}
        }
        outcome
    }
}

/// Polls `work`, lets the other ready tasks run, and polls `work` again. Returns the output of
/// `work`, or `None` if `work` is still not ready. `tokio::task::yield_now` is not used, because it
/// would poll the I/O driver first.
async fn poll_twice<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut pinned_work = pin!(work);
    let mut was_polled = false;
    poll_fn(|context| match pinned_work.as_mut().poll(context) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending if was_polled => Poll::Ready(None),
        Poll::Pending => {
            was_polled = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}
