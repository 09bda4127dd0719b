//! Translates error messages of deserializers into the terms of a configuration file.

use pillion_core::similar_name;

use super::{DeclaredTools, KeyPath, KeyStep, ServerSettings, builtins};

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

/// Returns the error message of a deserializer as a message about `key`, on one line. The message
/// lists all accepted names, and uses TOML's names of types.
pub(super) fn to_config_terms(key: &KeyPath, raw_message: &str) -> String {
    let lines: Vec<_> = raw_message.lines().map(str::trim).collect();
    let message = lines.join("; ");
    for prefix in ["unknown field `", "unknown variant `"] {
        let rest = message.strip_prefix(prefix);
        if let Some((name, expected)) = rest.and_then(|rest| rest.split_once("`, expected ")) {
            let mut names: Vec<_> = expected.split('`').skip(1).step_by(2).collect();
            if prefix.contains("field") {
                let separate_names = list_separately_read_names(key);
                names.retain(|name| !separate_names.contains(name));
                names.extend(separate_names);
            }
            if prefix == "unknown variant `" && !may_show(key, name) {
                return format!("unknown value, {}", format_expected_names(&names));
            }
            return format_unknown_name(prefix, name, &names);
        }
    }
    if message == "invalid socket address syntax" {
        return "not an IP address and a port, such as 127.0.0.1:7420".to_owned();
    }
    if message.contains("as i128, expected ") {
        return format!("a whole number is at most {}", i64::MAX);
    }
    match message.rsplit_once(", expected ") {
        Some((description, expected)) => {
            let shown_description = match description {
                "invalid type: unit variant" => "invalid type",
                description => &remove_credential(key, description),
            };
            format!("{shown_description}, expected {}", toml_type_name(expected))
        }
        // A message without an expected value may end with the rejected text, as in
        // `relative URL without a base: "x"`.
        None => match message
            .strip_suffix('"')
            .and_then(|rest| rest.rsplit_once(": \""))
        {
            Some((description, text)) if !may_show(key, text) => description.to_owned(),
            _ => message,
        },
    }
}

/// Maximum length of a rejected text that error messages show, in characters.
const MAX_SHOWN_CHARS: usize = 16;

/// Returns whether error messages may show a rejected text. They may show only a short word,
/// because any other text may be a misplaced credential.
fn may_show(key: &KeyPath, text: &str) -> bool {
    let is_word_char = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '-';
    text.len() <= MAX_SHOWN_CHARS && text.chars().all(is_word_char) && !key.may_be_credential()
}

/// Removes the rejected value from the beginning of an error message, such as
/// `invalid type: string "x"`, if the value may be a credential.
fn remove_credential(key: &KeyPath, description: &str) -> String {
    for kind in ["invalid type", "invalid value"] {
        let Some(value) = description
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix(": "))
        else {
            continue;
        };
        let is_value_shown = match value.strip_prefix("string \"") {
            Some(text) => may_show(key, text.trim_end_matches('"')),
            None => !key.may_be_credential(),
        };
        if !is_value_shown {
            let name = value.split([' ', '`']).next().unwrap_or_default();
            return format!("{kind}: {name}");
        }
    }
    description.to_owned()
}

fn format_unknown_name(prefix: &str, unknown_name: &str, names: &[&str]) -> String {
    let similar_name = match unknown_name {
        "api_key" | "bearer" | "bearer_token" | "token" if names.contains(&"authentication") => {
            Some("authentication")
        }
        unknown_name => similar_name(unknown_name, names.iter().copied()),
    };
    let suggestion = similar_name.map(|name| format!(" (did you mean `{name}`?)"));
    format!(
        "{prefix}{unknown_name}`{}, {}",
        suggestion.unwrap_or_default(),
        format_expected_names(names)
    )
}

fn format_expected_names(names: &[&str]) -> String {
    let quoted_names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted_names.as_slice() {
        [] => "no keys are allowed here".to_owned(),
        [name] => format!("expected {name}"),
        names => format!("expected one of {}", names.join(", ")),
    }
}

fn toml_type_name(type_name: &str) -> &str {
    if type_name.starts_with("struct ") || type_name.starts_with("internally tagged enum ") {
        return "a table";
    }
    let replacement = TYPE_NAMES.iter().find(|(name, _)| *name == type_name);
    replacement.map_or(type_name, |(_, name)| name)
}

/// Returns the names of the accepted keys beside `key` that are read separately, and are therefore
/// not fields of the struct to which `key` belongs.
fn list_separately_read_names(key: &KeyPath) -> Vec<&'static str> {
    match key.steps() {
        [_] => [
            &["mcp_servers", "models_file"][..],
            &DeclaredTools::DECLARING_KEYS,
        ]
        .concat(),
        [KeyStep::Name(tools), KeyStep::Name(tool), _] if tools == "tools" => {
            builtins::list_extra_keys(tool).to_vec()
        }
        [KeyStep::Name(servers), KeyStep::Index(_), _] if servers == "mcp_servers" => {
            let keys = ServerSettings::entry_keys();
            keys.chain(["headers_env", "env_from"]).collect()
        }
        [KeyStep::Name(list), KeyStep::Index(_), _]
            if list == "http_tools" || list == "openapi" =>
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
        for (text, suggestion, other_names) in [
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
            let (_, listed_names) = message.split_once(&hint).expect(&message);
            for name in [&[suggestion], other_names].concat() {
                let count = listed_names.matches(&format!("`{name}`")).count();
                assert_eq!(count, 1, "{message}");
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
