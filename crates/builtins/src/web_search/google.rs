//! Google Custom Search: <https://developers.google.com/custom-search/v1/using_rest>.

use http::HeaderMap;
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, INVALID_RESULTS, SearchSettings};
use crate::service::{Fault, Service, ServiceResponse, base_url};

#[derive(Debug)]
pub(super) struct Google {
    service: Service,
    base: Url,
    api_key: SecretString,
    engine: String,
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
    /// The total number of results, as text.
    total_results: Option<String>,
}

impl Google {
    pub(super) fn new(settings: &SearchSettings, api_key: SecretString, engine: String) -> Self {
        Self {
            service: Service::new(
                "Google Custom Search",
                "GOOGLE_SEARCH_API_KEY, or api_key_env of [tools.web_search], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base: base_url(settings.base_url.as_ref(), "https://www.googleapis.com"),
            api_key,
            engine,
        }
    }

    pub(super) async fn search(&self, query: &str, max_results: u8) -> Result<Hits, ToolFailure> {
        let count = max_results.to_string();
        let query = [
            ("key", self.api_key.expose_secret()),
            ("cx", self.engine.as_str()),
            ("q", query),
            ("num", count.as_str()),
        ];
        let (path, headers) = ("/customsearch/v1", HeaderMap::new());
        let response = self.service.get(&self.base, path, &query, headers).await?;
        let fault = fault(&response);
        let found: GoogleResponse = self.service.parse(&response, fault, INVALID_RESULTS)?;
        let hits = found.items.iter();
        let total = found.search_information.and_then(|it| it.total_results);
        Ok(Hits {
            source: "google",
            hits: hits
                .filter_map(|item| Hit::read(&item.title, &item.snippet, &item.link))
                .collect(),
            total: total.and_then(|total| total.parse().ok()),
        })
    }
}

/// Reads an error of Google: `{"error": {"code", "message", "status", "errors": [{"reason"}],
/// "details": [{"reason"}]}}`, with any status.
fn fault(response: &ServiceResponse) -> Option<Fault> {
    let message = response.text("/error/message");
    let Some(error) = response.body.get("error") else {
        return response.fault(message);
    };
    let reasons: Vec<&str> = ["errors", "details"]
        .into_iter()
        .filter_map(|list| error.get(list)?.as_array())
        .flatten()
        .filter_map(|one| one.get("reason")?.as_str())
        .collect();
    let is = |known: &[&str]| reasons.iter().any(|reason| known.contains(reason));
    let code = error
        .get("code")
        .and_then(serde_json::Value::as_u64)
        .and_then(|code| u16::try_from(code).ok());
    let is_limit = is(&[
        "rateLimitExceeded",
        "dailyLimitExceeded",
        "userRateLimitExceeded",
        "quotaExceeded",
        "RATE_LIMIT_EXCEEDED",
    ]);
    let is_key = is(&["keyInvalid", "keyExpired", "API_KEY_INVALID"])
        || message.starts_with("API key not valid");
    Some(match code.unwrap_or(response.status.as_u16()) {
        429 => Fault::Limit(response.retry_after()),
        _ if is_limit => Fault::Limit(response.retry_after()),
        401 | 403 => Fault::WrongKey,
        _ if is_key => Fault::WrongKey,
        code => Fault::Status(code, message.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_the_base_url_has_the_documented_default() {
        let settings = SearchSettings::default();
        let service = Google::new(&settings, "a key".into(), "an engine".to_owned());
        assert_eq!(service.base.as_str(), "https://www.googleapis.com/");
    }
}
