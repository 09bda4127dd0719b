//! Checks which entries of a server's lists can be offered, and logs the problems of the others.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_core::compute;
use pillion_mcp_client::{CheckedEntry, EntryKind};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client_text::truncate_input;

/// Maximum number of logged problems of one server.
const MAX_REPORTED: usize = 1_000;

/// Maximum number of logged repairs of one entry.
const MAX_REPORTED_REPAIRS: usize = 10;

/// Checks the entries of one server's lists. Remembers the problems that were already logged: lists
/// are requested repeatedly, and their problems repeat.
#[derive(Debug)]
pub struct EntryChecker {
    /// The label of the server.
    label: String,
    reported: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

/// An entry of a server's list in a form that every client can read.
pub struct OfferedEntry {
    /// The name, URI or URI template on the server.
    pub id: String,
    /// The entry as raw JSON, because parsed members take many times the memory.
    pub entry: Box<RawValue>,
}

impl EntryChecker {
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            reported: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the entries of a list in a form that every client can read. Entries that cannot be
    /// repaired are dropped with a warning. A long list is checked on another thread.
    pub async fn check_list(
        self: &Arc<Self>,
        kind: EntryKind,
        listed: Vec<Box<RawValue>>,
    ) -> Vec<OfferedEntry> {
        let bytes = listed.iter().map(|entry| entry.get().len()).sum();
        let checker = Arc::clone(self);
        compute::run(&self.label, bytes, move || {
            let entries = listed.iter();
            let offered = entries.filter_map(|entry| {
                let CheckedEntry { id, entry, .. } = checker.check(kind, entry)?;
                Some(OfferedEntry { id, entry })
            });
            offered.collect()
        })
        .await
    }

    /// Returns an entry of a list in a form that every client can read, or `None`, with a warning,
    /// if the entry cannot be repaired.
    pub(super) fn check(&self, kind: EntryKind, listed: &RawValue) -> Option<CheckedEntry> {
        match kind.check(listed) {
            Ok(checked) => {
                let repairs = checked.repairs.iter().take(MAX_REPORTED_REPAIRS);
                self.report_problems(kind, listed, "was repaired", repairs);
                Some(checked)
            }
            Err(error) => {
                self.report_dropped(kind, listed, &error);
                None
            }
        }
    }

    /// Logs a warning, once, that an entry is not offered.
    pub(super) fn report_dropped(&self, kind: EntryKind, listed: &RawValue, reason: &dyn Display) {
        self.report_problems(kind, listed, "was dropped", [&reason.to_string()]);
    }

    /// Logs a warning, once, that a tool or prompt is not offered because its name belongs to
    /// another owner.
    pub fn report_name_conflict(&self, kind: EntryKind, entry: &str, conflict: &str) {
        let listed = serde_json::json!({"name": entry}).to_string();
        if let Ok(listed) = RawValue::from_string(listed) {
            self.report_dropped(kind, &listed, &conflict);
        }
    }

    /// Logs the problems of one entry, each once.
    fn report_problems<'a>(
        &self,
        kind: EntryKind,
        listed: &RawValue,
        outcome: &str,
        reasons: impl IntoIterator<Item = &'a String>,
    ) {
        let mut reasons = reasons.into_iter().peekable();
        // Reading the entry's name parses the whole entry.
        if reasons.peek().is_none() || self.reported.lock().len() >= MAX_REPORTED {
            return;
        }
        let entry = name_of(kind, listed);
        for reason in reasons {
            if !self.is_new(&(kind, &entry, reason)) {
                continue;
            }
            // The server's text is escaped, so that it cannot forge log lines.
            let reason = reason.escape_debug().to_string();
            let (label, kind) = (&self.label, kind.as_str());
            tracing::warn!(
                server.label = label,
                entry,
                reason,
                "The {kind} {entry} of MCP server `{label}` {outcome}: {reason}"
            );
        }
    }

    /// Returns whether to log a problem: if it was not logged before and the limit is not reached.
    fn is_new(&self, problem: &(EntryKind, &str, &str)) -> bool {
        let mut reported = self.reported.lock();
        reported.len() < MAX_REPORTED && reported.insert(self.hasher.hash_one(problem))
    }
}

/// Returns the name of an entry in the log: its identifier, or else the beginning of its JSON.
fn name_of(kind: EntryKind, listed: &RawValue) -> String {
    let entry: Option<Value> = serde_json::from_str(listed.get()).ok();
    let members = [kind.id_member(), "name", "title", "uri"];
    let name = entry.as_ref().and_then(|entry| {
        let mut names = members
            .iter()
            .filter_map(|member| entry.get(member)?.as_str());
        names.next()
    });
    format!("{:?}", truncate_input(name.unwrap_or_else(|| listed.get())))
}
