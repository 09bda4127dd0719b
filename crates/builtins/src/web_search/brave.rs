//! Brave Search: <https://api-dashboard.search.brave.com/api-reference/web/search/get>.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, INVALID_RESULTS, SearchSettings};
use crate::service::{Fault, Service, ServiceResponse, base_url};

/// Brave's limits on a query, in characters and in words; checked here for a clearer error message.
const MAX_QUERY_LEN: usize = 400;
const MAX_WORDS: usize = 50;

#[derive(Debug)]
pub(super) struct Brave {
    service: Service,
    base: Url,
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
            service: Service::new(
                "Brave Search",
                "BRAVE_SEARCH_API_KEY, or api_key_env of [tools.web_search], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base: base_url(settings.base_url.as_ref(), "https://api.search.brave.com"),
            api_key,
        }
    }

    pub(super) async fn search(&self, query: &str, max_results: u8) -> Result<Hits, ToolFailure> {
        let is_long = query.chars().count() > MAX_QUERY_LEN;
        if is_long || query.split_whitespace().count() > MAX_WORDS {
            return Err(ToolFailure::invalid_input(format!(
                "The query is longer than {MAX_QUERY_LEN} characters or {MAX_WORDS} words"
            )));
        }
        let Ok(mut token) = HeaderValue::try_from(self.api_key.expose_secret()) else {
            return Err(self.service.failure(Fault::WrongKey));
        };
        token.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        // Brave rejects a request without this header on some plans.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-subscription-token", token);
        let count = max_results.to_string();
        let query = [("q", query), ("count", count.as_str())];
        let path = "/res/v1/web/search";
        let response = self.service.get(&self.base, path, &query, headers).await?;
        let fault = fault(&response);
        let found: BraveResponse = self.service.parse(&response, fault, INVALID_RESULTS)?;
        let pages = found.web.map(|web| web.results).unwrap_or_default();
        Ok(Hits {
            source: "brave",
            hits: pages
                .iter()
                .filter_map(|page| Hit::read(&page.title, &page.description, &page.url))
                .collect(),
            total: None,
        })
    }
}

/// Reads an error of Brave: `{"type": "ErrorResponse", "error": {"status", "code", "detail"}}`,
/// with any status.
fn fault(response: &ServiceResponse) -> Option<Fault> {
    let message = response.text("/error/detail");
    match response.text("/error/code") {
        "SUBSCRIPTION_TOKEN_INVALID" => Some(Fault::WrongKey),
        "RATE_LIMITED" | "QUOTA_LIMITED" => Some(Fault::Limit(wait(response))),
        _ if response.status.as_u16() == 429 => Some(Fault::Limit(wait(response))),
        "" => response.fault(message),
        _ => response.fault(message).or_else(|| {
            let member = response.body.pointer("/error/status");
            let status = member.and_then(serde_json::Value::as_u64).unwrap_or(0);
            Some(Fault::Status(
                u16::try_from(status).unwrap_or(0),
                message.into(),
            ))
        }),
    }
}

/// Returns how long to wait: `Retry-After`, or else the time until all exhausted quotas are reset.
/// Brave lists every quota: `X-RateLimit-Remaining: 1, 0` and `X-RateLimit-Reset: 1, 1419704`.
fn wait(response: &ServiceResponse) -> Duration {
    if response.headers.contains_key(header::RETRY_AFTER) {
        return response.retry_after();
    }
    let numbers = |name: &str| -> Vec<u64> {
        let value = response
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        let numbers = value.unwrap_or_default().split(',');
        numbers
            .map_while(|number| number.trim().parse().ok())
            .collect()
    };
    let (left, until) = (
        numbers("x-ratelimit-remaining"),
        numbers("x-ratelimit-reset"),
    );
    let used_up = left.iter().zip(&until).filter(|(left, _)| **left == 0);
    let seconds = used_up
        .map(|(_, until)| *until)
        .max()
        .or(until.first().copied());
    seconds.map_or_else(|| response.retry_after(), Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_the_base_url_has_the_documented_default() {
        let service = Brave::new(&SearchSettings::default(), "a key".into());
        assert_eq!(service.base.as_str(), "https://api.search.brave.com/");
    }
}
