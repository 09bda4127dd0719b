//! Translates error messages of deserializers into the terms of a configuration file.

use pillion_core::similar_name;

use super::{DeclaredTools, Key, KeyPath, ServerSettings, builtins};

/// The names of types in error messages, and the names that replace them.
const TYPE_NAMES: [(&str, &str); 13] = [
    ("a nonzero usize", "a whole number from 1"),
    ("a nonzero u64", "a whole number from 1"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("usize", "a whole number from 0"),
    ("u64", "a whole number from 0"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("a borrowed string", "a string"),
    ("string only", "a string"),
    ("a sequence", "an array"),
    ("a map", "a table"),
    ("f64", "a number"),
];

/// Returns an error message about `key` on one line, with all accepted names and with TOML's type
/// names.
pub(super) fn to_config_terms(key: &KeyPath, message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).collect();
    let message = lines.join("; ");
    for kind in ["unknown field `", "unknown variant `"] {
        let rest = message.strip_prefix(kind);
        if let Some((unknown, expected)) = rest.and_then(|rest| rest.split_once("`, expected ")) {
            let mut names: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
            if kind.contains("field") {
                let separate = separately_read_names(key);
                names.retain(|name| !separate.contains(name));
                names.extend(separate);
            }
            if kind == "unknown variant `" && !is_shown(key, unknown) {
                return format!("unknown value, {}", listed(&names));
            }
            return with_names(kind, unknown, &names);
        }
    }
    if message == "invalid socket address syntax" {
        return "not an IP address and a port, such as 127.0.0.1:7420".to_owned();
    }
    if message.contains("as i128, expected ") {
        return format!("a whole number is at most {}", i64::MAX);
    }
    match message.rsplit_once(", expected ") {
        Some((found, expected)) => {
            let found = match found {
                "invalid type: unit variant" => "invalid type",
                found => &without_credential(key, found),
            };
            format!("{found}, expected {}", toml_type_name(expected))
        }
        // For example `relative URL without a base: "x"`.
        None => match message
            .strip_suffix('"')
            .and_then(|rest| rest.rsplit_once(": \""))
        {
            Some((what, text)) if !is_shown(key, text) => what.to_owned(),
            _ => message,
        },
    }
}

/// Maximum length of a rejected text that error messages show, in characters.
const MAX_SHOWN_CHARS: usize = 16;

/// Returns whether error messages may show a rejected text: only if it is a word, because other
/// text may be a misplaced credential.
fn is_shown(key: &KeyPath, text: &str) -> bool {
    let is_word = |char: char| char.is_ascii_alphabetic() || char == '_' || char == '-';
    text.len() <= MAX_SHOWN_CHARS && text.chars().all(is_word) && !key.may_be_credential()
}

/// Removes the rejected value from the beginning of an error message, such as
/// `invalid type: string "x"`, if it may be a credential.
fn without_credential(key: &KeyPath, found: &str) -> String {
    for kind in ["invalid type", "invalid value"] {
        let Some(value) = found
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix(": "))
        else {
            continue;
        };
        let is_shown = match value.strip_prefix("string \"") {
            Some(text) => is_shown(key, text.trim_end_matches('"')),
            None => !key.may_be_credential(),
        };
        if !is_shown {
            let name = value.split([' ', '`']).next().unwrap_or_default();
            return format!("{kind}: {name}");
        }
    }
    found.to_owned()
}

fn with_names(kind: &str, unknown: &str, names: &[&str]) -> String {
    let suggestion = match unknown {
        "api_key" | "bearer" | "bearer_token" | "token" if names.contains(&"authentication") => {
            Some("authentication")
        }
        unknown => similar_name(unknown, names.iter().copied()),
    };
    let suggestion = suggestion.map(|name| format!(" (did you mean `{name}`?)"));
    format!(
        "{kind}{unknown}`{}, {}",
        suggestion.unwrap_or_default(),
        listed(names)
    )
}

fn listed(names: &[&str]) -> String {
    let listed: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match listed.as_slice() {
        [] => "no keys are allowed here".to_owned(),
        [only] => format!("expected {only}"),
        all => format!("expected one of {}", all.join(", ")),
    }
}

fn toml_type_name(expected: &str) -> &str {
    if expected.starts_with("struct ") || expected.starts_with("internally tagged enum ") {
        return "a table";
    }
    let known = TYPE_NAMES.iter().find(|(name, _)| *name == expected);
    known.map_or(expected, |(_, name)| name)
}

/// Returns the accepted names at this level of the configuration that are not fields of its struct,
/// because they are read separately.
fn separately_read_names(key: &KeyPath) -> Vec<&'static str> {
    match key.keys() {
        [_] => [&["mcp_servers", "models_file"][..], &DeclaredTools::KEYS].concat(),
        [Key::Name(tools), Key::Name(tool), _] if tools == "tools" => {
            builtins::extra_keys(tool).to_vec()
        }
        [Key::Name(servers), Key::Index(_), _] if servers == "mcp_servers" => {
            let keys = ServerSettings::keys_of_entry();
            keys.chain(["headers_env", "env_from"]).collect()
        }
        [Key::Name(list), Key::Index(_), _]
            if ["http_tools", "openapi"].contains(&list.as_str()) =>
        {
            vec!["headers_env"]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn message(text: &str) -> String {
        Config::parse(text, "c.toml").unwrap_err().to_string()
    }

    #[test]
    fn errors_list_all_valid_names_and_suggest_the_nearest() {
        for (text, suggestion, among) in [
            (
                "[executr]\ntimeout_ms = 5",
                "executor",
                &[
                    "mcp_servers",
                    "models_file",
                    "composed_tools",
                    "http_tools",
                    "openapi",
                    "socket",
                ][..],
            ),
            (
                "[[mcp_servers]]\nlabel = 'a'\nurl = 'https://a.example/'\ntool_prefx = ''",
                "tool_prefix",
                &["enabled", "require_approval", "pin", "url", "env_from"],
            ),
            (
                "[tools.get_weather]\napi_key = 'x'",
                "api_key_env",
                &["provider", "timeout_ms"],
            ),
            (
                "[tools.get_time]\ntime_zone = 'x'",
                "timezone",
                &["timeout_ms"],
            ),
            (
                "[[models]]\nid = 'a'\ntools = { enabled_tool = [] }",
                "enabled_tools",
                &["function_calling", "mcp"],
            ),
            ("[log]\nformat = 'jsn'", "json", &["auto", "text"]),
        ] {
            let message = message(text);
            let hint = format!(" (did you mean `{suggestion}`?), expected one of ");
            let (_, listed) = message.split_once(&hint).expect(&message);
            for name in [&[suggestion], among].concat() {
                assert_eq!(listed.matches(&format!("`{name}`")).count(), 1, "{message}");
            }
        }
        assert!(message("[executor]\nxyzzy = 5").contains("`xyzzy`, expected one of `timeout_ms`"));
    }

    #[test]
    fn errors_use_the_type_names_of_toml() {
        for (text, expected) in [
            (
                "socket = 5",
                "c.toml:1: socket: invalid type: integer `5`, expected a table",
            ),
            (
                "[executor]\nmax_concurrent = 0",
                "c.toml:2: executor.max_concurrent: invalid value: integer `0`, expected a whole number from 1",
            ),
            (
                "[executor]\nmax_queued = -1",
                "c.toml:2: executor.max_queued: invalid value: integer `-1`, expected a whole number from 0",
            ),
            (
                "[executor.rate_limit]\nper_hour = 'x'",
                "c.toml:2: executor.rate_limit.per_hour: invalid type: string \"x\", expected a whole number from 1 to 4294967295",
            ),
            (
                "[socket]\nallow_uids = 5",
                "c.toml:2: socket.allow_uids: invalid type: integer `5`, expected an array",
            ),
            (
                "models = {}",
                "c.toml:1: models: invalid type: map, expected an array",
            ),
            (
                "[executor]\nmax_concurrent = 99999999999999999999",
                "c.toml:2: a whole number is at most 9223372036854775807",
            ),
        ] {
            assert_eq!(message(text), expected);
        }
    }
}
