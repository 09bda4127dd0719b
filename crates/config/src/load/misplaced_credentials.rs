//! Tests that no error message shows a credential, whichever value of the configuration the
//! credential replaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

use crate::Config;

const CREDENTIALS: [&str; 4] = [
    "sk-proj-3141592653589793",
    "Bearer 3141592653589793",
    "ghp_3141592653589793abcdefABCDEF",
    "https://user:3141592653589793@host.example/",
];

/// A text that all test credentials contain.
const SECRET: &str = "3141592653589793";

/// Returns the example configuration with every setting, including the settings that are commented
/// out.
fn example() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pillion.example.toml");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| match line.strip_prefix("#: ") {
        Some(setting) => setting,
        None if line.starts_with("# ") && line.contains("_env = \"") => &line[2..],
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n").parse().unwrap()
}

/// Replaces the value with index `target`, counted depth first from 0. Returns whether that index
/// exists.
fn replace(value: &mut Value, count: &mut usize, target: usize, replacement: &Value) -> bool {
    let is_target = *count == target;
    *count += 1;
    if is_target {
        *value = replacement.clone();
        return true;
    }
    match value {
        Value::Table(table) => {
            let mut values = table.iter_mut().map(|(_, value)| value);
            values.any(|value| replace(value, count, target, replacement))
        }
        Value::Array(values) => {
            let mut values = values.iter_mut();
            values.any(|value| replace(value, count, target, replacement))
        }
        _ => false,
    }
}

#[test]
fn no_message_shows_a_credential_in_the_place_of_another_value() {
    let example = example();
    let (mut message_count, mut leaking_messages) = (0, BTreeSet::new());
    let texts = CREDENTIALS.map(|credential| Value::String(credential.to_owned()));
    let array = Value::Array(texts.to_vec());
    let tables = ["type", "token", "none"]
        .map(|key| Value::Table(Table::from_iter([(key.to_owned(), texts[0].clone())])));
    for replacement in texts.iter().chain(&tables).chain([&array]) {
        for target in 1.. {
            let mut changed_config = Value::Table(example.clone());
            if !replace(&mut changed_config, &mut 0, target, replacement) {
                break;
            }
            let changed_text = toml::to_string(&changed_config).unwrap();
            let message = match Config::parse(&changed_text, "c.toml") {
                Err(error) => error.to_string(),
                Ok(config) => {
                    let settings = config.effective.settings().iter();
                    let texts = settings.map(|setting| format!("{setting:?}"));
                    leaking_messages.extend(texts.filter(|text| text.contains(SECRET)));
                    format!("{:?}", config.warnings(|_| None))
                }
            };
            message_count += usize::from(message.contains("c.toml"));
            if message.contains(SECRET) {
                leaking_messages.insert(message);
            }
        }
    }
    assert!(leaking_messages.is_empty(), "{leaking_messages:#?}");
    assert!(message_count > 500, "{message_count}");
}
