//! Finds the place that the location in a call refers to.

use pillion_core::tool::ToolFailure;

use super::state_codes;
use crate::Excerpt;

/// Factor of the ambiguity check: a location is ambiguous if another settlement of the same name
/// has more than one third of the inhabitants of the most likely place.
const AMBIGUITY_FACTOR: u64 = 3;

/// Maximum number of places that an error about an ambiguous location suggests.
const MAX_SUGGESTIONS: usize = 5;

/// The location that a call names.
#[derive(Debug, PartialEq)]
pub(super) enum RequestedLocation {
    /// The location is a latitude and a longitude, in degrees.
    Coordinates(f64, f64),
    Name {
        /// The location as the caller wrote it.
        location: String,
        /// The name of the place: the part before the first comma.
        name: String,
        /// The parts after the first comma, such as region and country.
        areas: Vec<String>,
    },
}

/// A place that a service knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Location {
    pub(super) name: String,
    /// The regions that contain the place, smallest first, and finally the country.
    pub(super) areas: Vec<String>,
    /// The country's code (ISO 3166-1 alpha-2).
    pub(super) country_code: String,
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    /// The number of inhabitants; `None` if unknown.
    pub(super) inhabitants: Option<u64>,
    /// Whether the place is a city, town or village, unlike a mountain or a region.
    pub(super) is_settlement: bool,
}

impl RequestedLocation {
    pub(super) fn parse(location: &str) -> Self {
        let mut parts = location.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        let areas: Vec<String> = parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        if let ([longitude_text], Ok(latitude)) = (&areas[..], name.parse::<f64>())
            && let Ok(longitude) = longitude_text.parse::<f64>()
            && latitude.abs() <= 90.0
            && longitude.abs() <= 180.0
        {
            return Self::Coordinates(latitude, longitude);
        }
        let location = location.to_owned();
        Self::Name {
            location,
            name,
            areas,
        }
    }
}

impl Location {
    /// Returns a place at the given coordinates. The text of the coordinates is used as the name of
    /// the place.
    pub(super) fn from_coordinates(latitude: f64, longitude: f64) -> Self {
        Self {
            name: format!("{latitude},{longitude}"),
            latitude,
            longitude,
            ..Self::default()
        }
    }

    /// Returns the name with its region and country, without consecutive duplicates.
    pub(super) fn full_name(&self) -> String {
        let mut names = vec![self.name.as_str()];
        let region = self.areas.first().filter(|_| self.areas.len() > 1);
        for area in region.into_iter().chain(self.areas.last()) {
            if !area.is_empty() && names.last() != Some(&area.as_str()) {
                names.push(area);
            }
        }
        names.join(", ")
    }

    fn is_within(&self, area: &str) -> bool {
        let is_same_name = |name: &str| name.to_lowercase() == area.to_lowercase();
        let full_name = state_codes::find_full_name(&self.country_code, area);
        self.areas.iter().any(|name| is_same_name(name))
            || is_same_name(&self.country_code)
            || full_name.is_some_and(|state_name| self.areas.iter().any(|area| area == state_name))
            || state_codes::find_country(area) == Some(&self.country_code)
    }
}

/// Returns the place to which a location refers. `candidates` are the places that a service has
/// found, most likely place first.
///
/// # Errors
/// `invalid_input` if there is no such place, or several places have this name and a similar size.
pub(super) fn choose_location(
    location: &str,
    name: &str,
    areas: &[String],
    mut candidates: Vec<Location>,
) -> Result<Location, ToolFailure> {
    candidates.retain(|candidate| areas.iter().all(|area| candidate.is_within(area)));
    let is_named = |candidate: &Location| candidate.name.to_lowercase() == name.to_lowercase();
    if candidates.iter().any(is_named) {
        candidates.retain(is_named);
    }
    let Some(best_candidate) = candidates.first() else {
        return Err(unknown_location_error(location));
    };
    let is_rival = |candidate: &&Location| {
        let scaled_inhabitants = candidate
            .inhabitants
            .unwrap_or(0)
            .saturating_mul(AMBIGUITY_FACTOR);
        candidate.is_settlement
            && is_named(candidate)
            && candidate.full_name() != best_candidate.full_name()
            && best_candidate
                .inhabitants
                .is_some_and(|inhabitants| scaled_inhabitants > inhabitants)
    };
    let rivals: Vec<&Location> = candidates[1..].iter().filter(is_rival).collect();
    if rivals.is_empty() {
        return Ok(best_candidate.clone());
    }
    let mut names: Vec<String> = vec![best_candidate.full_name()];
    names.extend(rivals.iter().map(|rival| rival.full_name()));
    names.dedup();
    names.truncate(MAX_SUGGESTIONS);
    Err(ToolFailure::invalid_input(format!(
        "Ambiguous location: {}. Use one of: {}",
        Excerpt::new(location),
        names.join("; ")
    )))
}

/// Creates the error for a location that refers to no known place.
pub(super) fn unknown_location_error(location: &str) -> ToolFailure {
    ToolFailure::invalid_input(format!("Unknown location: {}", Excerpt::new(location)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(name: &str, areas: [&str; 2], code: &str, inhabitants: u64) -> Location {
        Location {
            name: name.to_owned(),
            areas: areas.map(str::to_owned).into(),
            country_code: code.to_owned(),
            inhabitants: Some(inhabitants),
            is_settlement: true,
            ..Location::default()
        }
    }

    fn chosen_name(location: &str, candidates: &[Location]) -> String {
        let RequestedLocation::Name { name, areas, .. } = RequestedLocation::parse(location) else {
            panic!("{location}")
        };
        match choose_location(location, &name, &areas, candidates.to_vec()) {
            Ok(location) => location.full_name(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn d6_the_matching_place_is_chosen() {
        let springfields = [
            ("Springfield", "Missouri", 166_810),
            ("Springfield", "Massachusetts", 154_341),
            ("Springfield", "Illinois", 116_565),
            ("Springfield", "Vermont", 3_979),
            ("Springfield Gardens", "New York", 900_000),
        ]
        .map(|(name, state, count)| location(name, [state, "United States"], "US", count));
        assert_eq!(
            chosen_name("springfield", &springfields),
            "Ambiguous location: springfield. Use one of: Springfield, Missouri, United States; \
             Springfield, Massachusetts, United States; Springfield, Illinois, United States"
        );
        for unambiguous_name in [
            "Springfield, Illinois",
            "Springfield, IL",
            "springfield,il,USA",
        ] {
            assert_eq!(
                chosen_name(unambiguous_name, &springfields),
                "Springfield, Illinois, United States"
            );
        }
        assert_eq!(
            chosen_name("Springfield, France", &springfields),
            "Unknown location: Springfield, France"
        );
        let london = [
            location("London", ["England", "United Kingdom"], "GB", 8_961_989),
            location("London", ["Ontario", "Canada"], "CA", 383_822),
        ];
        for (name, chosen) in [
            ("London", "London, England, United Kingdom"),
            ("London, UK", "London, England, United Kingdom"),
            ("London, CA", "London, Ontario, Canada"),
            ("Londres", "London, England, United Kingdom"),
        ] {
            assert_eq!(chosen_name(name, &london), chosen);
        }
        assert_eq!(chosen_name("Nowhere", &[]), "Unknown location: Nowhere");
        let berlin = location("Berlin", ["Berlin", "Germany"], "DE", 3_426_354);
        assert_eq!(chosen_name("berlin", &[berlin]), "Berlin, Germany");
    }

    #[test]
    fn d6_a_state_with_the_same_name_does_not_hide_the_city() {
        let mut state = location("New York", ["", "United States"], "US", 19_000_000);
        state.is_settlement = false;
        let city = location("New York", ["New York", "United States"], "US", 8_175_133);
        assert_eq!(
            chosen_name("New York", &[city, state]),
            "New York, United States"
        );
    }

    #[test]
    fn d6_coordinates() {
        assert_eq!(
            RequestedLocation::parse("52.52, -13.41"),
            RequestedLocation::Coordinates(52.52, -13.41)
        );
        for name in ["91,0", "0,181", "1,2,3", "NaN,0", "1", ""] {
            assert!(
                matches!(
                    RequestedLocation::parse(name),
                    RequestedLocation::Name { .. }
                ),
                "{name}"
            );
        }
    }
}
