use std::time::Duration;

use super::{Weather, WeatherReport};

/// The delay of a mock response, which is about the response time of a real service.
const RESPONSE_DELAY: Duration = Duration::from_millis(100);

/// The mock's temperatures by city, in degrees Celsius.
const CITY_TEMPERATURES: [(&str, i32); 3] = [("london", 15), ("tokyo", 25), ("sydney", 28)];
const DEFAULT_TEMPERATURE: i32 = 22;

/// Returns mock weather that only depends on the location's name.
pub(super) async fn create_report(location: &str) -> WeatherReport {
    tokio::time::sleep(RESPONSE_DELAY).await;
    let lower_case_location = location.to_lowercase();
    let known_city = CITY_TEMPERATURES
        .iter()
        .find(|(city, _)| lower_case_location.contains(city));
    WeatherReport {
        source: "mock",
        location: location.to_owned(),
        coordinates: None,
        observed_at: None,
        weather: Weather {
            celsius: f64::from(known_city.map_or(DEFAULT_TEMPERATURE, |(_, degrees)| *degrees)),
            conditions: "Partly Cloudy".to_owned(),
            humidity: Some(65.0),
            wind_kmh: Some(12.0),
        },
    }
}
