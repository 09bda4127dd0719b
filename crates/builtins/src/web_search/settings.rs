use std::time::Duration;

use pillion_egress::EgressPolicy;
use secrecy::SecretString;
use url::Url;

/// The settings of the tool [`WebSearch`](super::WebSearch).
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// The search service; without one, the tool is not offered.
    pub service: Option<SearchService>,
    /// The base URL of Google or Brave. Default: the service's public URL.
    pub base_url: Option<Url>,
    /// Timeout of a call. Default: 10 s (`MCP_SEARCH_TIMEOUT`).
    pub timeout: Duration,
    /// The egress policy for requests.
    pub egress: EgressPolicy,
}

/// By default, no search service is configured.
impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            service: None,
            base_url: None,
            timeout: Duration::from_secs(10),
            egress: EgressPolicy::default(),
        }
    }
}

impl SearchSettings {
    /// Sets the API key, if the service uses one.
    #[must_use]
    pub fn with_key(mut self, key: SecretString) -> Self {
        if let Some(SearchService::Google { api_key, .. } | SearchService::Brave { api_key }) =
            &mut self.service
        {
            *api_key = key;
        }
        self
    }
}

/// The service that [`WebSearch`](super::WebSearch) queries.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SearchService {
    /// Google Custom Search, with a search engine that the operator has set up at Google.
    Google {
        /// The API key, `GOOGLE_SEARCH_API_KEY`.
        api_key: SecretString,
        /// The search engine's ID, `GOOGLE_SEARCH_CX`.
        engine: String,
    },
    /// The Brave Search API.
    Brave {
        /// The subscription token, `BRAVE_SEARCH_API_KEY`.
        api_key: SecretString,
    },
    /// A SearXNG instance whose settings allow the format `json`.
    SearXng {
        /// The base URL of the SearXNG instance.
        base_url: Url,
    },
    /// Mock results that never change, for development and tests.
    Mock,
}
