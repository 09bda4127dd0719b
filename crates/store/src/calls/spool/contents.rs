use std::path::Path;

use pillion_core::store::CallId;

use super::line::{self, DecodedLine};
use super::{SpooledCalls, merge_record};

/// Maximum number of calls that a log line about one damaged file names.
const MAX_NAMED_CALLS: usize = 50;

/// The unknown records, damaged lines and incomplete last line of a file of recorded calls.
#[derive(Debug, Default)]
pub(super) struct SpoolContents {
    /// Whether the file contains records of a newer version of Pillion.
    pub(super) has_unknown_records: bool,
    /// The number of damaged lines in the file.
    pub(super) damaged_line_count: usize,
    /// Whether the last line is incomplete, for example because the process was killed during the
    /// write.
    pub(super) is_last_line_incomplete: bool,
    /// The IDs of calls that are still readable in damaged lines.
    pub(super) damaged_call_ids: Vec<CallId>,
}

impl SpoolContents {
    /// Reads a file, and adds the last record of each call to `calls`.
    pub(super) fn read(bytes: &[u8], calls: &mut SpooledCalls) -> Self {
        let mut contents = Self::default();
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            if line.is_empty() {
                continue;
            }
            match line::decode(line) {
                DecodedLine::Record(call) => merge_record(*call, calls),
                DecodedLine::Unknown => contents.has_unknown_records = true,
                DecodedLine::Damaged => {
                    let is_last_line_incomplete =
                        lines.peek().is_none() && !line::is_complete(line);
                    contents.is_last_line_incomplete |= is_last_line_incomplete;
                    contents.damaged_line_count += usize::from(!is_last_line_incomplete);
                    contents.damaged_call_ids.extend(line::find_call_ids(line));
                }
            }
        }
        contents
    }

    /// Returns the number of records in the file that cannot be read.
    pub(super) fn count_unreadable(&self) -> usize {
        self.damaged_line_count + usize::from(self.is_last_line_incomplete)
    }

    /// Logs an error for damaged records and a warning for an incomplete record.
    pub(super) fn log(&self, path: &Path) {
        let call_ids: Vec<String> = self.list_named_call_ids();
        if self.damaged_line_count > 0 {
            tracing::error!(
                path = %path.display(), lines = self.damaged_line_count, calls = ?call_ids,
                "A file of recorded calls is damaged: the damaged records are lost, and a call \
                whose end is in such a record is shown as interrupted. Kept a copy of the file"
            );
        }
        if self.is_last_line_incomplete {
            tracing::warn!(
                path = %path.display(), calls = ?call_ids,
                "The last record of a file of recorded calls is incomplete. The record was not \
                acknowledged, unless the file was truncated afterwards"
            );
        }
    }

    /// Returns an error message that names the damage and the required action.
    pub(super) fn describe_damage(&self, path: &Path) -> String {
        format!(
            "the file '{}' has {} damaged records of calls ({}); inspect the file, then remove \
            the file",
            path.display(),
            self.count_unreadable(),
            self.list_named_call_ids().join(", ")
        )
    }

    fn list_named_call_ids(&self) -> Vec<String> {
        let call_ids = self.damaged_call_ids.iter().take(MAX_NAMED_CALLS);
        call_ids.map(CallId::to_string).collect()
    }
}

/// Returns whether a file contains a record.
pub(super) fn has_records(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| !matches!(byte, b'\n' | 0))
}

#[cfg(test)]
mod tests {
    use pillion_core::store::{CallStatus, ProcessRun, ToolCallRecord};

    use super::*;

    fn record(number: usize) -> ToolCallRecord {
        let process = ProcessRun {
            owner: "here".to_owned(),
            run_id: "now".to_owned(),
        };
        let mut call = ToolCallRecord::begin(process, "roll", format!("{{\"n\":{number}}}"));
        call.status = CallStatus::Success;
        call.result = Some(number.to_string());
        call
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let records = [1, 2, 3].map(record);
        let bytes: Vec<u8> = records
            .iter()
            .flat_map(|call| line::encode(call).unwrap())
            .collect();
        for bit in 0..bytes.len() * 8 {
            let mut changed_bytes = bytes.clone();
            changed_bytes[bit / 8] ^= 1 << (bit % 8);
            let mut calls = SpooledCalls::new();
            let contents = SpoolContents::read(&changed_bytes, &mut calls);
            for call in calls.values() {
                assert!(records.contains(call), "bit {bit}: {call:?}");
            }
            assert!(
                calls.len() == 3 || contents.count_unreadable() > 0,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn every_cut_inside_a_record_is_noticed() {
        let records = [1, 2].map(record);
        let lines = records.map(|call| line::encode(&call).unwrap());
        let bytes = lines.concat();
        for length in 0..bytes.len() {
            let mut calls = SpooledCalls::new();
            let contents = SpoolContents::read(&bytes[..length], &mut calls);
            let is_between = [0, 1, lines[0].len(), lines[0].len() + 1].contains(&length);
            assert_eq!(contents.is_last_line_incomplete, !is_between, "{length}");
            assert_eq!(contents.damaged_line_count, 0, "{length}");
        }
    }

    #[test]
    fn only_a_line_with_the_right_checksum_is_a_record_of_a_newer_version() {
        let unchecked_line = "{\"kind\":\"new\"}";
        let checksum = crc32fast::hash(unchecked_line.as_bytes());
        let newer_line = unchecked_line.replace('}', &format!(",\"crc32\":{checksum}}}"));
        let mut calls = SpooledCalls::new();
        let contents = SpoolContents::read(newer_line.as_bytes(), &mut calls);
        assert!(contents.has_unknown_records && contents.count_unreadable() == 0);
        // The remaining part of a damaged record may be valid JSON.
        let record = String::from_utf8(line::encode(&record(1)).unwrap()).unwrap();
        let (unchecked_record, _) = record.rsplit_once(",\"crc32\"").unwrap();
        for damaged_line in [
            unchecked_line,
            "{\"c32\":7}",
            &format!("{unchecked_record}}}"),
        ] {
            let contents = SpoolContents::read(damaged_line.as_bytes(), &mut calls);
            assert!(
                !contents.has_unknown_records && contents.count_unreadable() == 1,
                "{damaged_line}"
            );
        }
        assert!(calls.is_empty());
    }
}
