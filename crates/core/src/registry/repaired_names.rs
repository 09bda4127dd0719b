/// Namespaces that models put before the names of their tools.
const NAMESPACES: [&str; 3] = ["functions.", "default_api.", "default_api:"];

/// The beginning of a control token, which some models write after the name of a tool.
const CONTROL_TOKEN_START: &str = "<|";

/// Returns the names that a model may have meant by a name that no tool has: without white space
/// around the name, without the namespace `functions` or `default_api`, and without a control token
/// after the name. No returned name is `name` itself. The caller should use the first returned name
/// that is the name of an offered tool.
///
/// ```
/// use pillion_core::registry::repaired_names;
/// assert!(repaired_names("functions.ping").any(|name| name == "ping"));
/// assert!(repaired_names("ping<|channel|>commentary").any(|name| name == "ping"));
/// assert_eq!(repaired_names("ping").count(), 0);
/// ```
pub fn repaired_names(name: &str) -> impl Iterator<Item = &str> {
    let trimmed_name = name.trim();
    let mut namespaces = NAMESPACES.iter();
    let name_without_namespace =
        namespaces.find_map(|namespace| trimmed_name.strip_prefix(*namespace));
    [
        Some(trimmed_name),
        name_without_namespace,
        strip_control_token(trimmed_name),
        name_without_namespace.and_then(strip_control_token),
    ]
    .into_iter()
    .flatten()
    .filter(move |candidate| !candidate.is_empty() && *candidate != name)
}

fn strip_control_token(name: &str) -> Option<&str> {
    let (beginning, _) = name.split_once(CONTROL_TOKEN_START)?;
    Some(beginning.trim_end())
}
