use pillion_builtins::web_search::SearchService;
use pillion_builtins::{SearchSettings, WebSearch};
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::{ErrorCode, Tool};
use pillion_testkit::{Fault, FaultServer};
use serde_json::{Value, json};

use crate::{KEY, assert_failed, base, key, requests, run, service};

type NewTool = fn(&FaultServer) -> WebSearch;

fn settings(service: SearchService, server: &FaultServer) -> SearchSettings {
    SearchSettings {
        service: Some(service),
        base_url: Some(base(server)),
        ..SearchSettings::default()
    }
}

fn google(server: &FaultServer) -> WebSearch {
    let api_key = key();
    let engine = "017576662512468239146:omuauf_lfve".to_owned();
    WebSearch::new(&settings(SearchService::Google { api_key, engine }, server))
}

fn brave(server: &FaultServer) -> WebSearch {
    WebSearch::new(&settings(SearchService::Brave { api_key: key() }, server))
}

fn searxng(server: &FaultServer) -> WebSearch {
    let base_url = base(server);
    WebSearch::new(&settings(SearchService::SearXng { base_url }, server))
}

#[tokio::test]
async fn d7_requests_to_google_match_its_documentation() {
    let found = json!({"kind": "customsearch#search",
    "searchInformation": {"searchTime": 0.19, "totalResults": "1410000000"},
    "items": [
        {"kind": "customsearch#result", "title": "Lectures &amp; \u{202e}more",
         "htmlTitle": "<b>Lectures</b>", "link": "https://example.com/lectures",
         "displayLink": "example.com", "snippet": "A list\n of <b>lectures</b>\u{7}."},
        {"title": "Not to be gone to", "link": "javascript:alert(1)", "snippet": ""},
        {"title": "No snippet", "link": "http://example.org/"},
    ]});
    let server = service(&[("/customsearch/v1", found)]).await;
    let arguments = json!({"query": "lectures & more", "num_results": 50});
    let result = run(google(&server), arguments).await;
    assert_eq!(
        requests(&server),
        [format!(
            "GET /customsearch/v1?key={KEY}&cx=017576662512468239146:omuauf_lfve\
             &q=lectures%20%26%20more&num=10"
        )]
    );
    assert_eq!(
        result.data.clone().unwrap(),
        json!({"query": "lectures & more", "total_results": 1_410_000_000, "results": [
            {"title": "Lectures & more", "snippet": "A list of lectures.",
             "url": "https://example.com/lectures", "rank": 1},
            {"title": "No snippet", "snippet": "", "url": "http://example.org/", "rank": 2},
        ]})
    );
    assert_eq!(
        result.result,
        "1. Lectures & more\n   https://example.com/lectures\n   A list of lectures.\n\n\
         2. No snippet\n   http://example.org/"
    );
    assert_eq!(result.metadata["source"], "google");
}

#[tokio::test]
async fn d7_requests_to_brave_have_the_token_in_a_header() {
    let page = |number: u8| {
        json!({"title": format!("Page {number}"), "url": format!("https://example.com/{number}"),
            "description": "The <strong>best</strong> &lt;T&gt;", "profile": {"name": "Example"}})
    };
    let found = json!({"type": "search", "query": {"original": "rust"},
        "web": {"type": "search", "results": [page(1), page(2), page(3)]}});
    let server = service(&[("/res/v1/web/search", found)]).await;
    let result = run(brave(&server), json!({"query": "rust", "num_results": 2})).await;
    let request = &server.requests.all()[0];
    assert_eq!(request.path, "/res/v1/web/search?q=rust&count=2");
    assert_eq!(request.header("x-subscription-token"), KEY);
    assert_eq!(request.header("accept"), "application/json");
    let data = result.data.unwrap();
    assert_eq!(data["total_results"], 2);
    assert_eq!(
        data["results"][1],
        json!({"title": "Page 2", "url": "https://example.com/2", "snippet": "The best <T>",
            "rank": 2})
    );
    let server = service(&[]).await;
    for long in ["x".repeat(401), "x ".repeat(51)] {
        let result = run(brave(&server), json!({"query": long})).await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    }
    assert!(requests(&server).is_empty());
}

#[tokio::test]
async fn d7_requests_to_searxng_ask_for_json() {
    let found = json!({"query": "rust", "number_of_results": 0, "results": [
        {"url": "https://www.rust-lang.org/", "title": "Rust", "content": "A language",
         "engine": "duckduckgo", "score": 9.0, "category": "general"},
        {"url": "https://example.com/", "title": "No content", "content": null},
    ], "answers": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []});
    let server = service(&[("/search", found)]).await;
    let result = run(searxng(&server), json!({"query": "rust"})).await;
    assert_eq!(requests(&server), ["GET /search?q=rust&format=json"]);
    let data = result.data.unwrap();
    assert_eq!(data["total_results"], 2);
    assert_eq!(data["results"][0]["snippet"], "A language");
}

#[tokio::test]
async fn d7_an_empty_result_list_is_a_success() {
    let google_response = json!({"searchInformation": {"totalResults": "0"}});
    let cases: [(NewTool, &'static str, Value); 3] = [
        (google, "/customsearch/v1", google_response),
        (brave, "/res/v1/web/search", json!({"type": "search"})),
        (searxng, "/search", json!({"results": []})),
    ];
    for (tool, path, response) in cases {
        let server = service(&[(path, response)]).await;
        let result = run(tool(&server), json!({"query": "xyzzy"})).await;
        assert_eq!(result.result, "No results for 'xyzzy'");
        assert_eq!(
            result.data.unwrap(),
            json!({"query": "xyzzy", "results": [], "total_results": 0})
        );
    }
}

#[tokio::test]
async fn d7_too_many_results_are_truncated() {
    let page = json!({"url": "https://example.com/", "title": "t".repeat(5000),
        "content": "c".repeat(5000)});
    let found = json!({"results": vec![page; 50]});
    let server = service(&[("/search", found)]).await;
    let result = run(searxng(&server), json!({"query": "q", "num_results": 10})).await;
    let data = result.data.unwrap();
    assert_eq!(data["results"].as_array().map(Vec::len), Some(10));
    assert!(data.to_string().len() < 15_000);
}

#[tokio::test]
async fn d7_the_mock_is_deterministic() {
    let mock = WebSearch::new(&SearchSettings {
        service: Some(SearchService::Mock),
        ..SearchSettings::default()
    });
    let result = run(mock, json!({"query": "q"})).await;
    let data = result.data.unwrap();
    assert_eq!(data["results"].as_array().map(Vec::len), Some(5));
    assert_eq!(data["results"][0]["title"], "Result 1 for 'q'");
    assert_eq!(data["results"][0]["url"], "https://example.com/result1");
    assert_eq!(data["results"][4]["rank"], 5);
    assert_eq!(result.metadata["source"], "mock");
}

#[tokio::test]
async fn d7_without_a_provider_the_search_is_unlisted_and_names_the_setting() {
    let tool = || WebSearch::new(&SearchSettings::default());
    assert!(!tool().is_offered());
    let registry = ToolRegistry::new();
    registry.register(std::sync::Arc::new(tool())).unwrap();
    assert!(registry.is_empty() && registry.tools(None).is_empty() && registry.names().is_empty());
    assert!(registry.categories().is_empty());
    assert!(registry.contains("web_search"));

    let result = run(tool(), json!({"query": "q"})).await;
    assert_eq!(result.error_code, Some(ErrorCode::Unavailable));
    let error = result.error.unwrap();
    for named in [
        "GOOGLE_SEARCH_API_KEY",
        "GOOGLE_SEARCH_CX",
        "[tools.web_search]",
    ] {
        assert!(error.contains(named), "{error}");
    }
}

#[tokio::test]
async fn d7_invalid_queries_are_rejected_without_a_request() {
    let server = service(&[]).await;
    for (arguments, message) in [
        (json!({"query": " \n"}), "No query provided"),
        (
            json!({"query": "x".repeat(1001)}),
            "The query is longer than 1000 characters",
        ),
        (json!({}), "Missing required parameter: query"),
        (
            json!({"query": "q", "num_results": "many"}),
            "Invalid type for num_results: expected integer",
        ),
    ] {
        let result = run(google(&server), arguments).await;
        assert_eq!(result.error.as_deref(), Some(message));
    }
    assert!(requests(&server).is_empty());
}

#[tokio::test]
async fn d7_all_error_responses_are_understood() {
    let google_error = |code: u16, reason: &str, message: &str| {
        json!({"error": {"code": code, "message": message, "status": "X",
            "errors": [{"message": message, "domain": "usageLimits", "reason": reason}]}})
    };
    let brave_error = |status: u16, code: &str| {
        json!({"type": "ErrorResponse", "time": 1_754_364_294, "error": {"id": "x",
            "status": status, "code": code, "detail": "Because.", "meta": {}}})
    };
    use ErrorCode::{RateLimited, Unavailable};
    let cases: [(NewTool, u16, Value, ErrorCode, &str); 14] = [
        (
            google,
            400,
            google_error(400, "badRequest", "API key not valid. Please pass one."),
            Unavailable,
            "rejected the API key: check GOOGLE_SEARCH_API_KEY",
        ),
        (
            google,
            403,
            google_error(403, "dailyLimitExceeded", "Daily Limit Exceeded"),
            RateLimited,
            "too many requests",
        ),
        (
            google,
            403,
            google_error(403, "accessNotConfigured", "Access Not Configured"),
            Unavailable,
            "rejected the API key",
        ),
        (
            google,
            429,
            google_error(429, "rateLimitExceeded", "Quota exceeded"),
            RateLimited,
            "too many requests",
        ),
        (
            google,
            200,
            google_error(429, "rateLimitExceeded", "Quota exceeded"),
            RateLimited,
            "too many requests",
        ),
        (
            google,
            400,
            google_error(400, "badRequest", &format!("Bad <b>{KEY}</b>\u{7}")),
            Unavailable,
            "Google Custom Search responded with HTTP status 400: Bad ***",
        ),
        (
            google,
            502,
            json!("<html>"),
            Unavailable,
            "responded with HTTP status 502",
        ),
        (
            brave,
            422,
            brave_error(422, "SUBSCRIPTION_TOKEN_INVALID"),
            Unavailable,
            "rejected the API key: check BRAVE_SEARCH_API_KEY",
        ),
        (
            brave,
            429,
            brave_error(429, "RATE_LIMITED"),
            RateLimited,
            "too many requests",
        ),
        (
            brave,
            422,
            brave_error(422, "VALIDATION"),
            Unavailable,
            "responded with HTTP status 422: Because.",
        ),
        (
            brave,
            200,
            brave_error(500, "OTHER"),
            Unavailable,
            "responded with HTTP status 500",
        ),
        (
            searxng,
            403,
            json!(null),
            Unavailable,
            "add json to search.formats",
        ),
        (searxng, 429, json!(null), RateLimited, "too many requests"),
        (
            searxng,
            200,
            json!({"error": "no"}),
            ErrorCode::InternalError,
            "an invalid list of results",
        ),
    ];
    for (tool, status, body, code, message) in cases {
        eprintln!("{status} {body}");
        let server = FaultServer::start(move |_| {
            vec![Fault::response_with(
                &format!("{status} X"),
                &[("Content-Type", "application/json"), ("Retry-After", "7")],
                body.to_string(),
            )]
        })
        .await;
        let result = run(tool(&server), json!({"query": "q"})).await;
        assert_failed(&result, code, message);
        let wait = result.metadata.get("retry_after");
        assert_eq!(wait.is_some(), code == RateLimited);
        assert!(wait.is_none_or(|wait| *wait == 7), "{wait:?}");
    }
}

#[tokio::test]
async fn d7_the_rate_limit_header_of_brave_sets_retry_after() {
    for (remaining, reset, wait) in [("1, 0", "1, 1419704", 1_419_704), ("0, 9", "1, 5", 1)] {
        let headers = [
            ("X-RateLimit-Remaining", remaining),
            ("X-RateLimit-Reset", reset),
        ];
        let server =
            FaultServer::start(move |_| vec![Fault::response_with("429 X", &headers, "")]).await;
        let result = run(brave(&server), json!({"query": "q"})).await;
        assert_eq!(result.error_code, Some(ErrorCode::RateLimited));
        assert_eq!(result.metadata["retry_after"], wait);
    }
}
