/// Namespaces that models put before the names of their tools.
const NAMESPACES: [&str; 3] = ["functions.", "default_api.", "default_api:"];

/// The beginning of the control tokens that models leave behind names.
const CONTROL_TOKEN: &str = "<|";

/// Returns the names that a model may have meant by a name that no tool has: without white space
/// around the name, without the namespace `functions` or `default_api`, and without a control token
/// behind the name. No returned name is `name` itself. The first name that an offered tool has is
/// the right one.
///
/// ```
/// use pillion_core::registry::repaired_names;
/// assert!(repaired_names("functions.ping").any(|name| name == "ping"));
/// assert!(repaired_names("ping<|channel|>commentary").any(|name| name == "ping"));
/// assert_eq!(repaired_names("ping").count(), 0);
/// ```
pub fn repaired_names(name: &str) -> impl Iterator<Item = &str> {
    let trimmed = name.trim();
    let mut namespaces = NAMESPACES.iter();
    let bare = namespaces.find_map(|namespace| trimmed.strip_prefix(*namespace));
    [
        Some(trimmed),
        bare,
        before_control_token(trimmed),
        bare.and_then(before_control_token),
    ]
    .into_iter()
    .flatten()
    .filter(move |candidate| !candidate.is_empty() && *candidate != name)
}

fn before_control_token(name: &str) -> Option<&str> {
    let (before, _) = name.split_once(CONTROL_TOKEN)?;
    Some(before.trim_end())
}
