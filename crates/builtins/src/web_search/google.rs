//! Google Custom Search: <https://developers.google.com/custom-search/v1/using_rest>.

use http::HeaderMap;
use pillion_core::tool::ToolFailure;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Hit, Hits, SearchSettings};
use crate::service::{Answer, Fault, Service};

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
    items: Vec<Item>,
    search_information: Option<SearchInformation>,
}

#[derive(Deserialize)]
struct Item {
    link: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    snippet: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchInformation {
    /// A number as text.
    total_results: Option<String>,
}

impl Google {
    pub(super) fn new(settings: &SearchSettings, api_key: SecretString, engine: String) -> Self {
        let public = || {
            let url = "https://www.googleapis.com";
            url.parse().expect("the URL is constant")
        };
        Self {
            service: Service::new(
                "Google Custom Search",
                "GOOGLE_SEARCH_API_KEY, or api_key_env of [tools.web_search], or the vault",
                settings.egress.clone(),
                settings.timeout,
                [api_key.clone()],
            ),
            base: settings.base_url.clone().unwrap_or_else(public),
            api_key,
            engine,
        }
    }

    pub(super) async fn search(&self, query: &str, wanted: u8) -> Result<Hits, ToolFailure> {
        let wanted = wanted.to_string();
        let query = [
            ("key", self.api_key.expose_secret()),
            ("cx", self.engine.as_str()),
            ("q", query),
            ("num", wanted.as_str()),
        ];
        let headers = HeaderMap::new();
        let answer = self
            .service
            .get(&self.base, "/customsearch/v1", &query, headers);
        let answer = answer.await?;
        if let Some(fault) = fault(&answer) {
            return Err(self.service.failure(fault));
        }
        let Ok(found) = GoogleResponse::deserialize(&answer.body) else {
            return Err(self.service.invalid_answer("an invalid list of results"));
        };
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

/// Reads an error: `{"error": {"code", "message", "status", "errors": [{"reason"}], "details":
/// [{"reason"}]}}`, with any status.
fn fault(answer: &Answer) -> Option<Fault> {
    let said = answer.text("/error/message");
    let Some(error) = answer.body.get("error") else {
        return answer.fault(said);
    };
    let reasons = ["errors", "details"]
        .into_iter()
        .filter_map(|list| error.get(list)?.as_array());
    let reasons = reasons
        .flatten()
        .filter_map(|one| one.get("reason")?.as_str());
    let reasons: Vec<&str> = reasons.collect();
    let is = |known: &[&str]| reasons.iter().any(|reason| known.contains(reason));
    let code = error.get("code").and_then(serde_json::Value::as_u64);
    let code = code.and_then(|code| u16::try_from(code).ok());
    let is_limit = is(&[
        "rateLimitExceeded",
        "dailyLimitExceeded",
        "userRateLimitExceeded",
        "quotaExceeded",
        "RATE_LIMIT_EXCEEDED",
    ]);
    let is_key = is(&["keyInvalid", "keyExpired", "API_KEY_INVALID"])
        || said.starts_with("API key not valid");
    Some(match code.unwrap_or(answer.status.as_u16()) {
        429 => Fault::Limit(answer.retry_after()),
        _ if is_limit => Fault::Limit(answer.retry_after()),
        401 | 403 => Fault::WrongKey,
        _ if is_key => Fault::WrongKey,
        code => Fault::Status(code, said.to_owned()),
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
