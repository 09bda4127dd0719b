//! Gets a weather report from a service.

use std::time::Duration;

use jiff::Timestamp;
use pillion_core::tool::ToolFailure;

use super::location::{self, Location, RequestedLocation};
use super::{Report, Weather};
use crate::service::run_with_timeout;

/// A service that knows places and their weather.
pub(super) trait WeatherProvider {
    /// The service's name in errors.
    const NAME: &'static str;

    /// The service's name in reports.
    const SOURCE: &'static str;

    /// Finds the places with a name within areas, most likely place first. Also returns the areas
    /// that the service has not matched itself.
    async fn find_locations<'a>(
        &self,
        name: &str,
        within: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure>;

    /// Returns the weather at a place and its time of observation, in seconds since 1970.
    async fn current(&self, location: &Location) -> Result<(Weather, Option<i64>), ToolFailure>;
}

/// Requests the report of a service for a location.
///
/// # Errors
/// `invalid_input` if the location is unknown or ambiguous; or the service fails or exceeds
/// the timeout.
pub(super) async fn report<P: WeatherProvider>(
    provider: &P,
    requested: &RequestedLocation,
    timeout: Duration,
) -> Result<Report, ToolFailure> {
    run_with_timeout(timeout, P::NAME, request_report(provider, requested)).await
}

async fn request_report<P: WeatherProvider>(
    provider: &P,
    requested: &RequestedLocation,
) -> Result<Report, ToolFailure> {
    let location = match requested {
        RequestedLocation::Coordinates(latitude, longitude) => {
            Location::from_coordinates(*latitude, *longitude)
        }
        RequestedLocation::Name {
            location,
            name,
            within,
        } => {
            let (found, within) = provider.find_locations(name, within).await?;
            location::choose(location, name, within, found)?
        }
    };
    let (weather, seconds) = provider.current(&location).await?;
    let observed_at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    Ok(Report {
        source: P::SOURCE,
        location: location.full_name(),
        coordinates: Some((location.latitude, location.longitude)),
        observed_at: observed_at.map(|at| at.to_string()),
        weather,
    })
}
