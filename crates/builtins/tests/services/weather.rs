use pillion_builtins::get_weather::{Units, WeatherService};
use pillion_builtins::{GetWeather, WeatherSettings};
use pillion_core::tool::{ErrorCode, ToolResult};
use pillion_testkit::FaultServer;
use serde_json::{Value, json};

use crate::{KEY, base, key, requests, run, service};

fn open_meteo(server: &FaultServer) -> WeatherSettings {
    WeatherSettings {
        base_url: Some(base(server)),
        ..WeatherSettings::default()
    }
}

fn open_weather_map(server: &FaultServer) -> WeatherSettings {
    WeatherSettings {
        service: WeatherService::OpenWeatherMap { api_key: key() },
        ..open_meteo(server)
    }
}

async fn weather(settings: &WeatherSettings, location: &str) -> ToolResult {
    run(GetWeather::new(settings), json!({"location": location})).await
}

/// Returns the example in the documentation of the geocoding API.
fn berlins() -> Value {
    json!({"results": [
        {"id": 2950159, "name": "Berlin", "latitude": 52.52437, "longitude": 13.41053,
         "elevation": 74.0, "feature_code": "PPLC", "country_code": "DE", "admin1_id": 2950157,
         "timezone": "Europe/Berlin", "population": 3426354, "postcodes": ["10967", "13347"],
         "country_id": 2921044, "country": "Germany", "admin1": "State of Berlin"},
        {"id": 5083330, "name": "Berlin", "latitude": 44.46867, "longitude": -71.18508,
         "feature_code": "PPL", "country_code": "US", "population": 9367,
         "country": "United States", "admin1": "New Hampshire", "admin2": "Coos"},
    ], "generationtime_ms": 0.67})
}

/// Returns the example in the documentation of the forecast API, with the requested variables.
fn forecast() -> Value {
    json!({"latitude": 52.52, "longitude": 13.419998, "generationtime_ms": 0.08,
        "utc_offset_seconds": 0, "timezone": "GMT", "timezone_abbreviation": "GMT",
        "elevation": 38.0,
        "current_units": {"time": "unixtime", "interval": "seconds", "temperature_2m": "°C",
            "relative_humidity_2m": "%", "weather_code": "wmo code", "wind_speed_10m": "km/h"},
        "current": {"time": 1_763_802_000, "interval": 900, "temperature_2m": 3.4,
            "relative_humidity_2m": 81, "weather_code": 61, "wind_speed_10m": 11.9}})
}

/// Returns the example in the documentation of the current weather API.
fn zocca() -> Value {
    json!({"coord": {"lon": 10.99, "lat": 44.34},
        "weather": [{"id": 501, "main": "Rain", "description": "moderate rain", "icon": "10d"}],
        "base": "stations",
        "main": {"temp": 25.33, "feels_like": 25.6, "temp_min": 24.4, "temp_max": 26.9,
            "pressure": 1015, "humidity": 64},
        "visibility": 10000, "wind": {"speed": 0.62, "deg": 349, "gust": 1.18},
        "clouds": {"all": 100}, "dt": 1_661_870_592, "sys": {"country": "IT"},
        "timezone": 7200, "id": 3163858, "name": "Zocca", "cod": 200})
}

#[tokio::test]
async fn d6_open_meteo_gets_a_geocoding_and_a_forecast_request() {
    let server = service(&[("/v1/search", berlins()), ("/v1/forecast", forecast())]).await;
    let result = weather(&open_meteo(&server), "Berlin").await;
    assert_eq!(
        requests(&server),
        [
            "GET /v1/search?name=Berlin&count=10&language=en&format=json",
            "GET /v1/forecast?latitude=52.52437&longitude=13.41053\
             &current=temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m\
             &timeformat=unixtime",
        ]
    );
    assert_eq!(
        result.result,
        "Berlin, State of Berlin, Germany: 3.4 °C, Light rain, humidity 81 %, wind 11.9 km/h"
    );
    assert_eq!(
        result.data.unwrap(),
        json!({"location": "Berlin, State of Berlin, Germany", "temperature": 3.4,
            "units": "celsius", "conditions": "Light rain", "humidity": 81,
            "wind_speed": 11.9, "wind_speed_units": "km/h"})
    );
    assert_eq!(result.metadata["source"], "open-meteo");
    assert_eq!(result.metadata["latitude"], 52.52437);
    assert_eq!(result.metadata["observed_at"], "2025-11-22T09:00:00Z");
}

#[tokio::test]
async fn d6_a_region_or_country_selects_the_location() {
    let server = service(&[("/v1/search", berlins()), ("/v1/forecast", forecast())]).await;
    let arguments = json!({"location": "Berlin, NH", "units": "fahrenheit"});
    let result = run(GetWeather::new(&open_meteo(&server)), arguments).await;
    let sent = requests(&server);
    let search = "GET /v1/search?name=Berlin&count=100&language=en&format=json";
    assert_eq!(sent[0], search);
    let coordinates = "latitude=44.46867&longitude=-71.18508";
    assert!(sent[1].contains(coordinates), "{sent:?}");
    let data = result.data.unwrap();
    assert_eq!(data["location"], "Berlin, New Hampshire, United States");
    assert_eq!(
        (&data["temperature"], &data["units"]),
        (&json!(38.1), &json!("fahrenheit"))
    );
}

#[tokio::test]
async fn d6_coordinates_need_no_geocoding_and_an_api_key_is_sent() {
    let server = service(&[("/v1/forecast", forecast())]).await;
    let settings = WeatherSettings {
        service: WeatherService::OpenMeteo {
            api_key: Some(key()),
        },
        ..open_meteo(&server)
    };
    let result = weather(&settings, "52.52, 13.41").await;
    assert!(result.success, "{result:?}");
    assert_eq!(
        requests(&server),
        [format!(
            "GET /v1/forecast?latitude=52.52&longitude=13.41\
             &current=temperature_2m,relative_humidity_2m,weather_code,wind_speed_10m\
             &timeformat=unixtime&apikey={KEY}"
        )]
    );
}

#[tokio::test]
async fn d6_unknown_and_ambiguous_places_fail_clearly() {
    let springfield = |region: &str, population: u64| {
        json!({"name": "Springfield", "latitude": 1.0, "longitude": 2.0, "feature_code": "PPLA2",
            "country_code": "US", "country": "United States", "admin1": region,
            "population": population})
    };
    let several =
        json!({"results": [springfield("Missouri", 166_810), springfield("Ohio", 58_662)]});
    let none = json!({"generationtime_ms": 0.5});
    for (found, location, message) in [
        (
            several,
            "Springfield",
            "Ambiguous location: Springfield. Use one of: Springfield, Missouri, United States; \
            Springfield, Ohio, United States",
        ),
        (none, "Xyzzy", "Unknown location: Xyzzy"),
    ] {
        let server = service(&[("/v1/search", found)]).await;
        let result = weather(&open_meteo(&server), location).await;
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
        assert_eq!(result.error.as_deref(), Some(message));
        assert_eq!(requests(&server).len(), 1);
    }
    let server = service(&[("/geo/1.0/direct", json!([]))]).await;
    let result = weather(&open_weather_map(&server), "Xyzzy").await;
    assert_eq!(result.error.as_deref(), Some("Unknown location: Xyzzy"));
}

#[tokio::test]
async fn d6_requests_to_open_weather_map_have_the_key() {
    let locations = json!([{"name": "Zocca", "local_names": {"it": "Zocca"}, "lat": 44.3463,
        "lon": 10.9922, "country": "IT", "state": "Emilia-Romagna"}]);
    let server = service(&[
        ("/geo/1.0/direct", locations),
        ("/data/2.5/weather", zocca()),
    ])
    .await;
    let result = weather(&open_weather_map(&server), "Zocca , IT").await;
    assert_eq!(
        requests(&server),
        [
            format!("GET /geo/1.0/direct?q=Zocca,IT&limit=5&appid={KEY}"),
            format!("GET /data/2.5/weather?lat=44.3463&lon=10.9922&units=metric&appid={KEY}"),
        ]
    );
    assert_eq!(
        result.result,
        "Zocca, Emilia-Romagna, IT: 25.3 °C, Moderate rain, humidity 64 %, wind 2.2 km/h"
    );
    assert_eq!(result.metadata["source"], "openweathermap");
    assert_eq!(result.data.unwrap()["wind_speed"], 2.2);
}

#[tokio::test]
async fn d6_the_mock_is_deterministic() {
    for (location, units, temperature) in [
        ("London", "celsius", json!(15)),
        ("Greater London", "celsius", json!(15)),
        ("Tokyo", "celsius", json!(25)),
        ("Tokyo", "fahrenheit", json!(77.0)),
        ("sydney", "celsius", json!(28)),
        ("Paris", "celsius", json!(22)),
        ("Paris", "fahrenheit", json!(71.6)),
    ] {
        let mock = GetWeather::new(&WeatherSettings {
            service: WeatherService::Mock,
            ..WeatherSettings::default()
        });
        let result = run(mock, json!({"location": location, "units": units})).await;
        assert_eq!(
            result.data.unwrap(),
            json!({"location": location, "temperature": temperature, "units": units,
                "conditions": "Partly Cloudy", "humidity": 65, "wind_speed": 12,
                "wind_speed_units": "km/h"})
        );
        assert_eq!(result.metadata["source"], "mock");
    }
}

#[tokio::test]
async fn d6_invalid_locations_are_rejected_without_a_request() {
    let server = service(&[]).await;
    for (arguments, message) in [
        (json!({"location": "  "}), "No location provided"),
        (
            json!({"location": "x".repeat(201)}),
            "The location is longer than 200 characters",
        ),
        (json!({}), "Missing required parameter: location"),
        (
            json!({"location": "Berlin", "units": "kelvin"}),
            "Invalid value for units: must be one of ['celsius', 'fahrenheit']",
        ),
    ] {
        let result = run(GetWeather::new(&open_meteo(&server)), arguments).await;
        assert_eq!(result.error.as_deref(), Some(message));
        assert_eq!(result.error_code, Some(ErrorCode::InvalidInput));
    }
    assert!(requests(&server).is_empty());
}

#[tokio::test]
async fn d6_units_can_be_configured() {
    let settings = WeatherSettings {
        service: WeatherService::Mock,
        units: Units::Fahrenheit,
        ..WeatherSettings::default()
    };
    let result = weather(&settings, "Tokyo").await;
    assert_eq!(
        result.result,
        "Tokyo: 77.0 °F, Partly Cloudy, humidity 65 %, wind 12 km/h"
    );
}
