//! Brave Search: <https://api-dashboard.search.brave.com/api-reference/web/search/get>.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, INVALID_RESULTS_DESCRIPTION, SearchSettings};
use crate::service::{ServiceClient, ServiceFault, ServiceResponse, base_url};

/// Maximum length of a query, in characters. Brave enforces this limit, too; the check here gives a
/// clearer error message.
const MAX_QUERY_CHARS: usize = 400;
/// Maximum length of a query, in words. Brave enforces this limit, too.
const MAX_QUERY_WORDS: usize = 50;

#[derive(Debug)]
pub(super) struct Brave {
    service: ServiceClient,
    base_url: Url,
    api_key: SecretString,
}

#[derive(Deserialize)]
struct BraveResponse {
    web: Option<BraveWebResults>,
}

#[derive(Deserialize)]
struct BraveWebResults {
    #[serde(default)]
    results: Vec<BraveResult>,
}

#[derive(Deserialize)]
struct BraveResult {
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
}

impl Brave {
    pub(super) fn new(settings: &SearchSettings, api_key: SecretString) -> Self {
        Self {
            service: ServiceClient::new(
                "Brave Search",
                "BRAVE_SEARCH_API_KEY, or api_key_env of [tools.web_search], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base_url: base_url(settings.base_url.as_ref(), "https://api.search.brave.com"),
            api_key,
        }
    }

    pub(super) async fn search(&self, query: &str, max_results: u8) -> Result<Hits, ToolFailure> {
        if query.chars().count() > MAX_QUERY_CHARS {
            return Err(ToolFailure::invalid_input(format!(
                "The query is longer than {MAX_QUERY_CHARS} characters"
            )));
        }
        if query.split_whitespace().count() > MAX_QUERY_WORDS {
            return Err(ToolFailure::invalid_input(format!(
                "The query has more than {MAX_QUERY_WORDS} words"
            )));
        }
        let Ok(mut token) = HeaderValue::try_from(self.api_key.expose_secret()) else {
            return Err(self.service.to_failure(ServiceFault::RejectedKey));
        };
        token.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        // Brave rejects a request without this header on some plans.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-subscription-token", token);
        let count = max_results.to_string();
        let parameters = [("q", query), ("count", count.as_str())];
        let path = "/res/v1/web/search";
        let response = self
            .service
            .get(&self.base_url, path, &parameters, headers)
            .await?;
        let fault = read_fault(&response);
        let body: BraveResponse =
            self.service
                .parse(&response, fault, INVALID_RESULTS_DESCRIPTION)?;
        let results = body.web.map(|web| web.results).unwrap_or_default();
        Ok(Hits {
            source: "brave",
            hits: results
                .iter()
                .filter_map(|result| {
                    Hit::from_result(&result.title, &result.description, &result.url)
                })
                .collect(),
            total: None,
        })
    }
}

/// Reads an error of Brave: `{"type": "ErrorResponse", "error": {"status", "code", "detail"}}`,
/// with any status.
fn read_fault(response: &ServiceResponse) -> Option<ServiceFault> {
    let message = response.text("/error/detail");
    match response.text("/error/code") {
        "SUBSCRIPTION_TOKEN_INVALID" => Some(ServiceFault::RejectedKey),
        "RATE_LIMITED" | "QUOTA_LIMITED" => Some(ServiceFault::RateLimit(retry_after(response))),
        _ if response.status.as_u16() == 429 => {
            Some(ServiceFault::RateLimit(retry_after(response)))
        }
        "" => response.find_fault(message),
        _ => response.find_fault(message).or_else(|| {
            let member = response.body.pointer("/error/status");
            let status = member.and_then(serde_json::Value::as_u64).unwrap_or(0);
            Some(ServiceFault::ErrorStatus(
                u16::try_from(status).unwrap_or(0),
                message.into(),
            ))
        }),
    }
}

/// Returns the time to wait before a retry, which is the value of `Retry-After`, or else the time
/// until all exhausted quotas are reset. Brave lists every quota: `X-RateLimit-Remaining: 1, 0` and
/// `X-RateLimit-Reset: 1, 1419704`.
fn retry_after(response: &ServiceResponse) -> Duration {
    if response.headers.contains_key(header::RETRY_AFTER) {
        return response.retry_after();
    }
    let read_numbers = |name: &str| -> Vec<u64> {
        let value = response
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        let number_texts = value.unwrap_or_default().split(',');
        number_texts
            .map_while(|number_text| number_text.trim().parse().ok())
            .collect()
    };
    let (remaining_quotas, reset_times) = (
        read_numbers("x-ratelimit-remaining"),
        read_numbers("x-ratelimit-reset"),
    );
    let exhausted_quotas = remaining_quotas
        .iter()
        .zip(&reset_times)
        .filter(|(remaining, _)| **remaining == 0);
    let seconds = exhausted_quotas
        .map(|(_, reset_time)| *reset_time)
        .max()
        .or(reset_times.first().copied());
    seconds.map_or_else(|| response.retry_after(), Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_the_base_url_has_the_documented_default() {
        let brave = Brave::new(&SearchSettings::default(), "a key".into());
        assert_eq!(brave.base_url.as_str(), "https://api.search.brave.com/");
    }
}
