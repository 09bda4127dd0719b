mod key;
mod reading;
mod retry;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use pillion_core::egress::{EgressPolicy, HttpClient, HttpError, HttpRequest};
use pillion_core::provider::Provider;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::dialect::{self, Dialect};
use crate::{Answer, Conversation, Delta, LanguageModel, ModelError, ModelErrorKind, Turn};
pub use key::KeySource;

/// The shortest text that is taken for a key or the value of a header, in bytes.
const SHORTEST_KEY: usize = 8;

/// A language model at a provider, or at whatever speaks like one, over HTTP. Cheap to clone;
/// clones share the connections.
///
/// ```
/// use pillion_chat::{HttpModel, HttpModelConfig};
/// use pillion_core::provider::Provider;
///
/// // Whatever is OpenAI-compatible, by its base URL; without key.
/// let base_url = "http://127.0.0.1:11434/v1".parse()?;
/// let config = HttpModelConfig::new(Provider::OpenAiChat, base_url, "llama3.3");
/// let model = HttpModel::new(config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HttpModel {
    config: Arc<HttpModelConfig>,
    dialect: Arc<dyn Dialect>,
    client: HttpClient,
}

/// Which model, where, and how far to go for an answer.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpModelConfig {
    /// How it is spoken to.
    pub provider: Provider,
    /// What errors call it, beside its host. Default how it is spoken to.
    pub provider_name: Option<String>,
    /// The provider's name of the model.
    pub model: String,
    /// Below which the endpoints are, such as `https://api.openai.com/v1`; its query goes with
    /// every request. Plain http is taken from here for any host: it is the operator's word.
    pub base_url: Url,
    /// Where the key comes from; none where there is none to be sent.
    pub key: Option<Arc<dyn KeySource>>,
    /// More headers of every request. Their values may be credentials, and are in no text.
    pub headers: HeaderMap,
    /// Where requests may go beside.
    pub egress: EgressPolicy,
    /// Whether the model thinks before it answers; none where its name says so. OpenAI's Responses have
    /// to be asked for the thoughts of those that do, and refuse the question to others. No matter
    /// elsewhere.
    pub reasoning: Option<bool>,
    /// The longest time of an answer with all repetitions, if the turn's deadline is not sooner.
    /// Default 5 minutes.
    pub timeout: Duration,
    /// How often a request is repeated that nobody has answered. Default 2.
    pub max_retries: u32,
    /// The longest pause before the first repetition, which doubles with each; a part of it is left
    /// to chance. What `Retry-After` asks for counts instead. Default 500 ms.
    pub retry_pause: Duration,
    /// The longest answer, in bytes as they come. Default 32 MiB.
    pub max_answer_bytes: usize,
    /// The longest event of a streamed answer, in bytes. Default 8 MiB.
    pub max_event_bytes: usize,
}

impl HttpModelConfig {
    /// This model below this URL, without key.
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
            max_answer_bytes: 32 * 1024 * 1024,
            max_event_bytes: 8 * 1024 * 1024,
        }
    }

    /// Where the provider itself answers.
    #[must_use]
    pub fn own_url(provider: Provider) -> &'static str {
        match provider {
            Provider::Anthropic => "https://api.anthropic.com/v1",
            Provider::Google => "https://generativelanguage.googleapis.com/v1beta",
            _ => "https://api.openai.com/v1",
        }
    }

    /// The same with a key: a [`SecretString`], or a source of one that may change.
    #[must_use]
    pub fn with_key(self, key: impl KeySource + 'static) -> Self {
        Self {
            key: Some(Arc::new(key)),
            ..self
        }
    }
}

impl HttpModel {
    /// The model. Does no I/O but for reading the system's certificates.
    ///
    /// # Errors
    /// [`Refused`](ModelErrorKind::Refused): the base URL is none of http or https, or its provider
    /// is not spoken to; [`Unavailable`](ModelErrorKind::Unavailable): the system's certificates
    /// cannot be read.
    pub fn new(config: HttpModelConfig) -> Result<Self, ModelError> {
        let refused = |message: String| ModelError::new(ModelErrorKind::Refused, message);
        let mut policy = config.egress.clone();
        policy.allow_http_to(&config.base_url);
        let checked = policy.check_url(&config.base_url);
        checked.map_err(|error| refused(error.to_string()))?;
        let dialect = dialect::of(config.provider, &config.base_url, config.reasoning);
        let dialect = dialect.ok_or_else(|| {
            refused(format!(
                "The provider '{}' is not spoken to",
                config.provider
            ))
        })?;
        let client = HttpClient::new(&policy)
            .map_err(|error| ModelError::new(ModelErrorKind::Unavailable, error.to_string()))?;
        Ok(Self {
            config: Arc::new(config),
            dialect,
            client,
        })
    }

    /// The provider's name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// Asks once.
    async fn attempt(
        &self,
        turn: &Turn<'_>,
        body: Bytes,
        deadline: Instant,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, FailedAttempt> {
        let key = match &self.config.key {
            Some(source) => source.key().await.map_err(FailedAttempt::unsent)?,
            None => None,
        };
        let request = self.request(turn, body, key.as_ref());
        let request = request.map_err(FailedAttempt::unsent)?;
        let answered = async {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.client.send(request, left).await;
            let answer = answer.map_err(|error| self.failed(&error))?;
            let limits = reading::Limits {
                answer_bytes: self.config.max_answer_bytes,
                event_bytes: self.config.max_event_bytes,
            };
            reading::read(&*self.dialect, answer, limits, turn.stream, listener).await
        };
        let answered = answered.await;
        answered.map_err(|failed| {
            let key = key.as_ref().map(ExposeSecret::expose_secret);
            let headers = self.config.headers.values();
            let headers = headers.filter_map(|value| value.to_str().ok());
            let failed = key
                .into_iter()
                .chain(headers)
                .fold(failed, FailedAttempt::without);
            failed.at(&self.config)
        })
    }

    fn request(
        &self,
        turn: &Turn<'_>,
        body: Bytes,
        key: Option<&SecretString>,
    ) -> Result<HttpRequest, ModelError> {
        let path = self.dialect.path(&self.config.model, turn.stream);
        let mut request = HttpRequest::post(below(&self.config.base_url, &path), body);
        request.headers = self.dialect.headers(key.map(ExposeSecret::expose_secret))?;
        request.headers.extend(self.dialect.headers_of(turn));
        request.headers.extend(self.config.headers.clone());
        Ok(request)
    }

    /// Why there was no head of an answer.
    fn failed(&self, error: &HttpError) -> FailedAttempt {
        use HttpError::{Client, Connect, Refused};
        let may_have_begun = !matches!(error, Connect(_) | Refused(_) | Client(_));
        FailedAttempt {
            error: ModelError {
                may_have_cost: may_have_begun,
                ..reading::broken(self.config.provider, error)
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

    fn conversation(&self, messages: &[Value]) -> Result<Conversation, ModelError> {
        self.dialect.conversation(messages)
    }

    async fn respond(
        &self,
        turn: &Turn<'_>,
        listener: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, ModelError> {
        let deadline = Instant::from_std(turn.deadline).min(Instant::now() + self.config.timeout);
        let body = Bytes::from(self.dialect.body(&self.config.model, turn).to_string());
        let provider_acts = acts(turn);
        let mut retries = 0;
        loop {
            let mut was_heard = false;
            let mut hear = |delta| {
                was_heard = true;
                listener(delta);
            };
            let answered = self.attempt(turn, body.clone(), deadline, &mut hear).await;
            let FailedAttempt {
                mut error,
                may_repeat,
                may_have_begun,
            } = match answered {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            error.may_have_acted = provider_acts && may_have_begun;
            if was_heard
                || !may_repeat
                || error.may_have_acted
                || retries == self.config.max_retries
            {
                return Err(error);
            }
            let pause = retry::pause(self.config.retry_pause, retries, error.retry_after);
            // Not added to a moment: a server may ask for any time.
            if pause >= deadline.saturating_duration_since(Instant::now()) {
                return Err(error);
            }
            tracing::debug!(model = %self.config.model, %error, ?pause, "A model's provider is asked once more");
            tokio::time::sleep(pause).await;
            retries += 1;
        }
    }
}

/// An attempt that came to nothing.
struct FailedAttempt {
    error: ModelError,
    /// Whether another one may fare better, and does no harm but for what the provider has done.
    may_repeat: bool,
    /// Whether the provider may have begun with the answer.
    may_have_begun: bool,
}

impl FailedAttempt {
    /// There is nothing that could be sent.
    fn unsent(error: ModelError) -> Self {
        Self {
            may_have_begun: false,
            ..Self::from(error)
        }
    }

    /// The same with a key left out of its text, should the provider have repeated it. What is too
    /// short for a key may stand anywhere.
    fn without(mut self, key: &str) -> Self {
        if key.len() >= SHORTEST_KEY && self.error.message.contains(key) {
            self.error.message = self.error.message.replace(key, "(key)");
        }
        self
    }
}

impl FailedAttempt {
    /// The same of the provider by its own name and host: whoever reads the formats knows how it is
    /// spoken to, and no more.
    fn at(mut self, config: &HttpModelConfig) -> Self {
        let format = config.provider.as_str();
        let name = config.provider_name.as_deref().unwrap_or(format);
        let url = &config.base_url;
        let host = url.host_str().unwrap_or_default();
        let port = url.port().map(|port| format!(":{port}"));
        let known = format!("provider '{name}' ({host}{})", port.unwrap_or_default());
        let read = format!("provider '{format}'");
        self.error.message = self.error.message.replacen(&read, &known, 1);
        self
    }
}

/// What broke off.
impl From<ModelError> for FailedAttempt {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            may_repeat: false,
            may_have_begun: true,
        }
    }
}

/// Whether the provider may call tools of MCP servers by itself in this turn.
fn acts(turn: &Turn<'_>) -> bool {
    let extra = &turn.options.extra;
    let tools = extra.get("tools").and_then(Value::as_array);
    let mut tools = tools.into_iter().flatten();
    extra.contains_key("mcp_servers") || tools.any(|tool| tool["type"] == "mcp")
}

/// The URL of `path`, which may have a query, below `base`, whose query is kept.
fn below(base: &Url, path: &str) -> Url {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    let queries = [base.query().unwrap_or_default(), query];
    let query = queries.into_iter().filter(|query| !query.is_empty());
    let query = query.collect::<Vec<_>>().join("&");
    url.set_query((!query.is_empty()).then_some(query.as_str()));
    url
}

impl std::fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

impl std::fmt::Debug for HttpModelConfig {
    /// Neither the key nor the URL, which may have one in it.
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
