/// Minimum Jaro-Winkler similarity of a name to a suggested name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.85;

/// Limits for the comparison: maximum length of each compared name, in bytes, and maximum number of
/// compared names. The time of one comparison grows with the product of the two lengths.
const MAX_NAME_BYTES: usize = 64;
const MAX_NAMES: usize = 256;

/// Returns the most similar of `names`, which `name` probably misspells; `None` if none of the
/// names is similar enough.
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
    let similar_names = names
        .filter(|candidate| candidate.len() <= MAX_NAME_BYTES)
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY);
    let most_similar_name = similar_names.max_by(|(first, _), (second, _)| first.total_cmp(second));
    most_similar_name.map(|(_, name)| name)
}
