//! Faults of services, and egress rules.

use std::time::{Duration, Instant};

use pillion_builtins::get_weather::WeatherService;
use pillion_builtins::web_search::SearchService;
use pillion_builtins::{GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_egress::EgressPolicy;
use pillion_testkit::{Fault, FaultServer};
use serde_json::{Value, json};
use url::Url;

use crate::{assert_failed, base, key, requests, run, service};

/// Timeouts for services that are too slow, and for all other services.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// Calls one tool of each kind of service, with an API key and with `base` as its base URL.
async fn call_all(base: &Url, timeout: Duration, egress: &EgressPolicy) -> [ToolResult; 3] {
    let weather = WeatherSettings {
        service: WeatherService::OpenWeatherMap { api_key: key() },
        base_url: Some(base.clone()),
        timeout,
        egress: egress.clone(),
        ..WeatherSettings::default()
    };
    let search = |service| SearchSettings {
        service: Some(service),
        base_url: Some(base.clone()),
        timeout,
        egress: egress.clone(),
    };
    let (api_key, engine) = (key(), "cx".to_owned());
    let google = search(SearchService::Google { api_key, engine });
    let brave = search(SearchService::Brave { api_key: key() });
    [
        run(GetWeather::new(&weather), json!({"location": "Berlin"})).await,
        run(WebSearch::new(&google), json!({"query": "q"})).await,
        run(WebSearch::new(&brave), json!({"query": "q"})).await,
    ]
}

async fn call_all_at(base: &Url, timeout: Duration) -> [ToolResult; 3] {
    call_all(base, timeout, &EgressPolicy::default()).await
}

#[tokio::test]
async fn n1_slow_and_endless_services_time_out() {
    let slow: [Vec<Fault>; 3] = [
        vec![Fault::Hang],
        vec![Fault::head("application/json"), Fault::Hang],
        vec![
            Fault::head("application/json"),
            Fault::Send(b"{\"a\":".to_vec()),
            Fault::Hang,
        ],
    ];
    for script in slow {
        let server = FaultServer::start(move |_| script.clone()).await;
        let begun = Instant::now();
        for result in call_all_at(&base(&server), SHORT).await {
            assert_failed(&result, ErrorCode::Timeout, "did not respond within 0.3s");
            assert!(result.error.unwrap().ends_with("within 0.3s"));
        }
        assert!(begun.elapsed() < LONG);
    }
}

#[tokio::test]
async fn d7_an_endless_response_is_aborted() {
    let server = FaultServer::start(|_| {
        vec![
            Fault::head("application/json"),
            Fault::Forever(vec![b' '; 8192]),
        ]
    })
    .await;
    for result in call_all_at(&base(&server), LONG).await {
        let message = "responded with more than 1048576 bytes";
        assert_failed(&result, ErrorCode::InternalError, message);
        assert!(result.error.unwrap().ends_with(message));
    }
}

#[tokio::test]
async fn d7_truncated_and_malformed_responses_fail_clearly() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "{\"items\": [{\"title\": \"a",
        "",
        "<html>",
        "\u{0}",
        deep.as_str(),
        "7",
        "[7]",
    ];
    for body in bodies {
        let owned = body.to_owned();
        let server = FaultServer::start(move |_| {
            vec![Fault::response("200 OK", "application/json", &owned)]
        })
        .await;
        eprintln!("{body:.20}");
        for result in call_all_at(&base(&server), LONG).await {
            assert_failed(&result, ErrorCode::InternalError, " responded with ");
        }
    }
    // The body is shorter than the announced length.
    let server = FaultServer::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":";
        vec![Fault::Send(head.into()), Fault::Close]
    })
    .await;
    for result in call_all_at(&base(&server), LONG).await {
        assert_failed(&result, ErrorCode::Unavailable, "");
    }
}

#[tokio::test]
async fn d7_a_redirect_does_not_forward_the_key() {
    let elsewhere = service(&[]).await;
    for status in ["301 X", "302 X", "303 X", "307 X", "308 X"] {
        let location = format!("{}taken", base(&elsewhere));
        let server = FaultServer::start(move |_| {
            vec![Fault::response_with(status, &[("Location", &location)], "")]
        })
        .await;
        for result in call_all_at(&base(&server), LONG).await {
            assert_failed(&result, ErrorCode::Unavailable, "redirect");
        }
        assert_eq!(requests(&server).len(), 3);
    }
    assert!(requests(&elsewhere).is_empty());
}

#[tokio::test]
async fn l1_requests_follow_the_egress_policy() {
    let server = service(&[]).await;
    let policy: EgressPolicy = serde_json::from_value(json!({"allow_loopback": false})).unwrap();
    for result in call_all(&base(&server), LONG, &policy).await {
        assert_failed(
            &result,
            ErrorCode::Unavailable,
            "loopback address 127.0.0.1",
        );
    }
    assert!(requests(&server).is_empty());
    for (url, message) in [
        ("http://169.254.169.254/", "plain http"),
        ("https://169.254.169.254/", "are not allowed"),
        (
            "http://service.example/",
            "plain http to 'service.example' is not allowed",
        ),
    ] {
        for result in call_all_at(&url.parse().unwrap(), LONG).await {
            assert_failed(&result, ErrorCode::Unavailable, message);
        }
    }
}

#[tokio::test]
async fn d7_a_service_that_does_not_run_is_unavailable() {
    let listener = pillion_testkit::listen();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for result in call_all_at(&url.parse().unwrap(), LONG).await {
        assert_failed(&result, ErrorCode::Unavailable, "cannot be reached: ");
    }
}

#[tokio::test]
async fn d6_all_error_responses_of_weather_services_are_understood() {
    use ErrorCode::{InvalidInput, RateLimited, Unavailable};
    let error = |code: Value, message: &str| json!({"cod": code, "message": message});
    let invalid_key = "Invalid API key.";
    for (status, body, code, message) in [
        (
            401,
            error(json!(401), invalid_key),
            Unavailable,
            "OpenWeatherMap rejected the API key: check OPENWEATHER_API_KEY",
        ),
        (
            200,
            error(json!("401"), invalid_key),
            Unavailable,
            "the API key",
        ),
        (
            429,
            error(json!(429), "Blocked"),
            RateLimited,
            "too many requests",
        ),
        (
            200,
            error(json!(429), "Blocked"),
            RateLimited,
            "too many requests",
        ),
        (
            200,
            error(json!("404"), "city not found"),
            InvalidInput,
            "OpenWeatherMap rejected the request: city not found (404)",
        ),
        (
            500,
            error(json!("500"), "Oops"),
            Unavailable,
            "status 500: Oops",
        ),
        (
            200,
            error(json!(500), "Oops"),
            Unavailable,
            "status 500: Oops",
        ),
    ] {
        let server = server_with(status, &body).await;
        let result = &call_all_at(&base(&server), LONG).await[0];
        assert_failed(result, code, message);
        let has_wait = result.metadata.contains_key("retry_after");
        assert_eq!(has_wait, code == RateLimited);
    }
    let error = |reason: &str| json!({"error": true, "reason": reason});
    for (status, body, code, message) in [
        (
            400,
            error("Latitude must be in range"),
            InvalidInput,
            "Open-Meteo rejected the request: Latitude must be in range",
        ),
        (200, error("No."), InvalidInput, "No."),
        (
            429,
            error("Hourly limit exceeded."),
            RateLimited,
            "too many",
        ),
        (
            503,
            json!(null),
            Unavailable,
            "Open-Meteo responded with HTTP status 503",
        ),
        (
            403,
            json!(null),
            Unavailable,
            "Open-Meteo rejected the request",
        ),
    ] {
        let server = server_with(status, &body).await;
        let settings = WeatherSettings {
            base_url: Some(base(&server)),
            ..WeatherSettings::default()
        };
        let result = run(GetWeather::new(&settings), json!({"location": "Berlin"})).await;
        assert_failed(&result, code, message);
    }
}

/// Starts a service that responds to each request with this status and body.
async fn server_with(status: u16, body: &Value) -> FaultServer {
    let (status, body) = (format!("{status} X"), body.to_string());
    FaultServer::start(move |_| vec![Fault::response(&status, "application/json", &body)]).await
}
