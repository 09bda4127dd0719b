/// Minimum similarity, from 0 to 1, of a similar name.
const MIN_SIMILARITY: f64 = 0.85;

/// Maximum length of the compared names, in bytes, and maximum number of names: the comparison of
/// long names takes long.
const MAX_NAME_BYTES: usize = 64;
const MAX_NAMES: usize = 256;

/// Returns the name of which `name` is probably a misspelling: the most similar of `names`, if that
/// name is similar enough.
///
/// ```
/// use pillion_core::similar_name;
/// assert_eq!(similar_name("calculater", ["get_time", "calculator"]), Some("calculator"));
/// assert_eq!(similar_name("weather", ["get_time", "calculator"]), None);
/// ```
pub fn similar_name<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let names = names.into_iter().take(MAX_NAMES);
    let similar = names
        .filter(|other| other.len() <= MAX_NAME_BYTES)
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY);
    let most_similar = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
    most_similar.map(|(_, name)| name)
}
