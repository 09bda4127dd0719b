use pillion_core::is_bidi_control;

/// Path segments below `/api/v1/servers/` that are routes and cannot be server names.
const RESERVED: [&str; 2] = ["test", "refresh"];

/// Returns why a name is invalid for a server of the configuration file or of the store, or `None`
/// if the name is valid.
pub fn server_name_error(name: &str) -> Option<&'static str> {
    if RESERVED.contains(&name) {
        return Some("`test` and `refresh` are paths of the API: choose another name");
    }
    let is_hidden = |c: char| c.is_control() || is_bidi_control(c);
    name.contains(is_hidden).then_some(
        "a name must not contain control characters or characters that change the text \
            direction",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn names_that_break_the_api_or_a_terminal_are_rejected() {
        for name in [
            "test",
            "refresh",
            "a\nb",
            "a\u{7f}",
            "\u{9b}31m",
            "\u{202e}a",
            "a\u{200f}",
        ] {
            assert!(server_name_error(name).is_some(), "{name:?}");
            let entry = toml::Table::from_iter([("label".to_owned(), name.into())]);
            let text = format!("[[mcp_servers]]\n{entry}url = 'https://mcp.example/'");
            let error = Config::parse(&text, "pillion.toml")
                .unwrap_err()
                .to_string();
            assert!(error.contains("mcp_servers[0].label: "), "{error}");
        }
        for name in ["Test", "tests", "re fresh", "wetter-ä", "天気"] {
            assert_eq!(server_name_error(name), None, "{name}");
        }
    }
}
