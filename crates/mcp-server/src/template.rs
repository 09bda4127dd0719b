//! Matches URI templates (RFC 6570), as far as needed to route a URI to its server.

/// Returns whether the URI may match the template: the literal parts of the template must occur in
/// the URI in order, the first at the start and the last at the end. Expressions match any text.
/// Takes time proportional to the sum of the lengths of the URI and the template.
pub(super) fn is_match(template: &str, uri: &str) -> bool {
    let mut remaining_literals = split_literals(template).peekable();
    let Some(first_literal) = remaining_literals.next() else {
        return false;
    };
    let Some(mut rest) = uri.strip_prefix(first_literal) else {
        return false;
    };
    if remaining_literals.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(literal) = remaining_literals.next() {
        if remaining_literals.peek().is_none() {
            return rest.ends_with(literal);
        }
        match rest.find(literal) {
            Some(index) => rest = &rest[index + literal.len()..],
            None => return false,
        }
    }
    true
}

/// Returns whether the URI begins with the template's first literal part, as every URI that
/// [matches](is_match) does.
pub(super) fn has_same_prefix(template: &str, uri: &str) -> bool {
    split_literals(template)
        .next()
        .is_some_and(|prefix| uri.starts_with(prefix))
}

/// Returns the literal parts between expressions; empty if the template begins or ends with an
/// expression.
fn split_literals(template: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(template);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.split_once('{') {
            Some((literal, after)) => {
                rest = Some(after.split_once('}').map_or("", |(_, rest)| rest));
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
    use super::{has_same_prefix, is_match};

    #[test]
    fn a_uri_matches_the_literal_parts_of_its_template() {
        for (template, uri, is_expected_match) in [
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
            let is_found = is_match(template, uri);
            assert_eq!(is_found, is_expected_match, "{template} {uri}");
            let has_prefix = has_same_prefix(template, uri);
            assert!(!is_expected_match || has_prefix, "{template} {uri}");
        }
    }
}
