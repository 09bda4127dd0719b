//! Bounds the memory and the time that compiling one schema takes, before the schema is compiled:
//! the compiler cannot be interrupted.

use serde_json::{Map, Value};

use super::SchemaError;
use super::instrumented::too_large;
use super::keywords::SubschemaKind;
use super::pattern_cost::{PatternSizes, Unbounded, translation_work};

/// Maximum estimated size of one compiled schema, in bytes.
pub(super) const MAX_SCHEMA_BYTES: u64 = 32 * 1024 * 1024;

const UNBOUNDED_PATTERN: &str =
    "a pattern of the schema may take too much time and memory to compile; simplify the pattern";

/// Maximum size of a compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: u64 = 1024 * 1024;

/// Maximum number of characters that are read to translate the patterns of one schema: some 200
/// milliseconds.
const MAX_TRANSLATION: u64 = 400_000;

/// Limits of the patterns that are compiled together with the check of a schema, which takes about
/// a millisecond.
const MAX_SMALL_PATTERN_BYTES: u64 = 128 * 1024;
const MAX_SMALL_TRANSLATION: u64 = 2_000;

/// Estimated sizes, measured with the allocator: the size of a compiled keyword without its
/// location, and the size of a JSON value without its text, by type.
const BYTES_PER_KEYWORD: u64 = 350;
const BYTES_PER_VALUE: u64 = 64;
const BYTES_PER_ITEM: u64 = 192;
const BYTES_PER_OBJECT: u64 = 1024;

/// The estimated size of a compiled schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CompiledSize {
    /// Size of everything except the patterns, in bytes.
    parts: u64,
    /// Size of the patterns, in bytes.
    patterns: u64,
    /// Number of characters that are read to translate the patterns.
    translation: u64,
}

impl CompiledSize {
    /// Adds a subschema. The compiler stores the path of each keyword, so a long name counts once
    /// for each keyword below that name.
    ///
    /// # Errors
    /// The schema is too large.
    pub(super) fn add_part(
        &mut self,
        entries: &Map<String, Value>,
        path_bytes: usize,
    ) -> Result<(), SchemaError> {
        // The step counter of the subschema adds two keywords.
        let keywords = entries.len() as u64 + 2;
        let keyword_bytes: u64 = entries.keys().map(|keyword| keyword.len() as u64).sum();
        self.parts += keywords * (BYTES_PER_KEYWORD + path_bytes as u64) + keyword_bytes;
        for (keyword, value) in entries {
            // Other subschemas in this keyword are counted by their own calls of `add_part`.
            if SubschemaKind::from_keyword(keyword).is_nothing() {
                self.parts += value_bytes(value);
            }
        }
        self.check()
    }

    /// Adds the size and the translation of a pattern.
    ///
    /// # Errors
    /// The patterns of the schema are too large, or the size of this pattern cannot be bounded.
    pub(super) fn add_pattern(
        &mut self,
        pattern: &str,
        sizes: &mut PatternSizes,
    ) -> Result<(), SchemaError> {
        // The work is checked before the pattern is read, because reading a very long pattern takes
        // too long.
        self.translation = self.translation.saturating_add(translation_work(pattern));
        self.check()?;
        let bytes = sizes
            .compiled_bytes(pattern)
            .map_err(|Unbounded| too_large(UNBOUNDED_PATTERN))?;
        self.patterns = self.patterns.saturating_add(bytes);
        self.check()
    }

    fn check(&self) -> Result<(), SchemaError> {
        if self.patterns > MAX_SCHEMA_BYTES || self.translation > MAX_TRANSLATION {
            return Err(too_large(
                "the patterns of the schema take too much time and memory to compile",
            ));
        }
        if self.parts > MAX_SCHEMA_BYTES {
            return Err(too_large("the schema takes too much memory to compile"));
        }
        Ok(())
    }

    /// Returns the estimated size of the compiled schema, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.parts + self.patterns
    }

    /// Returns the size limit of each pattern, in bytes. The meta-schemas, to which a schema may
    /// refer, contain only small patterns.
    pub(super) fn max_pattern_bytes(&self) -> usize {
        let bytes = self
            .patterns
            .clamp(MAX_SMALL_PATTERN_BYTES, MAX_PATTERN_BYTES);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Returns whether the patterns are compiled in less than a millisecond.
    pub(super) fn has_small_patterns(&self) -> bool {
        self.patterns <= MAX_SMALL_PATTERN_BYTES && self.translation <= MAX_SMALL_TRANSLATION
    }
}

/// Returns the approximate size of a value in memory, in bytes.
fn value_bytes(value: &Value) -> u64 {
    BYTES_PER_VALUE
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => {
                let bytes = items.iter().map(|item| BYTES_PER_ITEM + value_bytes(item));
                bytes.sum()
            }
            Value::Object(members) => {
                let bytes = members
                    .iter()
                    .map(|(name, member)| BYTES_PER_ITEM + name.len() as u64 + value_bytes(member));
                BYTES_PER_OBJECT + bytes.sum::<u64>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
