//! Checks which entries of a server's lists are offered, and logs the problems of the others.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use pillion_mcp_client::{CheckedEntry, EntryKind};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Server;
use crate::client_text::truncate_input;

/// Maximum number of logged problems of one server.
const MAX_REPORTED: usize = 1_000;

/// The problems that were already logged. Lists are requested repeatedly, and their problems
/// repeat.
#[derive(Debug, Default)]
pub(super) struct ReportedProblems {
    hashes: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl ReportedProblems {
    /// Returns whether to log a problem: it was not logged before, and the limit is not reached.
    fn insert(&self, problem: &(EntryKind, &str, &str)) -> bool {
        let mut hashes = self.hashes.lock();
        hashes.len() < MAX_REPORTED && hashes.insert(self.hasher.hash_one(problem))
    }
}

impl Server {
    /// Returns an entry of a list in a form that every client can read, or `None`, with a warning,
    /// if the entry cannot be repaired.
    pub fn checked(&self, kind: EntryKind, listed: &RawValue) -> Option<CheckedEntry> {
        match kind.check(listed) {
            Ok(checked) => {
                for repair in &checked.repairs {
                    self.report_problem(kind, listed, "was repaired", repair);
                }
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
        self.report_problem(kind, listed, "was dropped", &reason.to_string());
    }

    fn report_problem(&self, kind: EntryKind, listed: &RawValue, outcome: &str, reason: &str) {
        let entry = name_of(kind, listed);
        if !self.reported.insert(&(kind, &entry, reason)) {
            return;
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
