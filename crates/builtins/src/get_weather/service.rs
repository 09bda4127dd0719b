//! The way from what a caller asks for to a report, whoever is asked.

use jiff::Timestamp;
use pillion_core::tool::ToolFailure;

use super::place::{self, Place, Wanted};
use super::{Report, Weather};

/// A service that knows places and the weather there.
pub(super) trait WeatherService {
    /// What reports call it.
    const SOURCE: &'static str;

    /// The places of a name that lie within these areas, the most likely first; and those of the
    /// areas that it has not looked at itself.
    async fn places<'a>(
        &self,
        name: &str,
        within: &'a [String],
    ) -> Result<(Vec<Place>, &'a [String]), ToolFailure>;

    /// The weather at a place, and since when, in seconds since 1970.
    async fn current(&self, place: &Place) -> Result<(Weather, Option<i64>), ToolFailure>;
}

/// What `service` says of the weather at the place that is wanted.
///
/// # Errors
/// `invalid_input` where no place is meant, or more than one; and those of the service.
pub(super) async fn report<S: WeatherService>(
    service: &S,
    wanted: &Wanted,
) -> Result<Report, ToolFailure> {
    let place = match wanted {
        Wanted::Coordinates(latitude, longitude) => Place::at(*latitude, *longitude),
        Wanted::Name {
            location,
            name,
            within,
        } => {
            let (found, within) = service.places(name, within).await?;
            place::choose(location, name, within, found)?
        }
    };
    let (weather, since) = service.current(&place).await?;
    let observed_at = since.and_then(|since| Timestamp::from_second(since).ok());
    Ok(Report {
        source: S::SOURCE,
        location: place.full_name(),
        coordinates: Some((place.latitude, place.longitude)),
        observed_at: observed_at.map(|at| at.to_string()),
        weather,
    })
}
