use pillion_core::tool::ToolOutput;
use serde_json::json;
use url::Url;

use crate::Excerpt;
use crate::plain_text::plain_text;

/// Maximum lengths in results: of a title and a snippet, in characters, and of a URL, in bytes.
const MAX_TITLE_LEN: usize = 300;
const MAX_SNIPPET_LEN: usize = 1000;
const MAX_URL_LEN: usize = 2048;

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
    /// Converts a result; `None` if its URL is not a valid HTTP or HTTPS URL.
    pub(super) fn read(title: &str, snippet: &str, url: &str) -> Option<Self> {
        let parsed: Url = url.trim().parse().ok()?;
        let is_http = matches!(parsed.scheme(), "http" | "https");
        (is_http && parsed.as_str().len() <= MAX_URL_LEN).then(|| Self {
            title: plain_text(title, MAX_TITLE_LEN),
            snippet: plain_text(snippet, MAX_SNIPPET_LEN),
            url: parsed.into(),
        })
    }
}

impl Hits {
    /// Converts the first `max` results to the tool's output.
    pub(super) fn into_output(mut self, query: &str, max: usize) -> ToolOutput {
        self.hits.truncate(max);
        let ranked = || (1..).zip(&self.hits);
        let results: Vec<_> = ranked()
            .map(|(rank, hit)| {
                json!({"title": hit.title, "snippet": hit.snippet, "url": hit.url, "rank": rank})
            })
            .collect();
        let texts = ranked().map(|(rank, hit)| {
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
        let shown = u64::try_from(results.len()).unwrap_or(u64::MAX);
        let total = self.total.unwrap_or(0).max(shown);
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
        assert!(Hit::read("t", "s", "https://example.com/a").is_some());
        let long = format!("https://example.com/{}", "a".repeat(3000));
        for odd in [
            "javascript:alert(1)",
            "ftp://example.com",
            "example.com",
            "",
            &long,
        ] {
            assert!(Hit::read("t", "s", odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn d7_results_are_ranked_and_cut() {
        let hit = |number: u8| Hit::read(&format!("T{number}"), "", "https://e.example/");
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
