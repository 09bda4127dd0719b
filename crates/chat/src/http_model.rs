mod key;
mod response_reader;
mod retry;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use pillion_egress::{EgressPolicy, HttpClient, HttpError, HttpRequest};
use pillion_providers::{Endpoint, Provider};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::{
    Delta, LanguageModel, ModelError, ModelErrorKind, ModelTurn, ProviderConversation, TurnResponse,
};
pub use key::KeySource;

/// The minimum length, in bytes, of a key or header value that is removed from error messages.
const MIN_REDACTED_BYTES: usize = 8;

/// A language model at a provider or a compatible server, over HTTP. Cheap to clone; clones share
/// their connections.
///
/// ```
/// use pillion_chat::{HttpModel, HttpModelConfig};
/// use pillion_providers::Provider;
///
/// // An OpenAI-compatible server, without an API key.
/// let base_url = "http://127.0.0.1:11434/v1".parse()?;
/// let config = HttpModelConfig::new(Provider::OpenAiChat, base_url, "llama3.3");
/// let model = HttpModel::new(config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HttpModel {
    config: Arc<HttpModelConfig>,
    client: HttpClient,
}

/// The configuration of an [`HttpModel`].
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpModelConfig {
    /// The API of the provider.
    pub provider: Provider,
    /// The provider's name in error messages, next to the host. Default: the name of the API.
    pub provider_name: Option<String>,
    /// The provider's name for the model.
    pub model: String,
    /// The base URL of the endpoints, such as `https://api.openai.com/v1`. If the URL has a query,
    /// every request has this query. Plain HTTP is allowed for any host, because the operator has
    /// chosen this URL.
    pub base_url: Url,
    /// The source of the API key; `None` to send no key.
    pub key: Option<Arc<dyn KeySource>>,
    /// Additional headers for every request. Their values may be credentials and never appear in
    /// errors or logs.
    pub headers: HeaderMap,
    /// The egress policy for requests.
    pub egress: EgressPolicy,
    /// Whether the model is a reasoning model; `None` to detect it from the model's name. Used only
    /// for OpenAI's Responses API: Pillion requests the encrypted reasoning of reasoning models;
    /// other models reject such a request.
    pub reasoning: Option<bool>,
    /// Timeout of a response including all retries; the turn's deadline applies if it is earlier.
    /// Default 5 minutes.
    pub timeout: Duration,
    /// Maximum number of retries of a failed request. Default 2.
    pub max_retries: u32,
    /// Maximum pause before the first retry, doubled for each further retry, with random jitter.
    /// `Retry-After` takes precedence. Default 500 ms.
    pub retry_pause: Duration,
    /// Maximum size of a response, in bytes as received. Default 32 MiB.
    pub max_response_bytes: usize,
    /// Maximum size of an event of a streamed response, in bytes. Default 8 MiB.
    pub max_event_bytes: usize,
}

impl HttpModelConfig {
    /// Creates the configuration of a model at this URL, without a key.
    #[must_use]
    pub fn new(provider: Provider, base_url: Url, model: impl Into<String>) -> Self {
        Self {
            provider,
            provider_name: None,
            model: model.into(),
            base_url,
            key: None,
            headers: HeaderMap::new(),
            egress: EgressPolicy::default(),
            reasoning: None,
            timeout: Duration::from_secs(300),
            max_retries: 2,
            retry_pause: Duration::from_millis(500),
            max_response_bytes: 32 * 1024 * 1024,
            max_event_bytes: 8 * 1024 * 1024,
        }
    }

    /// Sets the API key: a [`SecretString`], or a source whose key may change.
    #[must_use]
    pub fn with_key(self, key: impl KeySource + 'static) -> Self {
        Self {
            key: Some(Arc::new(key)),
            ..self
        }
    }
}

impl HttpModel {
    /// Creates the model. The only I/O is reading the system's certificates.
    ///
    /// # Errors
    /// [`Rejected`](ModelErrorKind::Rejected): the base URL is not http or https;
    /// [`Unavailable`](ModelErrorKind::Unavailable): the system's certificates cannot be read.
    pub fn new(config: HttpModelConfig) -> Result<Self, ModelError> {
        let mut policy = config.egress.clone();
        policy.allow_http_for(&config.base_url);
        policy
            .check_url(&config.base_url)
            .map_err(|error| ModelError::new(ModelErrorKind::Rejected, error.to_string()))?;
        let client = HttpClient::new(&policy)
            .map_err(|error| ModelError::new(ModelErrorKind::Unavailable, error.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
            client,
        })
    }

    /// Returns the provider's name for the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// Sends one request, without retries.
    async fn attempt(
        &self,
        turn: &ModelTurn<'_>,
        body: Bytes,
        deadline: Instant,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<TurnResponse, FailedAttempt> {
        let key = match &self.config.key {
            Some(source) => source
                .key()
                .await
                .map_err(FailedAttempt::for_unsent_request)?,
            None => None,
        };
        let request = self
            .build_request(turn, body, key.as_ref())
            .map_err(FailedAttempt::for_unsent_request)?;
        let attempt = async {
            let remaining_time = deadline.saturating_duration_since(Instant::now());
            let send_result = self.client.send(request, remaining_time).await;
            let response = send_result.map_err(|error| self.connection_failure(&error))?;
            let limits = response_reader::ResponseLimits {
                response_bytes: self.config.max_response_bytes,
                event_bytes: self.config.max_event_bytes,
            };
            response_reader::read_response(
                self.config.provider,
                response,
                limits,
                turn.stream,
                listener,
            )
            .await
        };
        attempt.await.map_err(|failed_attempt| {
            let secret_key = key.as_ref().map(ExposeSecret::expose_secret);
            let header_values = self.config.headers.values();
            let headers = header_values.filter_map(|value| value.to_str().ok());
            secret_key
                .into_iter()
                .chain(headers)
                .fold(failed_attempt, FailedAttempt::redact)
                .name_provider(&self.config)
        })
    }

    fn build_request(
        &self,
        turn: &ModelTurn<'_>,
        body: Bytes,
        key: Option<&SecretString>,
    ) -> Result<HttpRequest, ModelError> {
        let api = self.config.provider.api();
        let path = api.path(&self.config.model, turn.stream);
        let mut request = HttpRequest::post(join_url(&self.config.base_url, &path), body);
        request.headers = api.headers(key.map(ExposeSecret::expose_secret))?;
        request.headers.extend(api.turn_headers(turn));
        request.headers.extend(self.config.headers.clone());
        Ok(request)
    }

    /// Creates the failure for a request that failed before the head of the response arrived.
    fn connection_failure(&self, error: &HttpError) -> FailedAttempt {
        use HttpError::{Client, Connect, Denied};
        let may_have_begun = !matches!(error, Connect(_) | Denied(_) | Client(_));
        FailedAttempt {
            error: ModelError {
                may_have_cost: may_have_begun,
                ..response_reader::connection_error(self.config.provider, error)
            },
            may_repeat: matches!(error, Connect(_)),
            may_have_begun,
        }
    }
}

#[async_trait]
impl LanguageModel for HttpModel {
    fn provider(&self) -> Provider {
        self.config.provider
    }

    fn conversation(&self, messages: &[Value]) -> Result<ProviderConversation, ModelError> {
        self.provider().api().conversation(messages)
    }

    async fn respond(
        &self,
        turn: &ModelTurn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<TurnResponse, ModelError> {
        let deadline = Instant::from_std(turn.deadline).min(Instant::now() + self.config.timeout);
        let endpoint = Endpoint {
            model: &self.config.model,
            base_url: &self.config.base_url,
            reasoning: self.config.reasoning,
        };
        let body_json = self.provider().api().body(&endpoint, turn);
        let body = Bytes::from(body_json.to_string());
        let may_act = may_call_tools(turn);
        let mut retries = 0;
        loop {
            let mut has_deltas = false;
            let mut on_delta = |delta| {
                has_deltas = true;
                listener(delta);
            };
            let result = self
                .attempt(turn, body.clone(), deadline, &mut on_delta)
                .await;
            let FailedAttempt {
                mut error,
                may_repeat,
                may_have_begun,
            } = match result {
                Ok(response) => return Ok(response),
                Err(failed_attempt) => failed_attempt,
            };
            error.may_have_acted = may_act && may_have_begun;
            if has_deltas
                || !may_repeat
                || error.may_have_acted
                || retries == self.config.max_retries
            {
                return Err(error);
            }
            let pause = retry::next_pause(self.config.retry_pause, retries, error.retry_after);
            // The pause is compared with the remaining time, because adding a very long pause to an
            // instant would overflow.
            if pause >= deadline.saturating_duration_since(Instant::now()) {
                return Err(error);
            }
            tracing::debug!(
                model = %self.config.model, %error, ?pause,
                "Retrying a request to the model's provider"
            );
            tokio::time::sleep(pause).await;
            retries += 1;
        }
    }
}

/// A failed attempt to get a response.
struct FailedAttempt {
    error: ModelError,
    /// Whether a retry may succeed and is harmless.
    may_repeat: bool,
    /// Whether the provider may have begun the response before the failure.
    may_have_begun: bool,
}

impl FailedAttempt {
    /// Creates the failure for a request that was not sent.
    fn for_unsent_request(error: ModelError) -> Self {
        Self {
            may_have_begun: false,
            ..Self::from(error)
        }
    }

    /// Removes a key from the error message, because the provider may have repeated the key in its
    /// error. Keeps a value that is too short to be a key, because such a value may occur in the
    /// message by chance.
    fn redact(mut self, key: &str) -> Self {
        if key.len() >= MIN_REDACTED_BYTES && self.error.message.contains(key) {
            self.error.message = self.error.message.replace(key, "(key)");
        }
        self
    }

    /// Replaces the API's name in the message with the provider's name and host, which the response
    /// parser does not know.
    fn name_provider(mut self, config: &HttpModelConfig) -> Self {
        let api_name = config.provider.as_str();
        let provider_name = config.provider_name.as_deref().unwrap_or(api_name);
        let url = &config.base_url;
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}"));
        let provider_label = format!(
            "provider '{provider_name}' ({host}{})",
            port.unwrap_or_default()
        );
        let api_label = format!("provider '{api_name}'");
        self.error.message = self.error.message.replacen(&api_label, &provider_label, 1);
        self
    }
}

/// Creates the failure of a request that was sent.
impl From<ModelError> for FailedAttempt {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            may_repeat: false,
            may_have_begun: true,
        }
    }
}

/// Returns whether the request lets the provider call tools of MCP servers itself.
fn may_call_tools(turn: &ModelTurn<'_>) -> bool {
    let extra = &turn.options.extra;
    let tool_list = extra.get("tools").and_then(Value::as_array);
    let mut tools = tool_list.into_iter().flatten();
    extra.contains_key("mcp_servers") || tools.any(|tool| tool["type"] == "mcp")
}

/// Returns the URL of a path below `base`. `base` and `path_and_query` may each have a query; the
/// URL has both queries.
fn join_url(base: &Url, path_and_query: &str) -> Url {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    let queries = [base.query().unwrap_or_default(), query];
    let non_empty_queries = queries.into_iter().filter(|query| !query.is_empty());
    let joined_query = non_empty_queries.collect::<Vec<_>>().join("&");
    url.set_query((!joined_query.is_empty()).then_some(joined_query.as_str()));
    url
}

impl std::fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

impl std::fmt::Debug for HttpModelConfig {
    /// Debug output omits the key, and the URL, which may contain a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpModel")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("host", &self.base_url.host_str())
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
