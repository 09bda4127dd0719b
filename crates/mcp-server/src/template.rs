//! Matches URI templates (RFC 6570), as far as needed to route a URI to its server.

/// Returns whether the URI may match the template: the literal parts of the template must occur in
/// the URI in order, the first at the start and the last at the end. Expressions match any text.
/// The time is proportional to the sum of both lengths.
pub(super) fn matches(template: &str, uri: &str) -> bool {
    let mut parts = literals(template).peekable();
    let Some(first) = parts.next() else {
        return false;
    };
    let Some(mut rest) = uri.strip_prefix(first) else {
        return false;
    };
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Returns whether the URI begins with the template's first literal part, as every URI that
/// [matches](matches) does.
pub(super) fn starts_like(template: &str, uri: &str) -> bool {
    literals(template)
        .next()
        .is_some_and(|prefix| uri.starts_with(prefix))
}

/// Returns the literal parts between expressions; empty if the template begins or ends with an
/// expression.
fn literals(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(template);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.split_once('{') {
            Some((literal, after)) => {
                rest = Some(after.split_once('}').map_or("", |(_, after)| after));
                Some(literal)
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{matches, starts_like};

    #[test]
    fn a_uri_matches_the_literal_parts_of_its_template() {
        for (template, uri, fits) in [
            (
                "test://template/{id}/data",
                "test://template/123/data",
                true,
            ),
            (
                "test://template/{id}/data",
                "test://template/123/date",
                false,
            ),
            ("test://template/{id}/data", "test://template/data", false),
            ("file:///{+path}", "file:///a/b", true),
            ("a://{x}{?y,z}", "a://1?y=2", true),
            ("a://fixed", "a://fixed", true),
            ("a://fixed", "a://fixed/more", false),
            ("{scheme}://x", "b://x", true),
            ("a://{broken", "a://whatever", true),
        ] {
            assert_eq!(matches(template, uri), fits, "{template} {uri}");
            assert!(!fits || starts_like(template, uri), "{template} {uri}");
        }
    }
}
