/// Returns the host of an authority such as `localhost:7420` or `[::1]:7420`, including brackets.
pub(super) fn host_name(authority: &str) -> Option<&str> {
    let (name, port) = if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        authority.split_at(end)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        authority.split_at(end)
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (is_port && !name.is_empty()).then_some(name)
}

/// Returns the authority of an HTTP or HTTPS origin.
pub(super) fn authority(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_http.then_some(authority)
}

/// Compares host names, which are case-insensitive.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_name_is_extracted_from_every_form() {
        assert_eq!(host_name("localhost"), Some("localhost"));
        assert_eq!(host_name("localhost:7420"), Some("localhost"));
        assert_eq!(host_name("[::1]:7420"), Some("[::1]"));
        assert_eq!(host_name("[::1]"), Some("[::1]"));
        for bad in ["", ":80", "a:b", "[::1", "[::1]x", "localhost:80:evil"] {
            assert_eq!(host_name(bad), None, "{bad}");
        }
    }
}
