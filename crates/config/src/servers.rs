use std::collections::BTreeSet;

use pillion_core::is_bidi_control;
use pillion_mcp_client::ServerConfig;
use toml::{Table, Value};

use super::entry::{Result, Variables, entry_error, fill_from_variables, read, take_entries};
use super::{KeyPath, McpServerSection, ServerSettings, native};

/// Which entries of `mcp_servers` are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum EntryFilter<'a> {
    All,
    /// Only the entry with this label. Other entries are not checked, and their environment
    /// variables need not be set.
    Labeled(&'a str),
}

/// The servers read from `mcp_servers`.
#[derive(Debug, Default)]
pub(super) struct ServerEntries {
    pub(super) servers: Vec<McpServerSection>,
    /// The labels of the entries that were skipped.
    pub(super) skipped_labels: Vec<String>,
}

/// Takes `mcp_servers` out of the configuration and reads its entries.
pub(super) fn take(
    config: &mut Table,
    variables: &Variables,
    filter: EntryFilter<'_>,
) -> Result<ServerEntries> {
    let mut labels = BTreeSet::new();
    let mut server_entries = ServerEntries::default();
    for (entry_path, table) in take_entries(config, "mcp_servers")? {
        if let (EntryFilter::Labeled(requested_label), Some(label)) = (filter, table.get("label"))
            && label.as_str() != Some(requested_label)
        {
            let skipped_label = label.as_str().map(str::to_owned);
            server_entries.skipped_labels.extend(skipped_label);
            continue;
        }
        let server = read_server(table, &entry_path, variables)?;
        if !labels.insert(server.label().to_owned()) {
            let message = format!("the label '{}' is used by two servers", server.label());
            return Err(entry_error(entry_path.join_name("label"), message));
        }
        server_entries.servers.push(server);
    }
    Ok(server_entries)
}

fn read_server(
    mut entry: Table,
    path: &KeyPath,
    variables: &Variables,
) -> Result<McpServerSection> {
    let mut digest_input = entry.clone();
    let mut settings_table = Table::new();
    for name in ServerSettings::entry_keys() {
        if let Some(value) = entry.remove(name) {
            settings_table.insert(name.to_owned(), value);
        }
    }
    native::fill_token(&mut settings_table, path, variables)?;
    let settings: ServerSettings = read(settings_table, path)?;
    fill_from_variables(&mut entry, path, variables)?;
    // The digest is computed after the values of environment variables are inserted, because these
    // values can change while the text of the entry stays the same.
    digest_input.insert("filled".to_owned(), Value::Table(entry.clone()));
    let server: ServerConfig = read(entry, path)?;
    server
        .validate()
        .map_err(|error| entry_error(path.clone(), error.to_string()))?;
    if server.label.trim().is_empty() {
        return Err(entry_error(path.join_name("label"), "the label is empty"));
    }
    if let Some(problem) = server_name_error(&server.label) {
        return Err(entry_error(path.join_name("label"), problem));
    }
    if let Some((key, message)) = settings.find_fault(&server) {
        return Err(entry_error(path.join_name(key), message));
    }
    if let Some(native) = &settings.native {
        native.check_url(path)?;
    }
    let digest_text = digest_input.to_string();
    Ok(McpServerSection::new(settings, server, &digest_text))
}

/// Path segments after `/api/v1/servers/` that belong to other routes and therefore cannot be names
/// of servers.
const RESERVED_NAMES: [&str; 2] = ["test", "refresh"];

/// Returns why a name is invalid for a server of the configuration file or of the store, or `None`
/// if the name is valid.
pub fn server_name_error(name: &str) -> Option<&'static str> {
    if RESERVED_NAMES.contains(&name) {
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
            let error = Config::parse(&text, "c.toml").unwrap_err().to_string();
            assert!(error.contains("mcp_servers[0].label: "), "{error}");
        }
        for name in ["Test", "tests", "re fresh", "wetter-ä", "天気"] {
            assert_eq!(server_name_error(name), None, "{name}");
        }
    }
}
