//! URI templates (RFC 6570), as far as it takes to see which server a URI is for.

/// Whether the URI may be one of the template's: its literal parts occur in it, in order, the
/// first at the start and the last at the end. What stands in an expression may be anything.
pub(super) fn matches(template: &str, uri: &str) -> bool {
    let mut parts = literals(template);
    let Some(first) = parts.next() else {
        return false;
    };
    let Some(mut rest) = uri.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
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

/// What stands between the expressions, empty at an end that is one.
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
    use super::matches;

    #[test]
    fn a_uri_is_found_by_the_literal_parts_of_its_template() {
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
        }
    }
}
