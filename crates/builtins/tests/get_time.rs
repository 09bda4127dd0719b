//! The tool `get_time` (requirement D2), with a fixed clock.

#![expect(
    clippy::unwrap_used,
    reason = "clippy's exception for tests does not reach the functions beside them"
)]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pillion_builtins::GetTime;
use pillion_core::tool::{CallContext, ErrorCode, Tool, ToolFailure, ToolOutput};
use serde_json::{Value, json};

/// The fixed time: 2025-10-14 09:30:45 UTC, a Tuesday.
const SECONDS: u64 = 1_760_434_245;

async fn call_at(micros: u64, zone: &str, arguments: Value) -> Result<ToolOutput, ToolFailure> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(SECONDS) + Duration::from_micros(micros);
    let tool = Arc::new(GetTime::new(zone, move || now).unwrap());
    let object = arguments.as_object().unwrap().clone();
    tool.call(object, CallContext::default()).await
}

async fn call_failing(arguments: Value) -> ToolFailure {
    call_at(0, "UTC", arguments).await.unwrap_err()
}

async fn call(arguments: Value) -> ToolOutput {
    call_at(0, "UTC", arguments).await.unwrap()
}

#[test]
fn d2_definition() {
    let tool = GetTime::default();
    let definition = tool.definition();
    assert_eq!(definition.name().as_str(), "get_time");
    assert_eq!(definition.category(), "utility");
    let schema = definition.input_schema();
    assert_eq!(schema["required"], json!([]));
    assert_eq!(schema["properties"]["timezone"]["default"], json!("UTC"));
    assert_eq!(
        schema["properties"]["format"]["enum"],
        json!(["full", "date", "time", "iso", "timestamp"])
    );
}

#[tokio::test]
async fn d2_text_for_the_model_and_value_for_programs() {
    for (format, text, formatted) in [
        (
            "full",
            "Tuesday, October 14, 2025 at 09:30 AM UTC",
            json!("2025-10-14 09:30:45"),
        ),
        ("date", "2025-10-14", json!("2025-10-14")),
        ("time", "09:30:45 UTC", json!("09:30:45")),
        (
            "iso",
            "2025-10-14T09:30:45+00:00",
            json!("2025-10-14T09:30:45+00:00"),
        ),
        ("timestamp", "1760434245", json!(SECONDS)),
    ] {
        let output = call(json!({"timezone": "UTC", "format": format})).await;
        assert_eq!(output.result, json!(text));
        assert_eq!(
            output.data.unwrap(),
            json!({
                "formatted": formatted,
                "iso": "2025-10-14T09:30:45+00:00",
                "format_used": format,
            })
        );
        assert_eq!(output.metadata["timezone"], json!("UTC"));
        assert_eq!(output.metadata["day_of_week"], json!("Tuesday"));
    }
}

#[tokio::test]
async fn d2_full_and_utc_by_default() {
    let output = call(json!({})).await;
    assert_eq!(output.result, "Tuesday, October 14, 2025 at 09:30 AM UTC");
}

#[tokio::test]
async fn d2_other_time_zones() {
    let tokyo = call(json!({"timezone": "Asia/Tokyo"})).await;
    assert_eq!(tokyo.result, "Tuesday, October 14, 2025 at 06:30 PM JST");
    assert_eq!(tokyo.data.unwrap()["iso"], "2025-10-14T18:30:45+09:00");

    let auckland = call(json!({"timezone": "pacific/auckland"})).await;
    assert_eq!(
        auckland.result,
        json!("Tuesday, October 14, 2025 at 10:30 PM NZDT")
    );
    assert_eq!(auckland.metadata["timezone"], json!("Pacific/Auckland"));

    let honolulu = call(json!({"timezone": "Pacific/Honolulu", "format": "full"})).await;
    assert_eq!(honolulu.result, "Monday, October 13, 2025 at 11:30 PM HST");
    assert_eq!(honolulu.metadata["day_of_week"], json!("Monday"));

    let kathmandu = call(json!({"timezone": "Asia/Kathmandu", "format": "time"})).await;
    assert_eq!(kathmandu.result, json!("15:15:45 +0545"));
    assert_eq!(kathmandu.data.unwrap()["iso"], "2025-10-14T15:15:45+05:45");
}

#[tokio::test]
async fn d2_iso_has_microseconds_unless_they_are_zero() {
    let output = call_at(1_500, "UTC", json!({"format": "iso"}))
        .await
        .unwrap();
    assert_eq!(output.result, json!("2025-10-14T09:30:45.001500+00:00"));
}

#[tokio::test]
async fn d2_another_default_zone() {
    let output = call_at(0, "Europe/Berlin", json!({})).await.unwrap();
    assert_eq!(output.result, "Tuesday, October 14, 2025 at 11:30 AM CEST");
    let named = call_at(0, "Europe/Berlin", json!({"timezone": "UTC"}))
        .await
        .unwrap();
    assert_eq!(named.metadata["timezone"], json!("UTC"));
    let unknown = GetTime::new("Europe/Nowhere", SystemTime::now).unwrap_err();
    assert_eq!(unknown.to_string(), "Unknown timezone: Europe/Nowhere");
}

#[tokio::test]
async fn d2_unknown_time_zones() {
    for zone in [
        "Mars/Olympus",
        "../etc/passwd",
        "/etc/localtime",
        "/usr/share/zoneinfo/UTC",
        "",
        " ",
        "+02:00",
        "Etc/Unknown",
        "UTC\0",
        "EST5EDT4,M3.2.0,M11.1.0",
        "localtime",
        "posix/UTC",
        "Europe/../UTC",
        "日本",
    ] {
        let failure = call_failing(json!({"timezone": zone})).await;
        assert_eq!(failure.code, ErrorCode::InvalidInput, "{zone:?}");
        let shown = zone.replace('\0', "\u{fffd}");
        assert_eq!(failure.message, format!("Unknown timezone: {shown}"));
    }
    let long = "x".repeat(1_000_000);
    let failure = call_failing(json!({"timezone": long})).await;
    let shown = "x".repeat(100);
    assert_eq!(failure.message, format!("Unknown timezone: {shown}…"));
}

#[tokio::test]
async fn d2_unknown_format() {
    let failure = call_failing(json!({"format": "long"})).await;
    assert_eq!(failure.code, ErrorCode::InvalidInput);
    assert_eq!(
        failure.message,
        "Invalid value for format: must be one of ['full', 'date', 'time', 'iso', 'timestamp']"
    );
}
