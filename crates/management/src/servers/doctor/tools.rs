//! The tools that a server lists, and why some of them are not offered to models.

use std::collections::HashSet;
use std::sync::Arc;

use pillion_core::compute;
use pillion_core::registry::ToolRegistry;
use pillion_core::tool::ToolOrigin;
use pillion_gateway::pins::find_warnings;
use pillion_mcp_client::{EntryKind, McpClient, shortened};
use pillion_mcp_tools::{McpTool, registered_name};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::report::{Finding, MAX_NOTE_BYTES};

/// Maximum length of a tool's name in a note, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// The tools of a list, as the server wrote them.
pub(super) struct ListedTools {
    pub(super) entries: Vec<Box<RawValue>>,
    /// The label of the server.
    pub(super) label: String,
    /// The prefix of the tools' names.
    pub(super) prefix: String,
    pub(super) client: McpClient,
    /// The tools of all servers.
    pub(super) registry: Option<Arc<ToolRegistry>>,
}

/// The `name` of a listed tool; other members are ignored.
#[derive(Deserialize)]
struct NamedEntry {
    name: String,
}

/// The counts and the notes about the tools of a list.
#[derive(Default)]
struct ToolCounts {
    /// Number of tools that can be offered to models.
    usable: usize,
    /// Number of tools that are not offered.
    withheld: usize,
    /// Number of usable tools whose definitions contain hidden text.
    with_hidden_text: usize,
    notes: Vec<String>,
}

impl ListedTools {
    /// Checks each tool like the gateway does. A long list is checked on another thread.
    pub(super) async fn examine(self) -> Finding {
        let bytes = self.entries.iter().map(|entry| entry.get().len()).sum();
        let label = self.label.clone();
        let counts = compute::run(&label, bytes, move || self.check_entries()).await;
        counts.into_finding()
    }

    fn check_entries(&self) -> ToolCounts {
        let mut counts = ToolCounts::default();
        let mut names = HashSet::new();
        for entry in &self.entries {
            match self.check_entry(entry, &mut names) {
                Ok(notes) => {
                    counts.usable += 1;
                    counts.with_hidden_text += usize::from(notes.has_hidden_text);
                    counts.notes.extend(notes.repair);
                }
                Err(reason) => {
                    counts.withheld += 1;
                    let note = format!("{} is not offered: {reason}", shown_name(entry));
                    counts.notes.push(limit_note(&note));
                }
            }
        }
        counts
    }

    /// Checks one tool. `names` are the names of the previous tools.
    ///
    /// # Errors
    /// The reason why the tool is not offered.
    fn check_entry(
        &self,
        entry: &RawValue,
        names: &mut HashSet<String>,
    ) -> Result<EntryNotes, String> {
        let checked = EntryKind::Tool
            .check(entry)
            .map_err(|error| error.to_string())?;
        McpTool::from_listed(self.client.clone(), &self.prefix, &checked.entry)
            .map_err(|error| error.to_string())?;
        let name = registered_name(&self.prefix, &checked.id);
        if self.is_foreign(&name) {
            return Err(format!("another tool of the sidecar has the name '{name}'"));
        }
        if names.contains(&name) {
            return Err(format!("the list has another tool with the name '{name}'"));
        }
        names.insert(name);
        let repair = checked.repairs.first();
        Ok(EntryNotes {
            has_hidden_text: !find_warnings(&checked.value).is_empty(),
            repair: repair
                .map(|repair| limit_note(&format!("{} was repaired: {repair}", shown_name(entry)))),
        })
    }

    /// Returns whether a tool of another origin has this name.
    fn is_foreign(&self, name: &str) -> bool {
        let registry = self.registry.as_ref();
        let registered_tool = registry.and_then(|registry| registry.get(name));
        registered_tool.is_some_and(|tool| match tool.origin() {
            ToolOrigin::Mcp { server_label, .. } => *server_label != self.label,
            _ => true,
        })
    }
}

/// Notes about a tool that can be offered.
struct EntryNotes {
    has_hidden_text: bool,
    /// The first repair of the tool's definition.
    repair: Option<String>,
}

/// Shortens a note, because a server may list thousands of tools.
fn limit_note(note: &str) -> String {
    shortened(note, MAX_NOTE_BYTES).into_owned()
}

/// Returns the name of a tool, or the beginning of an entry without a name.
fn shown_name(entry: &RawValue) -> String {
    let named_entry: Option<NamedEntry> = serde_json::from_str(entry.get()).ok();
    match named_entry {
        Some(NamedEntry { name }) => format!("'{}'", shortened(&name, MAX_NAME_BYTES)),
        None => shortened(entry.get(), MAX_NAME_BYTES).into_owned(),
    }
}

impl ToolCounts {
    fn into_finding(self) -> Finding {
        let (usable, withheld, with_hidden_text) =
            (self.usable, self.withheld, self.with_hidden_text);
        let mut detail = match usable + withheld {
            1 => "The server lists 1 tool".to_owned(),
            count => format!("The server lists {count} tools"),
        };
        if withheld > 0 {
            detail.push_str(&format!(
                ", of which {withheld} cannot be offered to models"
            ));
        }
        if with_hidden_text > 0 {
            detail.push_str(&format!("; {with_hidden_text} with hidden text"));
        }
        detail.push('.');
        let advice = if withheld > 0 {
            Some(
                "The operator of the server must correct the definitions of the tools that are not \
                 offered. If a name is taken, set another prefix (`toolPrefix`) of the server's \
                 tool names.",
            )
        } else if with_hidden_text > 0 {
            Some(
                "The definitions contain characters that people do not see and models read. Look \
                 at them on the pages of the tools before models use the tools.",
            )
        } else if usable == 0 {
            Some(
                "If the server should have tools, check its settings, and whether the credential \
                 may use them.",
            )
        } else {
            None
        };
        Finding::new(detail)
            .with_optional_advice(advice.map(str::to_owned))
            .with_notes(self.notes)
    }
}

#[cfg(test)]
mod tests {
    use pillion_mcp_client::ServerConfig;

    use super::*;

    fn check(entries: &[&str]) -> ToolCounts {
        let config = ServerConfig::new("x", "https://mcp.example/").unwrap();
        let raw_entries = entries
            .iter()
            .map(|entry| RawValue::from_string((*entry).to_owned()).unwrap());
        let listed_tools = ListedTools {
            entries: raw_entries.collect(),
            label: "x".to_owned(),
            prefix: "x_".to_owned(),
            client: McpClient::new(config),
            registry: None,
        };
        listed_tools.check_entries()
    }

    #[tokio::test]
    async fn tools_that_are_not_offered_are_counted_with_the_reason() {
        let counts = check(&[
            r#"{"name":"good","inputSchema":{"type":"object"}}"#,
            r#"{"name":"hidden","description":"a\u200bb","inputSchema":{"type":"object"}}"#,
            r#"{"name":"repaired","description":5,"inputSchema":{"type":"object"}}"#,
            r#"{"name":"a.b","inputSchema":{"type":"object"}}"#,
            r#"{"name":"a:b","inputSchema":{"type":"object"}}"#,
            r#"{"title":"no name"}"#,
            "5",
        ]);
        assert_eq!((counts.usable, counts.withheld), (4, 3));
        assert_eq!(counts.with_hidden_text, 1);
        let expected = [
            "'repaired' was repaired",
            "'a:b' is not offered: the list has another tool with the name 'x_a_b'",
            "{\"title\":\"no name\"} is not offered: `name` is missing",
            "5 is not offered",
        ];
        assert_eq!(counts.notes.len(), expected.len(), "{:?}", counts.notes);
        for (note, beginning) in counts.notes.iter().zip(expected) {
            assert!(note.starts_with(beginning), "{note}");
        }
    }
}
