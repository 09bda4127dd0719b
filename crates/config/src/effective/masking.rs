//! Decides which values are shown. A value is hidden if its key holds credentials, or if its text
//! looks like a credential: a user may have entered a credential in a wrong place.

use toml::Value;
use url::Url;

use super::SettingValue;
use crate::{KeyPath, KeyStep};

/// The names of keys whose value, and all values below it, may contain credentials.
const CREDENTIAL_CONTAINERS: [&str; 5] = ["args", "authentication", "env", "headers", "query"];

/// The names of keys with templates, schemas and steps of tools. They are shown as one value, which
/// is hidden, because a template may contain credentials.
const OPAQUE_KEYS: [&str; 4] = ["body", "input_schema", "output", "steps"];

/// Parts of the names of keys that hold a credential, in lower case. The list is not limited to
/// known keys, because a key may be misspelled, and a text may assign a credential to any name.
const CREDENTIAL_PARTS: [&str; 12] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "key",
    "pass",
    "passphrase",
    "password",
    "private",
    "pwd",
    "secret",
    "token",
];

/// Names of keys that contain names of environment variables, in addition to those that end in
/// `_env`.
const VARIABLE_KEYS: [&str; 4] = ["env_from", "environment", "headers_env", "inherit_env"];

/// The accepted values of `authentication.type`.
const AUTHENTICATION_TYPES: [&str; 5] = ["none", "bearer", "api-key", "basic", "oauth"];

/// Beginnings of words that are credentials, in lower case.
const CREDENTIAL_PREFIXES: [&str; 13] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "hf_",
    "npm_",
];

/// Maximum length of the name of a variable that is shown, in bytes.
const MAX_VARIABLE_BYTES: usize = 64;

/// Minimum length of a run of letters and digits that counts as a credential if the run has a
/// digit.
const MIN_CREDENTIAL_CHARS: usize = 16;

/// Minimum length of a run of letters and digits that counts as a credential without a digit.
const MIN_LETTER_CREDENTIAL_CHARS: usize = 32;

/// Returns whether the value at this path is one setting although it is a table or an array.
pub(super) fn is_opaque(path: &KeyPath) -> bool {
    matches!(path.steps().last(), Some(KeyStep::Name(name)) if OPAQUE_KEYS.contains(&name.as_str()))
}

/// Returns the path as text, without parts that look like a credential.
pub(super) fn mask_key(path: &KeyPath) -> String {
    let masked_path = path.steps().iter().fold(KeyPath::default(), |path, step| {
        path.join(match step {
            KeyStep::Name(name) if looks_like_credential(name) || mentions_credential(name) => {
                KeyStep::Name("…".to_owned())
            }
            step => step.clone(),
        })
    });
    masked_path.to_string()
}

/// Returns the part of a value that may be shown.
pub(super) fn mask_value(path: &KeyPath, value: &Value) -> SettingValue {
    match show(path, value) {
        Some(text) => SettingValue::Shown(text),
        None => SettingValue::Hidden,
    }
}

/// Returns the value as TOML; `None` if the value may be a credential.
fn show(path: &KeyPath, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => show_text(path, text),
        Value::Array(values) => {
            let shown_values: Option<Vec<_>> =
                values.iter().map(|inner| show(path, inner)).collect();
            Some(format!("[{}]", shown_values?.join(", ")))
        }
        Value::Table(table) if table.is_empty() => Some("{}".to_owned()),
        // A table that is not split into its keys is in an array of other values, or is a template.
        Value::Table(_) => None,
        _ if is_in_container(path) || is_opaque(path) => None,
        value => Some(value.to_string()),
    }
}

fn show_text(path: &KeyPath, text: &str) -> Option<String> {
    let name = last_name(path);
    let toml_text = || Value::String(text.to_owned()).to_string();
    if name.ends_with("_env") || names(path).any(|name| VARIABLE_KEYS.contains(&name)) {
        return is_variable_name(text).then(toml_text);
    }
    if name == "type" && names(path).any(|name| name == "authentication") {
        return AUTHENTICATION_TYPES.contains(&text).then(toml_text);
    }
    if is_in_container(path) || is_opaque(path) {
        return None;
    }
    let is_list_of_names = path.to_string() == "call_log.redact.keys";
    if is_list_of_names {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-';
        return text.bytes().all(is_word).then(toml_text);
    }
    let is_file = name.ends_with("_file");
    let lower_name = name.to_ascii_lowercase();
    let mut parts = CREDENTIAL_PARTS.iter();
    if !is_file && parts.any(|part| lower_name.contains(part)) {
        return None;
    }
    if text.contains("://") {
        return show_url(text).map(|url| Value::String(url).to_string());
    }
    // A location without `://` may still have a user, a password or parameters.
    let before_host = text.split_once('@').map(|(before, _)| before);
    let has_user = before_host.is_some_and(|before| before.contains(':'));
    let is_hidden = name.contains("url")
        || has_user
        || (name == "location" && text.contains('?'))
        || mentions_credential(text)
        || looks_like_credential(text);
    (!is_hidden).then(toml_text)
}

/// Returns the names of the path.
fn names(path: &KeyPath) -> impl Iterator<Item = &str> {
    path.steps().iter().filter_map(|step| match step {
        KeyStep::Name(name) => Some(name.as_str()),
        KeyStep::Index(_) => None,
    })
}

/// Returns the innermost name of the path.
fn last_name(path: &KeyPath) -> &str {
    names(path).last().unwrap_or_default()
}

fn is_in_container(path: &KeyPath) -> bool {
    names(path).any(|name| CREDENTIAL_CONTAINERS.contains(&name))
}

/// Returns whether a text has the usual form of the name of an environment variable.
fn is_variable_name(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.len() <= MAX_VARIABLE_BYTES && text.bytes().all(is_usual) && !looks_like_credential(text)
}

/// Returns the scheme and the host of a URL, without user, path and query, any of which may be a
/// credential.
fn show_url(text: &str) -> Option<String> {
    // A password that is not percent-encoded may contain `/`, which would end the host too early.
    if text.contains('@') {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let host = url.host_str().filter(|host| !looks_like_credential(host))?;
    let port = url.port().map(|port| format!(":{port}"));
    let rest = match url.path() {
        "" | "/" if url.query().is_none() && url.fragment().is_none() => url.path(),
        _ => "/…",
    };
    let scheme = url.scheme();
    Some(format!(
        "{scheme}://{host}{}{rest}",
        port.unwrap_or_default()
    ))
}

/// Returns whether a text assigns a value to the name of a credential, as in `password=x` or
/// `--password x`.
fn mentions_credential(text: &str) -> bool {
    let lower_text = text.to_ascii_lowercase();
    let assigned_names = lower_text
        .match_indices(['=', ':'])
        .map(|(index, _)| lower_text[..index].trim_end());
    let words = lower_text.split_whitespace();
    let mut names = assigned_names.chain(words.filter(|word| word.starts_with('-')));
    names.any(|name| CREDENTIAL_PARTS.iter().any(|part| name.ends_with(part)))
}

/// Returns whether a part of the text has the form of a credential.
fn looks_like_credential(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "/:=,;'\"()[]{}".contains(c);
    let has_prefix = text.split(is_separator).any(|word| {
        let lower_word = word.to_ascii_lowercase();
        let mut prefixes = CREDENTIAL_PREFIXES.iter();
        prefixes.any(|prefix| lower_word.starts_with(prefix))
    });
    let mut runs = text.split(|c: char| !c.is_ascii_alphanumeric());
    has_prefix
        || runs.any(|run| {
            let has_digit = run.bytes().any(|byte| byte.is_ascii_digit());
            run.len() >= MIN_LETTER_CREDENTIAL_CHARS
                || (run.len() >= MIN_CREDENTIAL_CHARS && has_digit)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows a text at a path of names.
    fn shown(path: &[&str], text: &str) -> Option<String> {
        let path = KeyPath::from_names(path.iter().copied());
        show(&path, &Value::String(text.to_owned()))
    }

    #[test]
    fn values_of_keys_for_credentials_are_hidden() {
        for (path, text) in [
            (&["mcp_servers", "authentication", "token"][..], "swordfish"),
            (&["mcp_servers", "authentication", "username"], "swordfish"),
            (&["mcp_servers", "authentication", "type"], "swordfish"),
            (&["mcp_servers", "headers", "X-Tenant"], "swordfish"),
            (&["mcp_servers", "env", "LOG_LEVEL"], "swordfish"),
            (&["mcp_servers", "args"], "--password"),
            (&["http_tools", "query", "q"], "swordfish"),
            (&["http_tools", "body"], "swordfish"),
            (&["tcp", "tokens_env"], "reader read swordfish"),
            (&["vault", "key_env"], "swordfish"),
            (&["mcp_servers", "headers_env", "X"], "Bearer swordfish"),
            (&["mcp_servers", "inherit_env"], "AKIAIOSFODNN7EXAMPLE"),
            (
                &["store", "location"],
                "postgres://pillion:swordfish@db/pillion",
            ),
            (
                &["store", "location"],
                "postgres://pillion:1/swordfish@db/pillion",
            ),
            (&["store", "location"], "host=db password=swordfish"),
            (&["store", "location"], "sqlite:pillion.db?key=swordfish"),
            (&["mcp_servers", "url"], "swordfish"),
            (
                &["mcp_servers", "description"],
                "Use the password: swordfish",
            ),
            (&["models", "label"], "sk-swordfish"),
            (&["models", "apiKey"], "swordfish"),
            (&["vault", "passphrase"], "swordfish"),
            (&["mcp_servers", "Authorization"], "swordfish"),
            (&["mcp_servers", "command"], "server --api-key swordfish"),
        ] {
            assert_eq!(shown(path, text), None, "{path:?} {text}");
        }
        let number = KeyPath::from_names(["http_tools", "query", "pin"]);
        assert_eq!(show(&number, &Value::Integer(1234)), None);
    }

    #[test]
    fn only_the_host_of_a_url_is_shown() {
        for (text, expected) in [
            (
                "https://mcp.example.com/s/swordfish/mcp",
                "\"https://mcp.example.com/…\"",
            ),
            (
                "https://mcp.example.com/?token=swordfish",
                "\"https://mcp.example.com/…\"",
            ),
            ("http://127.0.0.1:8888", "\"http://127.0.0.1:8888/\""),
            ("postgres://db:5432/pillion", "\"postgres://db:5432/…\""),
        ] {
            assert_eq!(shown(&["a", "url"], text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_values_are_shown() {
        for (path, text) in [
            (
                &["socket", "path"][..],
                "/run/user/1000/pillion/pillion.sock",
            ),
            (&["store", "location"], "sqlite:/var/lib/pillion/pillion.db"),
            (&["store", "location"], "memory"),
            (&["models", "id"], "claude-sonnet-4-5-20250929"),
            (&["models", "model"], "Qwen3-235B-A22B-Instruct-2507"),
            (&["mcp_servers", "authentication", "type"], "bearer"),
            (
                &["mcp_servers", "authentication", "token_env"],
                "DICE_TOKEN",
            ),
            (&["tcp", "tokens_file"], "/etc/pillion/tokens"),
            (&["call_log", "redact", "keys"], "access_token"),
            (&["log", "filter"], "info,pillion_mcp_client=debug"),
            (&["tools", "calculator", "require_approval"], "never"),
            (&["mcp", "tools"], "!@builtin"),
            (&["mcp_servers", "description"], "What is the weather?"),
        ] {
            let expected = Value::String(text.to_owned()).to_string();
            assert_eq!(shown(path, text), Some(expected), "{path:?}");
        }
    }

    #[test]
    fn a_credential_in_the_place_of_a_key_is_hidden() {
        let path = KeyPath::from_names(["tools", "ghp_3141592653589793", "timeout_ms"]);
        assert_eq!(mask_key(&path), "tools.….timeout_ms");
        let path = KeyPath::from_names(["mcp_servers", "headers", "Authorization: swordfish"]);
        assert!(!mask_key(&path).contains("swordfish"));
    }
}
