//! Compares the generated parts of `docs/reference/configuration.md` with the types of the
//! configuration. `PILLION_WRITE_DOCS=1` writes those parts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pillion_mcp_client::ServerDefinition;
use serde_json::Value;
use utoipa::PartialSchema;

use super::{Config, ServerSettings};

/// The markers before and after the generated sections.
const SECTION_MARKERS: [&str; 2] = [
    "<!-- Generated from the types in crates/config: begin -->\n",
    "<!-- Generated from the types in crates/config: end -->\n",
];

/// The markers before and after the table of `[[mcp_servers]]`.
const ENTRY_MARKERS: [&str; 2] = [
    "<!-- Generated from ServerDefinition and ServerSettings: begin -->\n",
    "<!-- Generated from ServerDefinition and ServerSettings: end -->\n",
];

const TABLE_HEAD: &str = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";

/// The JSON Schema of the configuration, or of a part.
struct Schema(Value);

impl Schema {
    /// Returns the definition that a property refers to, or the property itself.
    fn resolve<'a>(&'a self, property: &'a Value) -> &'a Value {
        // The schema of an optional value is an `anyOf` of the schema of the value and null, in
        // this order.
        let value = property
            .get("anyOf")
            .map_or(property, |alternatives| &alternatives[0]);
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    /// Returns a Markdown section for each table of the configuration.
    fn format_sections(&self) -> String {
        let mut page = String::new();
        for (name, property) in self.0["properties"].as_object().unwrap() {
            let entry = property.get("additionalProperties");
            let is_map = entry.is_some_and(Value::is_object);
            let (path, section) = match entry.filter(|_| is_map) {
                Some(entry) => (format!("{name}.NAME"), self.resolve(entry)),
                None => (name.clone(), self.resolve(property)),
            };
            let comment = section["description"].as_str().unwrap();
            let label = format!("`[{path}]`: ");
            let description = comment
                .strip_prefix(&label)
                .unwrap_or_else(|| panic!("the description of {path} does not begin with {label}"));
            let (first_letter, rest) = description.split_at(1);
            let capital_letter = first_letter.to_uppercase();
            write!(page, "\n## `[{path}]`\n\n{capital_letter}{rest}\n\n").unwrap();
            page.push_str(TABLE_HEAD);
            self.add_rows(&format!("{path}."), section, &mut page);
        }
        page
    }

    /// Returns the paths of all tables, except arrays of tables.
    fn list_tables(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut open_tables = vec![(String::new(), &self.0)];
        while let Some((path, table)) = open_tables.pop() {
            let properties = table["properties"].as_object().into_iter().flatten();
            let keys = properties.map(|(key, property)| (key.as_str(), property));
            let entries = table
                .get("additionalProperties")
                .filter(|entry| entry.is_object());
            for (key, property) in keys.chain(entries.map(|entry| ("x", entry))) {
                let inner_table = self.resolve(property);
                if inner_table.get("properties").is_some()
                    || inner_table.get("additionalProperties").is_some()
                {
                    let inner_path = format!("{path}{key}");
                    paths.push(inner_path.clone());
                    open_tables.push((format!("{inner_path}."), inner_table));
                }
            }
        }
        paths
    }

    /// Adds a row for each key of a table, and the rows of the tables in that table. The paths of
    /// the keys begin with `prefix`.
    fn add_rows(&self, prefix: &str, table: &Value, page: &mut String) {
        let required_keys = table["required"].as_array();
        for (key, property) in table["properties"].as_object().unwrap() {
            let path = format!("{prefix}{key}");
            let kind = self.format_type(property);
            let text = property["description"].as_str();
            let lines = text.unwrap_or_else(|| panic!("{path} has no description"));
            let description = lines.replace('\n', " ");
            let (meaning, default) = match description.split_once(" Default: ") {
                Some((meaning, default)) => (meaning, default.trim_end_matches('.').to_owned()),
                None if required_keys.is_some_and(|keys| keys.iter().any(|name| name == key)) => {
                    (description.as_str(), "required".to_owned())
                }
                None => (description.as_str(), format_default(property)),
            };
            writeln!(page, "| `{path}` | {kind} | {default} | {meaning} |").unwrap();
            let inner_table = self.resolve(property);
            if inner_table.get("properties").is_some() {
                self.add_rows(&format!("{path}."), inner_table, page);
            }
        }
    }

    fn format_type(&self, property: &Value) -> String {
        let definition = self.resolve(property);
        let join_values = |values: Vec<&Value>| {
            let texts: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            texts.join(", ")
        };
        if let Some(variants) = definition["oneOf"].as_array() {
            return join_values(variants.iter().map(|variant| &variant["const"]).collect());
        }
        if let Some(variants) = definition["enum"].as_array() {
            return join_values(variants.iter().collect());
        }
        let kind = match &definition["type"] {
            Value::Array(kinds) => &kinds[0],
            kind => kind,
        };
        match kind.as_str().unwrap() {
            "array" => {
                let item = self.format_type(&definition["items"]);
                match item.split_once(' ') {
                    Some((kind, range)) if kind == "integer" => format!("array of {kind}s {range}"),
                    _ => format!("array of {item}s"),
                }
            }
            "object" => "table".to_owned(),
            kind => match (property.get("minimum"), property.get("maximum")) {
                (Some(min), Some(max)) => format!("{kind} from {min} to {max}"),
                (Some(min), None) => format!("{kind} (minimum {min})"),
                (None, Some(max)) => format!("{kind} (maximum {max})"),
                (None, None) => kind.to_owned(),
            },
        }
    }
}

/// Returns the Markdown table of the keys of `[[mcp_servers]]`.
fn format_servers_table() -> String {
    let mut page = format!("\n{TABLE_HEAD}");
    let definition = serde_json::to_value(ServerDefinition::schema()).unwrap();
    let mut settings = serde_json::to_value(ServerSettings::schema()).unwrap();
    let keys = settings["properties"].as_object_mut().unwrap();
    keys.retain(|key, _| ServerSettings::entry_keys().any(|entry_key| entry_key == key));
    for table in [definition, settings] {
        Schema(table.clone()).add_rows("", &table, &mut page);
    }
    page
}

/// Replaces the text between the markers of a page.
fn replace_part(page: &str, [begin, end]: [&str; 2], part: &str) -> String {
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{begin}{part}\n{end}{after}")
}

/// Returns the list of keys and defaults from which [`EffectiveConfig`](super::EffectiveConfig)
/// shows the settings that have their default. `sections` is the result of
/// [`Schema::format_sections`].
fn format_defaults_list(sections: &str) -> String {
    let mut list = String::new();
    for row in sections.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<_> = row.split(" | ").collect();
        let key = cells[0].trim_end_matches('`');
        // A tool has these keys only if the configuration sets them.
        let is_listed = !key.starts_with("tools.NAME.") && key != "call_log.redact";
        if is_listed {
            writeln!(list, "{key}\t{}", to_plain_text(cells[2])).unwrap();
        }
    }
    list
}

/// Removes the links and the code marks of a Markdown text.
fn to_plain_text(markdown: &str) -> String {
    let mut text = markdown.to_owned();
    while let Some((before, after)) = text.split_once("](") {
        let (start, label) = before.rsplit_once('[').unwrap();
        let (_, end) = after.split_once(')').unwrap();
        text = format!("{start}{label}{end}");
    }
    text.replace('`', "")
}

fn format_default(property: &Value) -> String {
    match property.get("default") {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::Array(values)) if values.is_empty() => "none".to_owned(),
        Some(Value::Object(duration)) => {
            let read_part = |name: &str| duration[name].as_u64().unwrap();
            format!(
                "`{}`",
                read_part("secs") * 1000 + read_part("nanos") / 1_000_000
            )
        }
        Some(value) => format!("`{value}`"),
    }
}

#[test]
fn no_table_can_be_an_array() {
    let tables = Schema(schemars::schema_for!(Config).to_value()).list_tables();
    assert!(tables.len() > 20, "{tables:?}");
    let sections = tables.iter().map(|path| (String::new(), path.as_str()));
    let server = "[[mcp_servers]]\nlabel = \"a\"\nurl = \"https://example.com/mcp\"\n";
    let server_keys = [
        "egress",
        "limits",
        "authentication",
        "rate_limit",
        "headers",
        "native",
    ];
    let server_tables = server_keys.map(|key| (server.to_owned(), key));
    for (start, path) in sections.chain(server_tables) {
        for array in ["[]", "[[]]", "[{}]", "[1]", "['a', 'b', 'c']"] {
            let text = format!("{start}{path} = {array}\n");
            let result = Config::parse(&text, "t");
            assert!(result.is_err(), "{text}");
        }
    }
}

#[test]
fn the_reference_matches_the_types_of_the_configuration() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_directory.join("../../docs/reference/configuration.md");
    let list_path = crate_directory.join("src/effective/defaults.tsv");
    let current_page = fs::read_to_string(&path).unwrap();
    let sections = Schema(schemars::schema_for!(Config).to_value()).format_sections();
    let page_with_sections = replace_part(&current_page, SECTION_MARKERS, &sections);
    let expected_page = replace_part(&page_with_sections, ENTRY_MARKERS, &format_servers_table());
    let expected_list = format_defaults_list(&sections);
    if std::env::var_os("PILLION_WRITE_DOCS").is_some() {
        fs::write(&path, &expected_page).unwrap();
        fs::write(&list_path, &expected_list).unwrap();
        return;
    }
    assert!(
        current_page == expected_page,
        "docs/reference/configuration.md does not match the types: PILLION_WRITE_DOCS=1 cargo test \
         -p pillion-config reference"
    );
    assert!(
        fs::read_to_string(&list_path).unwrap() == expected_list,
        "crates/config/src/effective/defaults.tsv does not match the types: PILLION_WRITE_DOCS=1 \
         cargo test -p pillion-config reference"
    );
}
