//! Faults of services, and egress rules.

use std::time::{Duration, Instant};

use pillion_builtins::get_weather::WeatherService;
use pillion_builtins::web_search::SearchService;
use pillion_builtins::{GetWeather, SearchSettings, WeatherSettings, WebSearch};
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_egress::EgressPolicy;
use pillion_testkit::{Fault, FaultServer};
use serde_json::json;
use url::Url;

use crate::{base, key, requests, run, service};

/// A timeout for services that are too slow, and one for all other services.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// Calls one tool of each kind of service with a key, at `base`.
async fn ask_all(base: &Url, timeout: Duration, egress: &EgressPolicy) -> [ToolResult; 3] {
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

async fn ask_at(base: &Url, timeout: Duration) -> [ToolResult; 3] {
    ask_all(base, timeout, &EgressPolicy::default()).await
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
        for result in ask_at(&base(&server), SHORT).await {
            assert_eq!(result.error_code, Some(ErrorCode::Timeout), "{result:?}");
            let error = result.error.unwrap();
            assert!(error.ends_with("did not respond within 0.3s"), "{error}");
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
    for result in ask_at(&base(&server), LONG).await {
        assert_eq!(
            result.error_code,
            Some(ErrorCode::InternalError),
            "{result:?}"
        );
        assert!(
            result
                .error
                .unwrap()
                .ends_with("responded with more than 1048576 bytes")
        );
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
        for result in ask_at(&base(&server), LONG).await {
            assert_eq!(
                result.error_code,
                Some(ErrorCode::InternalError),
                "{body:.20}: {result:?}"
            );
            assert!(result.error.unwrap().contains(" responded with "));
        }
    }
    // The body is shorter than announced.
    let server = FaultServer::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":";
        vec![Fault::Send(head.into()), Fault::Close]
    })
    .await;
    for result in ask_at(&base(&server), LONG).await {
        assert_eq!(
            result.error_code,
            Some(ErrorCode::Unavailable),
            "{result:?}"
        );
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
        for result in ask_at(&base(&server), LONG).await {
            assert_eq!(
                result.error_code,
                Some(ErrorCode::Unavailable),
                "{result:?}"
            );
            assert!(result.error.unwrap().contains("redirect"));
        }
        assert_eq!(requests(&server).len(), 3);
    }
    assert!(requests(&elsewhere).is_empty());
}

#[tokio::test]
async fn l1_requests_follow_the_egress_policy() {
    let server = service(&[]).await;
    let policy: EgressPolicy = serde_json::from_value(json!({"allow_loopback": false})).unwrap();
    for result in ask_all(&base(&server), LONG, &policy).await {
        assert_eq!(result.error_code, Some(ErrorCode::Unavailable));
        assert!(result.error.unwrap().contains("loopback address 127.0.0.1"));
    }
    assert!(requests(&server).is_empty());
    for (url, says) in [
        ("http://169.254.169.254/", "plain http"),
        ("https://169.254.169.254/", "are not allowed"),
        (
            "http://service.example/",
            "plain http to 'service.example' is not allowed",
        ),
    ] {
        for result in ask_at(&url.parse().unwrap(), LONG).await {
            assert_eq!(result.error_code, Some(ErrorCode::Unavailable));
            let error = result.error.unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}

#[tokio::test]
async fn d7_a_refused_connection_is_unavailable() {
    let listener = pillion_testkit::listen();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for result in ask_at(&url.parse().unwrap(), LONG).await {
        assert_eq!(
            result.error_code,
            Some(ErrorCode::Unavailable),
            "{result:?}"
        );
        assert!(result.error.unwrap().contains("cannot be reached: "));
    }
}

#[tokio::test]
async fn d6_all_error_responses_of_weather_services_are_understood() {
    use ErrorCode::{InvalidInput, RateLimited, Unavailable};
    for (status, body, code, says) in [
        (
            401,
            json!({"cod": 401, "message": "Invalid API key."}),
            Unavailable,
            "OpenWeatherMap rejected the API key: check OPENWEATHER_API_KEY",
        ),
        (
            200,
            json!({"cod": "401", "message": "Invalid API key."}),
            Unavailable,
            "the API key",
        ),
        (
            429,
            json!({"cod": 429, "message": "Blocked"}),
            RateLimited,
            "too many requests",
        ),
        (
            200,
            json!({"cod": 429, "message": "Blocked"}),
            RateLimited,
            "too many requests",
        ),
        (
            200,
            json!({"cod": "404", "message": "city not found"}),
            InvalidInput,
            "OpenWeatherMap rejected the request: city not found (404)",
        ),
        (
            500,
            json!({"cod": "500", "message": "Oops"}),
            Unavailable,
            "status 500: Oops",
        ),
        (
            200,
            json!({"cod": 500, "message": "Oops"}),
            Unavailable,
            "status 500: Oops",
        ),
    ] {
        let server = answering(status, &body).await;
        let result = &ask_at(&base(&server), LONG).await[0];
        assert_eq!(result.error_code, Some(code), "{status} {body}: {result:?}");
        assert!(
            result.error.as_deref().unwrap().contains(says),
            "{result:?}"
        );
        assert_eq!(
            result.metadata.contains_key("retry_after"),
            code == RateLimited
        );
    }
    for (status, body, code, says) in [
        (
            400,
            json!({"error": true, "reason": "Latitude must be in range"}),
            InvalidInput,
            "Open-Meteo rejected the request: Latitude must be in range",
        ),
        (
            200,
            json!({"error": true, "reason": "No."}),
            InvalidInput,
            "No.",
        ),
        (
            429,
            json!({"error": true, "reason": "Hourly limit exceeded."}),
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
        let server = answering(status, &body).await;
        let settings = WeatherSettings {
            base_url: Some(base(&server)),
            ..WeatherSettings::default()
        };
        let result = run(GetWeather::new(&settings), json!({"location": "Berlin"})).await;
        assert_eq!(result.error_code, Some(code), "{status} {body}: {result:?}");
        assert!(
            result.error.as_deref().unwrap().contains(says),
            "{result:?}"
        );
    }
}

async fn answering(status: u16, body: &serde_json::Value) -> FaultServer {
    let body = body.to_string();
    FaultServer::start(move |_| {
        vec![Fault::response(
            &format!("{status} X"),
            "application/json",
            &body,
        )]
    })
    .await
}
