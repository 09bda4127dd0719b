//! Entries of `tools/list`, converted for the clients of each revision.

use pillion_core::digest::sha256_hex;
use pillion_mcp_client::{Feature, ProtocolVersion, has_object_output};
use serde_json::value::{RawValue, to_raw_value};

use super::message::Members;

/// A validated entry of `tools/list`, with each member as the server or worker wrote it.
#[derive(Debug)]
pub(crate) struct ListedTool {
    /// The entry as raw JSON, because parsed members take many times as much memory.
    entry: Box<RawValue>,
    /// Whether the `outputSchema`, if present, has the type `object`.
    has_object_output: bool,
    /// The SHA-256 hash of the members.
    digest: String,
}

impl ListedTool {
    /// Reads an entry of `tools/list` that was validated before.
    ///
    /// # Errors
    /// Returns an error if the entry is not an object.
    pub(crate) fn new(entry: &RawValue) -> Result<Self, serde_json::Error> {
        let members: Members = serde_json::from_str(entry.get())?;
        Ok(Self {
            digest: sha256_hex(&serde_json::to_string(&members)?),
            entry: entry.to_owned(),
            has_object_output: has_object_output(entry),
        })
    }

    /// Returns the entry under the name `name` for clients of the revision `version`.
    pub(crate) fn to_entry(
        &self,
        name: &str,
        version: ProtocolVersion,
    ) -> Result<Box<RawValue>, serde_json::Error> {
        let mut members: Members = serde_json::from_str(self.entry.get())?;
        if !self.has_object_output && !version.supports(Feature::AnyStructuredContent) {
            members.shift_remove("outputSchema");
        }
        members.insert("name".to_owned(), to_raw_value(name)?);
        to_raw_value(&members)
    }

    /// Returns the size of the entry, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.entry.get().len()
    }

    /// Returns whether `self` and `other` are equal entries.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}
