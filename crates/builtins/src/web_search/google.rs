//! Google Custom Search: <https://developers.google.com/custom-search/v1/using_rest>.

use http::HeaderMap;
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, INVALID_RESULTS_DESCRIPTION, SearchSettings};
use crate::service::{ServiceClient, ServiceFault, ServiceResponse, base_url};

#[derive(Debug)]
pub(super) struct Google {
    service: ServiceClient,
    base_url: Url,
    api_key: SecretString,
    engine_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GoogleResponse {
    #[serde(default)]
    items: Vec<GoogleResult>,
    search_information: Option<SearchInformation>,
}

#[derive(Deserialize)]
struct GoogleResult {
    link: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    snippet: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchInformation {
    /// The total number of results, which the API returns as text.
    total_results: Option<String>,
}

impl Google {
    pub(super) fn new(settings: &SearchSettings, api_key: SecretString, engine_id: String) -> Self {
        Self {
            service: ServiceClient::new(
                "Google Custom Search",
                "GOOGLE_SEARCH_API_KEY, or api_key_env of [tools.web_search], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base_url: base_url(settings.base_url.as_ref(), "https://www.googleapis.com"),
            api_key,
            engine_id,
        }
    }

    pub(super) async fn search(&self, query: &str, max_results: u8) -> Result<Hits, ToolFailure> {
        let count = max_results.to_string();
        let parameters = [
            ("key", self.api_key.expose_secret()),
            ("cx", self.engine_id.as_str()),
            ("q", query),
            ("num", count.as_str()),
        ];
        let (path, headers) = ("/customsearch/v1", HeaderMap::new());
        let response = self
            .service
            .get(&self.base_url, path, &parameters, headers)
            .await?;
        let fault = read_fault(&response);
        let body: GoogleResponse =
            self.service
                .parse(&response, fault, INVALID_RESULTS_DESCRIPTION)?;
        let items = body.items.iter();
        let total = body
            .search_information
            .and_then(|search_information| search_information.total_results);
        Ok(Hits {
            source: "google",
            hits: items
                .filter_map(|item| Hit::from_result(&item.title, &item.snippet, &item.link))
                .collect(),
            total: total.and_then(|total| total.parse().ok()),
        })
    }
}

/// Reads an error of Google: `{"error": {"code", "message", "status", "errors": [{"reason"}],
/// "details": [{"reason"}]}}`, with any status.
fn read_fault(response: &ServiceResponse) -> Option<ServiceFault> {
    let message = response.text("/error/message");
    let Some(error) = response.body.get("error") else {
        return response.find_fault(message);
    };
    let reasons: Vec<&str> = ["errors", "details"]
        .into_iter()
        .filter_map(|member| error.get(member)?.as_array())
        .flatten()
        .filter_map(|entry| entry.get("reason")?.as_str())
        .collect();
    let has_reason =
        |known_reasons: &[&str]| reasons.iter().any(|reason| known_reasons.contains(reason));
    let code = error
        .get("code")
        .and_then(serde_json::Value::as_u64)
        .and_then(|code| u16::try_from(code).ok());
    let is_rate_limit = has_reason(&[
        "rateLimitExceeded",
        "dailyLimitExceeded",
        "userRateLimitExceeded",
        "quotaExceeded",
        "RATE_LIMIT_EXCEEDED",
    ]);
    let is_invalid_key = has_reason(&["keyInvalid", "keyExpired", "API_KEY_INVALID"])
        || message.starts_with("API key not valid");
    Some(match code.unwrap_or(response.status.as_u16()) {
        429 => ServiceFault::RateLimit(response.retry_after()),
        _ if is_rate_limit => ServiceFault::RateLimit(response.retry_after()),
        401 | 403 => ServiceFault::RejectedKey,
        _ if is_invalid_key => ServiceFault::RejectedKey,
        code => ServiceFault::ErrorStatus(code, message.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_the_base_url_has_the_documented_default() {
        let settings = SearchSettings::default();
        let google = Google::new(&settings, "a key".into(), "an engine".to_owned());
        assert_eq!(google.base_url.as_str(), "https://www.googleapis.com/");
    }
}
