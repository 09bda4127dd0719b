use std::time::Duration;

use pillion_core::egress::EgressPolicy;
use secrecy::SecretString;
use url::Url;

/// How the tool [`WebSearch`](super::WebSearch) works.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// Who is asked; with nobody the tool is not offered.
    pub provider: Option<SearchProvider>,
    /// Where Google or Brave are, in place of their public addresses.
    pub base_url: Option<Url>,
    /// How long a call may take. Default 10 s (`MCP_SEARCH_TIMEOUT`, N1).
    pub timeout: Duration,
    /// Where requests may go.
    pub egress: EgressPolicy,
}

/// With nobody to ask.
impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            provider: None,
            base_url: None,
            timeout: Duration::from_secs(10),
            egress: EgressPolicy::default(),
        }
    }
}

impl SearchSettings {
    /// The same with this key, where the provider wants one.
    #[must_use]
    pub fn with_key(mut self, key: SecretString) -> Self {
        if let Some(SearchProvider::Google { api_key, .. } | SearchProvider::Brave { api_key }) =
            &mut self.provider
        {
            *api_key = key;
        }
        self
    }
}

/// Who searches.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SearchProvider {
    /// Google Custom Search.
    Google {
        /// `GOOGLE_SEARCH_API_KEY`.
        api_key: SecretString,
        /// The search engine's id, `GOOGLE_SEARCH_CX`.
        engine: String,
    },
    /// Brave Search.
    Brave {
        /// The subscription's token.
        api_key: SecretString,
    },
    /// A SearXNG whose settings allow the format `json`.
    SearXng {
        /// Where it is.
        base_url: Url,
    },
    /// Nobody: invented results that are always the same, for development and tests.
    Mock,
}
