//! SearXNG: <https://docs.searxng.org/dev/search_api.html>.

use http::HeaderMap;
use pillion_core::tool::{ErrorCode, ToolFailure};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, INVALID_RESULTS_DESCRIPTION, SearchSettings};
use crate::service::ServiceClient;

#[derive(Debug)]
pub(super) struct SearXng {
    service: ServiceClient,
    base_url: Url,
}

#[derive(Deserialize)]
struct SearxngResponse {
    results: Vec<SearxngResult>,
    /// The total number of results; 0 if the search engines do not report the number.
    number_of_results: Option<f64>,
}

#[derive(Deserialize)]
struct SearxngResult {
    url: Option<String>,
    title: Option<String>,
    content: Option<String>,
}

impl SearXng {
    pub(super) fn new(settings: &SearchSettings, base_url: Url) -> Self {
        let egress = settings.egress.clone();
        Self {
            service: ServiceClient::new("SearXNG", "", egress, settings.timeout, []),
            base_url,
        }
    }

    /// Searches the web. Requests no number of results, because SearXNG always returns a full page.
    pub(super) async fn search(&self, query: &str) -> Result<Hits, ToolFailure> {
        let parameters = [("q", query), ("format", "json")];
        let headers = HeaderMap::new();
        let response = self
            .service
            .get(&self.base_url, "/search", &parameters, headers)
            .await?;
        if response.status.as_u16() == 403 {
            let text = "SearXNG does not allow JSON responses: add json to search.formats in its \
                settings.yml";
            return Err(ToolFailure::new(ErrorCode::Unavailable, text));
        }
        let fault = response.find_fault(response.text("/error"));
        let body: SearxngResponse =
            self.service
                .parse(&response, fault, INVALID_RESULTS_DESCRIPTION)?;
        let hits = body.results.iter().filter_map(|result| {
            let text_or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
            Hit::from_result(
                &text_or_empty(&result.title),
                &text_or_empty(&result.content),
                result.url.as_deref()?,
            )
        });
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast to u64 saturates"
        )]
        let total = body.number_of_results.map(|total| total as u64);
        Ok(Hits {
            source: "searxng",
            hits: hits.collect(),
            total,
        })
    }
}
