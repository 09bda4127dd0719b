//! Checks which entries of a server's lists can be offered, and logs the problems of the entries.

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
const MAX_REPORTED_PROBLEMS: usize = 1_000;

/// Maximum number of logged repairs of one entry.
const MAX_REPORTED_REPAIRS: usize = 10;

/// Checks the entries of one server's lists. Remembers the problems that were already logged: lists
/// are requested repeatedly, and their problems repeat.
#[derive(Debug)]
pub struct EntryChecker {
    /// The label of the server.
    label: String,
    reported_hashes: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

/// An entry of a server's list in a form that every client can read.
pub struct OfferedEntry {
    /// The name, URI or URI template on the server.
    pub id: String,
    /// The entry as raw JSON, because parsed members take many times as much memory.
    pub entry: Box<RawValue>,
}

impl EntryChecker {
    pub(super) fn new(label: String) -> Self {
        Self {
            label,
            reported_hashes: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the entries of a list in a form that every client can read. Entries that cannot be
    /// repaired are dropped with a warning. A long list is checked on another thread.
    pub async fn check_list(
        self: &Arc<Self>,
        kind: EntryKind,
        raw_entries: Vec<Box<RawValue>>,
    ) -> Vec<OfferedEntry> {
        let bytes = raw_entries.iter().map(|entry| entry.get().len()).sum();
        let checker = Arc::clone(self);
        compute::run(&self.label, bytes, move || {
            let entries = raw_entries.iter();
            let offered_entries = entries.filter_map(|entry| {
                let CheckedEntry { id, entry, .. } = checker.check(kind, entry)?;
                Some(OfferedEntry { id, entry })
            });
            offered_entries.collect()
        })
        .await
    }

    /// Returns an entry of a list in a form that every client can read, or `None`, with a warning,
    /// if the entry cannot be repaired.
    pub(super) fn check(&self, kind: EntryKind, raw_entry: &RawValue) -> Option<CheckedEntry> {
        match kind.check(raw_entry) {
            Ok(checked_entry) => {
                let repairs = checked_entry.repairs.iter().take(MAX_REPORTED_REPAIRS);
                self.report_problems(kind, raw_entry, "was repaired", repairs);
                Some(checked_entry)
            }
            Err(error) => {
                self.report_dropped(kind, raw_entry, &error);
                None
            }
        }
    }

    /// Logs a warning, once, that an entry is not offered.
    pub(super) fn report_dropped(&self, kind: EntryKind, entry: &RawValue, reason: &dyn Display) {
        self.report_problems(kind, entry, "was dropped", [&reason.to_string()]);
    }

    /// Logs a warning, once, that a tool or prompt is not offered because its name belongs to
    /// another owner.
    pub fn report_name_conflict(&self, kind: EntryKind, entry: &str, conflict: &str) {
        let text = serde_json::json!({"name": entry}).to_string();
        if let Ok(raw_entry) = RawValue::from_string(text) {
            self.report_dropped(kind, &raw_entry, &conflict);
        }
    }

    /// Logs the problems of one entry, each once.
    fn report_problems<'a>(
        &self,
        kind: EntryKind,
        raw_entry: &RawValue,
        outcome: &str,
        reasons: impl IntoIterator<Item = &'a String>,
    ) {
        let mut reasons = reasons.into_iter().peekable();
        // The name is read only if a problem is to be logged, because reading it parses the whole
        // entry.
        if reasons.peek().is_none() || self.reported_hashes.lock().len() >= MAX_REPORTED_PROBLEMS {
            return;
        }
        let entry_name = log_name(kind, raw_entry);
        for reason in reasons {
            if !self.record_problem(&(kind, &entry_name, reason)) {
                continue;
            }
            // The server's text is escaped, so that it cannot forge log lines.
            let reason = reason.escape_debug().to_string();
            let (label, kind) = (&self.label, kind.as_str());
            tracing::warn!(
                server.label = label,
                entry = entry_name,
                reason,
                "The {kind} {entry_name} of MCP server `{label}` {outcome}: {reason}"
            );
        }
    }

    /// Records a problem as logged. Returns `false` if the problem must not be logged: if it was
    /// logged before, or `MAX_REPORTED_PROBLEMS` problems were logged.
    fn record_problem(&self, problem: &(EntryKind, &str, &str)) -> bool {
        let mut reported_hashes = self.reported_hashes.lock();
        reported_hashes.len() < MAX_REPORTED_PROBLEMS
            && reported_hashes.insert(self.hasher.hash_one(problem))
    }
}

/// Returns the name of an entry in the log: its identifier, or else the beginning of its JSON.
fn log_name(kind: EntryKind, raw_entry: &RawValue) -> String {
    let entry: Option<Value> = serde_json::from_str(raw_entry.get()).ok();
    let name_members = [kind.id_member(), "name", "title", "uri"];
    let name = entry
        .as_ref()
        .and_then(|entry| name_members.iter().find_map(|key| entry.get(key)?.as_str()));
    let shown_name = name.unwrap_or_else(|| raw_entry.get());
    format!("{:?}", truncate_input(shown_name))
}
