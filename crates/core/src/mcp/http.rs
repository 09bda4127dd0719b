//! HTTP as the transports need it: one connection pool per client, answers read under
//! limits, redirects that never leave the origin.

mod answer;

use bytes::Bytes;
use futures_util::TryFutureExt;
use futures_util::future::Either;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
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
use super::{
    Authentication, AuthorizationResponse, Limits, McpErrorKind, PendingAuthorization, RpcError,
    ServerConfig, ServerConfigError, TransportKind,
};
use crate::egress::{EgressClient, EgressError, Purpose, Sent, Shortcut, Trust};
pub(super) use answer::{
    Answer, AnswerReader, content_type, is_event_stream, messages_of, read_answer, read_body,
};

const CONTENT_IS: HeaderValue = HeaderValue::from_static("application/json");
/// Headers of a message beyond those here: of the session, of the method, of the connection.
const MESSAGE_HEADERS: usize = 8;
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// A connection pool for one server and one credential. Cheap to clone.
#[derive(Clone)]
pub(super) struct HttpLink {
    client: EgressClient,
    /// For messages to a server on this machine that needs no tokens.
    shortcut: Option<Arc<Shortcut>>,
    /// Adds tokens to requests, where the credential is not one that stays.
    authorizer: Option<Arc<OAuthAuthorizer>>,
    headers: HeaderMap,
    /// The same and those of a message.
    message_headers: HeaderMap,
    /// The server keeps its streams open after they have given their answer.
    keeps_streams: Arc<AtomicBool>,
    pub(super) url: Url,
    pub(super) limits: Limits,
}

impl HttpLink {
    /// Builds the pool; does no I/O but for reading the system's certificates when the
    /// server is one of https.
    pub(super) fn new(config: &ServerConfig) -> Result<Self, McpErrorKind> {
        let headers = config.header_map()?;
        let url = config.request_url()?;
        config.egress.check_url(&url)?;
        let mut purpose = Purpose::server(match url.scheme() {
            // A redirect to https would leave the origin.
            "http" => Trust::Nothing,
            _ => Trust::System,
        });
        purpose.http1_only = config.transport_kind() == TransportKind::WebSocket;
        let authorizer = match &config.authentication {
            Authentication::OAuth(oauth) => Some(OAuthAuthorizer::new(oauth, config)?),
            _ => None,
        };
        let mut message_headers = headers.clone();
        message_headers.insert(CONTENT_TYPE, CONTENT_IS);
        message_headers.insert(ACCEPT, ACCEPTED);
        // Room in every copy for what a message adds.
        message_headers.reserve(MESSAGE_HEADERS);
        let shortcut = match authorizer {
            None => Shortcut::to(&url, &config.egress),
            Some(_) => None,
        };
        Ok(Self {
            message_headers,
            shortcut,
            keeps_streams: Arc::default(),
            client: EgressClient::new(&config.egress, purpose).map_err(McpErrorKind::Setup)?,
            authorizer: authorizer.map(Arc::new),
            headers,
            url,
            limits: config.limits,
        })
    }

    /// Takes up an authorization that was asked for elsewhere.
    pub(super) async fn finish_authorization(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        match &self.authorizer {
            Some(authorizer) => authorizer.finish(pending, response).await,
            None => Err(not_oauth()),
        }
    }

    /// The headers of a message, for more to be added.
    pub(super) fn message_headers(&self) -> HeaderMap {
        self.message_headers.clone()
    }

    /// Sends one JSON-RPC message and gives the answer's head, whatever its status; the
    /// body is still to be read.
    pub(super) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let mut url = Cow::Borrowed(url);
        if let Some(shortcut) = &self.shortcut
            && *url == self.url
        {
            match shortcut.post(&headers, body.clone()).await {
                Sent::Answered(response) => return Ok(response),
                Sent::Broken(error) => return Err(McpErrorKind::Broken(error.into())),
                Sent::RedirectRefused => return Err(McpErrorKind::Redirect),
                Sent::Redirected(next) => url = Cow::Owned(next),
                Sent::NotTaken => {}
            }
        }
        let request = self.client.request(Method::POST, &url, headers)?;
        self.send(request.body(body)).await
    }

    /// Lets a stream that has given its answer come to its end, so that the next request
    /// finds its connection free. Most servers end the stream with the answer; for one that
    /// does not, nobody waits a second time, and after a while it loses the connection.
    pub(super) async fn finish(&self, mut reader: Box<AnswerReader>) {
        const MOMENT: Duration = Duration::from_millis(2);
        const PATIENCE: Duration = Duration::from_secs(2);
        // Mostly the end is there already, and the task that reads from the connection comes
        // upon it in its next turn: that takes no clock.
        if in_next_turn(reader.skip_rest()).await.is_some() {
            return;
        }
        let may_end = !self.keeps_streams.load(Ordering::Relaxed);
        if may_end && timeout(MOMENT, reader.skip_rest()).await.is_ok() {
            return;
        }
        let keeps_streams = Arc::clone(&self.keeps_streams);
        tokio::spawn(async move {
            let ended = timeout(MOMENT, reader.skip_rest()).await.is_ok();
            keeps_streams.store(!ended, Ordering::Relaxed);
            if !ended {
                let _ = timeout(PATIENCE, reader.skip_rest()).await;
            }
        });
    }

    /// Opens an event stream.
    pub(super) async fn get_stream(
        &self,
        extra: HeaderMap,
    ) -> Result<reqwest::Response, McpErrorKind> {
        let mut extra = extra;
        extra.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = check_status(self.get(extra).await?).await?;
        if !is_event_stream(&response) {
            let content_type = content_type(&response).into_owned();
            return Err(McpErrorKind::ContentType { content_type });
        }
        Ok(response)
    }

    /// Sends a GET and gives the answer's head, whatever its status.
    pub(super) async fn get(&self, extra: HeaderMap) -> Result<reqwest::Response, McpErrorKind> {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        let request = self.client.request(Method::GET, &self.url, headers)?;
        self.send(request).await
    }

    /// Ends a session; what the server says to that does not matter.
    pub(super) async fn delete(&self, extra: HeaderMap) {
        let mut headers = self.headers.clone();
        headers.extend(extra);
        let Ok(request) = self.client.request(Method::DELETE, &self.url, headers) else {
            return; // The session could not have begun.
        };
        // Nobody is asked for an authorization for this.
        let _ = match &self.authorizer {
            Some(authorizer) => authorizer.send_once(request).await,
            None => request.send().await.map_err(sending),
        };
    }

    /// Gives some work this much time, and as much again after each authorization that it
    /// needs: the time that a person takes is not the server's. None when the time is up.
    pub(super) async fn in_time<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        // The work goes on where it was: begun again, it would ask a person who has just
        // refused a second time.
        let mut work = pin!(work);
        loop {
            match timeout(patience, work.as_mut()).await {
                Ok(outcome) => return Some(outcome),
                Err(_) if self.authorization_ended().await => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits for an authorization that is under way; false when there is none.
    async fn authorization_ended(&self) -> bool {
        match &self.authorizer {
            Some(authorizer) => authorizer.ended().await,
            None => false,
        }
    }

    fn send(
        &self,
        request: reqwest::RequestBuilder,
    ) -> impl Future<Output = Result<reqwest::Response, McpErrorKind>> {
        match &self.authorizer {
            Some(authorizer) => Either::Left(Box::pin(authorizer.send(request))),
            None => Either::Right(request.send().map_err(sending)),
        }
    }
}

/// What some work comes to at once, or after the tasks that are ready have had a turn.
/// `tokio::task::yield_now` asks the system for news first, and wakes a second time when
/// the work is done by then.
async fn in_next_turn<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut turns_left = 1;
    poll_fn(|context| match (work.as_mut().poll(context), turns_left) {
        (Poll::Ready(outcome), _) => Poll::Ready(Some(outcome)),
        (Poll::Pending, 0) => Poll::Ready(None),
        (Poll::Pending, _) => {
            turns_left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

pub(super) fn sending(error: reqwest::Error) -> McpErrorKind {
    if let Some(refusal) = EgressError::cause_of(&error) {
        McpErrorKind::Egress(refusal.clone())
    } else if error.is_redirect() {
        McpErrorKind::Redirect
    } else if error.is_connect() {
        // Where it is, and nothing of what may be a secret.
        let origin = error.url().map(|url| url.origin().ascii_serialization());
        let origin = origin.and_then(|origin| origin.parse().ok());
        let error = error.without_url();
        McpErrorKind::Connect(match origin {
            Some(origin) => error.with_url(origin),
            None => error,
        })
    } else {
        McpErrorKind::Broken(error.without_url().into())
    }
}

/// Lets an answer with a success status through.
pub(super) async fn check_status(
    response: reqwest::Response,
) -> Result<reqwest::Response, McpErrorKind> {
    if response.status().is_success() {
        Ok(response)
    } else {
        Err(Box::pin(status_error(response)).await)
    }
}

/// The error that an answer's status is, with what its head and its body say about it.
async fn status_error(mut response: reqwest::Response) -> McpErrorKind {
    const LONGEST_REASON: usize = 64 * 1024;
    const PATIENCE: Duration = Duration::from_secs(2);
    let text = |header: Option<&HeaderValue>| {
        let text = header?.to_str().ok()?;
        Some(text.chars().take(1024).collect::<String>())
    };
    let headers = response.headers();
    let seconds = text(headers.get(RETRY_AFTER)).and_then(|text| text.trim().parse().ok());
    let challenge = text(headers.get(WWW_AUTHENTICATE));
    let status = response.status().as_u16();
    let body = timeout(PATIENCE, read_body(&mut response, LONGEST_REASON)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    McpErrorKind::HttpStatus {
        status,
        retry_after: seconds.map(Duration::from_secs),
        challenge,
        rpc: RpcError::of_error_body(&body).map(Box::new),
    }
}

/// Whether an error is one of these HTTP statuses.
pub(super) fn is_status(error: &McpErrorKind, statuses: &[StatusCode]) -> bool {
    matches!(error, McpErrorKind::HttpStatus { status, .. }
        if statuses.iter().any(|wanted| wanted.as_u16() == *status))
}

/// A server that is spoken to without OAuth has no authorization to be finished.
pub(super) fn not_oauth() -> McpErrorKind {
    ServerConfigError::OAuth { key: "type" }.into()
}
