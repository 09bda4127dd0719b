//! Gets a report from a weather service.

use jiff::Timestamp;
use pillion_core::tool::ToolFailure;

use super::location::{self, Location, RequestedLocation};
use super::{Report, Weather};

/// A service that knows places and their weather.
pub(super) trait WeatherService {
    /// The service's name in reports.
    const SOURCE: &'static str;

    /// Finds the places of a name within areas, most likely first. Also returns the areas that the
    /// service has not matched itself.
    async fn find_locations<'a>(
        &self,
        name: &str,
        within: &'a [String],
    ) -> Result<(Vec<Location>, &'a [String]), ToolFailure>;

    /// Returns the weather at a place and its time of observation, in seconds since 1970.
    async fn current(&self, location: &Location) -> Result<(Weather, Option<i64>), ToolFailure>;
}

/// Returns the report of `service` for a location.
///
/// # Errors
/// `invalid_input` if the location is unknown or ambiguous; or the service fails.
pub(super) async fn report<S: WeatherService>(
    service: &S,
    requested: &RequestedLocation,
) -> Result<Report, ToolFailure> {
    let location = match requested {
        RequestedLocation::Coordinates(latitude, longitude) => Location::at(*latitude, *longitude),
        RequestedLocation::Name {
            location,
            name,
            within,
        } => {
            let (found, within) = service.find_locations(name, within).await?;
            location::choose(location, name, within, found)?
        }
    };
    let (weather, since) = service.current(&location).await?;
    let observed_at = since.and_then(|since| Timestamp::from_second(since).ok());
    Ok(Report {
        source: S::SOURCE,
        location: location.full_name(),
        coordinates: Some((location.latitude, location.longitude)),
        observed_at: observed_at.map(|at| at.to_string()),
        weather,
    })
}
