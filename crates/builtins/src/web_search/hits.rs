use pillion_core::tool::ToolOutput;
use serde_json::json;
use url::Url;

use crate::Excerpt;
use crate::plain_text::to_plain_text;

/// Maximum length of a result's title, in characters.
const MAX_TITLE_CHARS: usize = 300;
/// Maximum length of a result's snippet, in characters.
const MAX_SNIPPET_CHARS: usize = 1000;
/// Maximum length of a result's URL, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// The results of a search service, best result first.
#[derive(Debug)]
pub(super) struct Hits {
    pub(super) source: &'static str,
    pub(super) hits: Vec<Hit>,
    /// The total number of results, if the service reports it.
    pub(super) total: Option<u64>,
}

/// A result with sanitized text.
#[derive(Debug)]
pub(super) struct Hit {
    title: String,
    snippet: String,
    url: String,
}

impl Hit {
    /// Converts a result of the search service to a hit; returns `None` if the result's URL is not
    /// a valid HTTP or HTTPS URL.
    pub(super) fn from_result(title: &str, snippet: &str, url: &str) -> Option<Self> {
        let parsed_url: Url = url.trim().parse().ok()?;
        let is_http = matches!(parsed_url.scheme(), "http" | "https");
        (is_http && parsed_url.as_str().len() <= MAX_URL_BYTES).then(|| Self {
            title: to_plain_text(title, MAX_TITLE_CHARS),
            snippet: to_plain_text(snippet, MAX_SNIPPET_CHARS),
            url: parsed_url.into(),
        })
    }
}

impl Hits {
    /// Converts the first `max` results to the tool's output.
    pub(super) fn into_output(mut self, query: &str, max: usize) -> ToolOutput {
        self.hits.truncate(max);
        let ranked_hits = || (1..).zip(&self.hits);
        let results: Vec<_> = ranked_hits()
            .map(|(rank, hit)| {
                json!({"title": hit.title, "snippet": hit.snippet, "url": hit.url, "rank": rank})
            })
            .collect();
        let texts = ranked_hits().map(|(rank, hit)| {
            let lines: Vec<_> = [hit.title.as_str(), &hit.url, &hit.snippet]
                .into_iter()
                .filter(|line| !line.is_empty())
                .collect();
            format!("{rank}. {}", lines.join("\n   "))
        });
        let text = if results.is_empty() {
            format!("No results for '{}'", Excerpt::new(query))
        } else {
            texts.collect::<Vec<_>>().join("\n\n")
        };
        let result_count = u64::try_from(results.len()).unwrap_or(u64::MAX);
        let total = self.total.unwrap_or(0).max(result_count);
        ToolOutput::text(text)
            .with_data(json!({"query": query, "results": results, "total_results": total}))
            .with_metadata("source", json!(self.source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_only_http_urls_are_results() {
        assert!(Hit::from_result("t", "s", "https://example.com/a").is_some());
        let long = format!("https://example.com/{}", "a".repeat(3000));
        for invalid_url in [
            "javascript:alert(1)",
            "ftp://example.com",
            "example.com",
            "",
            &long,
        ] {
            assert!(
                Hit::from_result("t", "s", invalid_url).is_none(),
                "{invalid_url}"
            );
        }
    }

    #[test]
    fn d7_results_are_ranked_and_cut() {
        let hit = |number: u8| Hit::from_result(&format!("T{number}"), "", "https://e.example/");
        let hits = Hits {
            source: "test",
            hits: (0..4).filter_map(hit).collect(),
            total: None,
        };
        let output = hits.into_output("q", 2);
        assert_eq!(
            output.result,
            "1. T0\n   https://e.example/\n\n2. T1\n   https://e.example/"
        );
        let data = output.data.unwrap();
        assert_eq!(data["total_results"], 2);
        assert_eq!(data["results"][1]["rank"], 2);
    }
}
