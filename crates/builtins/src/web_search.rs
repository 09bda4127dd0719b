//! Web search with Google Custom Search, Brave or SearXNG; or mock results for development. Without
//! a service, the tool is not offered.

mod brave;
mod google;
mod hits;
mod mock;
mod searxng;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use pillion_core::tool::{
    CallContext, ErrorCode, JsonObject, ParameterType, Tool, ToolDefinition, ToolFailure,
    ToolFuture, ToolOutput, ToolParameter,
};
use serde_json::json;

use crate::{arguments, service};
use brave::Brave;
use google::Google;
use hits::{Hit, Hits};
use searxng::SearXng;
pub use settings::{SearchService, SearchSettings};

/// Maximum length of a query, in characters.
const MAX_QUERY_CHARS: usize = 1000;

/// Default number of results.
const DEFAULT_RESULT_COUNT: u8 = 5;
/// Maximum number of results.
const MAX_RESULT_COUNT: u8 = 10;

/// The tool `web_search`. Arguments: `{query, num_results = 5}`. Result: text for the model, `data
/// = {query, results: [{title, snippet, url, rank}], total_results}`, and the metadata `source`.
///
/// `num_results` is clamped to 1 to 10. Titles and snippets are always plain text.
///
/// ```
/// use pillion_builtins::{SearchSettings, WebSearch};
/// use pillion_core::tool::Tool;
/// let tool = WebSearch::new(&SearchSettings::default());
/// assert!(!tool.is_offered(), "no search provider is configured");
/// ```
#[derive(Debug)]
pub struct WebSearch {
    definition: ToolDefinition,
    timeout: Duration,
    source: Option<SearchSource>,
}

#[derive(Debug)]
enum SearchSource {
    Google(Google),
    Brave(Brave),
    SearXng(SearXng),
    Mock,
}

impl WebSearch {
    /// Creates the tool with these settings. Does no I/O.
    #[must_use]
    pub fn new(settings: &SearchSettings) -> Self {
        let service = settings.service.as_ref();
        Self {
            definition: definition(service),
            timeout: settings.timeout,
            source: service.map(|service| match service {
                SearchService::Google { api_key, engine } => {
                    SearchSource::Google(Google::new(settings, api_key.clone(), engine.clone()))
                }
                SearchService::Brave { api_key } => {
                    SearchSource::Brave(Brave::new(settings, api_key.clone()))
                }
                SearchService::SearXng { base_url } => {
                    SearchSource::SearXng(SearXng::new(settings, base_url.clone()))
                }
                SearchService::Mock => SearchSource::Mock,
            }),
        }
    }

    async fn search(&self, arguments: &JsonObject) -> Result<ToolOutput, ToolFailure> {
        let Some(source) = &self.source else {
            return Err(ToolFailure::new(
                ErrorCode::Unavailable,
                NOT_CONFIGURED_MESSAGE,
            ));
        };
        let query = arguments::text(arguments, "query").trim();
        arguments::check_text("query", query, MAX_QUERY_CHARS)?;
        let requested_count = arguments.get("num_results");
        let max_results =
            arguments::result_count(requested_count, DEFAULT_RESULT_COUNT, MAX_RESULT_COUNT);
        let request = async {
            match source {
                SearchSource::Google(google) => google.search(query, max_results).await,
                SearchSource::Brave(brave) => brave.search(query, max_results).await,
                SearchSource::SearXng(searxng) => searxng.search(query).await,
                SearchSource::Mock => Ok(mock::search(query, max_results).await),
            }
        };
        let hits = service::run_with_timeout(self.timeout, "The search", request).await?;
        Ok(hits.into_output(query, usize::from(max_results)))
    }
}

/// The words by which error messages describe a response that is not a valid list of results.
const INVALID_RESULTS_DESCRIPTION: &str = "an invalid list of results";

/// The error of a call while no service is configured.
const NOT_CONFIGURED_MESSAGE: &str = "web_search is not configured: set GOOGLE_SEARCH_API_KEY and \
     GOOGLE_SEARCH_CX, or a provider (google, brave, searxng) in [tools.web_search]";

/// Returns the definition. The description names the service, so that a cached result of one
/// service is not used for another.
fn definition(service: Option<&SearchService>) -> ToolDefinition {
    let query = ToolParameter::new("query", ParameterType::String).describe("What to search for");
    let num_results = ToolParameter::new("num_results", ParameterType::Integer)
        .describe("Number of results, 1 to 10")
        .default_value(json!(DEFAULT_RESULT_COUNT));
    let source_suffix = match service {
        Some(SearchService::Google { .. }) => ", with Google Custom Search",
        Some(SearchService::Brave { .. }) => ", with Brave Search",
        Some(SearchService::SearXng { .. }) => ", with SearXNG",
        Some(SearchService::Mock) => ", invented for development",
        None => "",
    };
    let description = format!("Search the web for information{source_suffix}.");
    ToolDefinition::builder("web_search", description)
        .category("information")
        .parameters([query, num_results])
        .build()
        .expect("the definition is constant, and a test builds it")
}

impl Tool for WebSearch {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// Returns whether a search service is configured.
    fn is_offered(&self) -> bool {
        self.source.is_some()
    }

    fn call(self: Arc<Self>, arguments: JsonObject, _context: CallContext) -> ToolFuture {
        Box::pin(async move { self.search(&arguments).await })
    }
}
