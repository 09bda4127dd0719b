//! Abbreviations and alternative names of states and countries, which people write after a city's
//! name and which the weather services do not list.

/// The states of the United States, by code (ANSI INCITS 38).
const US_STATES: [(&str, &str); 51] = [
    ("AL", "Alabama"),
    ("AK", "Alaska"),
    ("AZ", "Arizona"),
    ("AR", "Arkansas"),
    ("CA", "California"),
    ("CO", "Colorado"),
    ("CT", "Connecticut"),
    ("DE", "Delaware"),
    ("DC", "District of Columbia"),
    ("FL", "Florida"),
    ("GA", "Georgia"),
    ("HI", "Hawaii"),
    ("ID", "Idaho"),
    ("IL", "Illinois"),
    ("IN", "Indiana"),
    ("IA", "Iowa"),
    ("KS", "Kansas"),
    ("KY", "Kentucky"),
    ("LA", "Louisiana"),
    ("ME", "Maine"),
    ("MD", "Maryland"),
    ("MA", "Massachusetts"),
    ("MI", "Michigan"),
    ("MN", "Minnesota"),
    ("MS", "Mississippi"),
    ("MO", "Missouri"),
    ("MT", "Montana"),
    ("NE", "Nebraska"),
    ("NV", "Nevada"),
    ("NH", "New Hampshire"),
    ("NJ", "New Jersey"),
    ("NM", "New Mexico"),
    ("NY", "New York"),
    ("NC", "North Carolina"),
    ("ND", "North Dakota"),
    ("OH", "Ohio"),
    ("OK", "Oklahoma"),
    ("OR", "Oregon"),
    ("PA", "Pennsylvania"),
    ("RI", "Rhode Island"),
    ("SC", "South Carolina"),
    ("SD", "South Dakota"),
    ("TN", "Tennessee"),
    ("TX", "Texas"),
    ("UT", "Utah"),
    ("VT", "Vermont"),
    ("VA", "Virginia"),
    ("WA", "Washington"),
    ("WV", "West Virginia"),
    ("WI", "Wisconsin"),
    ("WY", "Wyoming"),
];

/// Alternative names of countries, which the services do not use, with the codes of the countries
/// (ISO 3166-1 alpha-2).
const COUNTRY_ALIASES: [(&str, &str); 6] = [
    ("usa", "US"),
    ("u.s.", "US"),
    ("united states of america", "US"),
    ("uk", "GB"),
    ("great britain", "GB"),
    ("uae", "AE"),
];

/// Returns the full name of the state or region with this code in a country.
pub(super) fn find_full_name(country_code: &str, code: &str) -> Option<&'static str> {
    let has_code = |(state_code, _): &&(&str, &str)| state_code.eq_ignore_ascii_case(code);
    let state = US_STATES
        .iter()
        .find(has_code)
        .filter(|_| country_code == "US");
    state.map(|(_, name)| *name)
}

/// Returns the code of the country with this alternative name.
pub(super) fn find_country(name: &str) -> Option<&'static str> {
    let has_name = |(country_name, _): &&(&str, &str)| country_name.eq_ignore_ascii_case(name);
    COUNTRY_ALIASES.iter().find(has_name).map(|(_, code)| *code)
}
