//! Gets a weather report from a service.

use std::time::Duration;

use jiff::Timestamp;
use pillion_core::tool::ToolFailure;

use super::location::{self, Location, RequestedLocation};
use super::{Weather, WeatherReport};
use crate::service::run_with_timeout;

/// A service that knows places and their weather.
pub(super) trait WeatherProvider {
    /// The service's name in errors.
    const NAME: &'static str;

    /// The service's name in reports.
    const SOURCE: &'static str;

    /// Finds the places with the given name that are within all given areas (regions or countries),
    /// most likely place first. Also returns the areas that the service has not compared with the
    /// places, so that the caller must compare these areas.
    async fn find_locations<'a>(
        &self,
        name: &str,
        areas: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure>;

    /// Returns the weather at a place and its time of observation, in seconds since 1970.
    async fn fetch_current_weather(
        &self,
        location: &Location,
    ) -> Result<(Weather, Option<i64>), ToolFailure>;
}

/// Requests the report of a service for a location.
///
/// # Errors
/// `invalid_input` if the location is unknown or ambiguous; another error if the service fails or
/// exceeds the timeout.
pub(super) async fn request_report<P: WeatherProvider>(
    provider: &P,
    requested_location: &RequestedLocation,
    timeout: Duration,
) -> Result<WeatherReport, ToolFailure> {
    run_with_timeout(timeout, P::NAME, find_report(provider, requested_location)).await
}

async fn find_report<P: WeatherProvider>(
    provider: &P,
    requested_location: &RequestedLocation,
) -> Result<WeatherReport, ToolFailure> {
    let location = match requested_location {
        RequestedLocation::Coordinates(latitude, longitude) => {
            Location::from_coordinates(*latitude, *longitude)
        }
        RequestedLocation::Name {
            location,
            name,
            areas,
        } => {
            let (candidates, unmatched_areas) = provider.find_locations(name, areas).await?;
            location::choose_location(location, name, unmatched_areas, candidates)?
        }
    };
    let (weather, seconds) = provider.fetch_current_weather(&location).await?;
    let observed_at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    Ok(WeatherReport {
        source: P::SOURCE,
        location: location.full_name(),
        coordinates: Some((location.latitude, location.longitude)),
        observed_at: observed_at.map(|time| time.to_string()),
        weather,
    })
}
