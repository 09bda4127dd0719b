//! Bounds the memory and the time that compiling one schema takes, before the schema is compiled:
//! the compiler cannot be interrupted.

use serde_json::{Map, Value};

use super::SchemaError;
use super::instrumented::too_large;
use super::keywords::SubschemaKind;
use super::pattern_cost::{PatternSizes, Unbounded, translation_work};

/// Maximum estimated size of one compiled schema, in bytes.
pub(super) const MAX_SCHEMA_BYTES: u64 = 32 * 1024 * 1024;

const UNBOUNDED_PATTERN_MESSAGE: &str =
    "a pattern of the schema may take too much time and memory to compile; simplify the pattern";

/// Maximum size of a compiled regular expression, in bytes.
const MAX_PATTERN_BYTES: u64 = 1024 * 1024;

/// Maximum number of characters that are read to translate the patterns of one schema. Reading that
/// many characters takes about 200 milliseconds.
const MAX_TRANSLATED_CHARS: u64 = 400_000;

/// Limits of small patterns: maximum size of all compiled patterns of one schema, in bytes, and
/// maximum number of characters that are read to translate the patterns. Small patterns take about
/// a millisecond to compile, so they are compiled as soon as the schema is checked.
const MAX_SMALL_PATTERN_BYTES: u64 = 128 * 1024;
const MAX_SMALL_TRANSLATED_CHARS: u64 = 2_000;

/// Estimated sizes in memory, from measurements with the allocator: of a compiled keyword without
/// its location, and of a JSON value, an array item and an object without their texts.
const BYTES_PER_KEYWORD: u64 = 350;
const BYTES_PER_VALUE: u64 = 64;
const BYTES_PER_ITEM: u64 = 192;
const BYTES_PER_OBJECT: u64 = 1024;

/// The estimated size of a compiled schema.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CompiledSize {
    /// Size of the subschemas without their patterns, in bytes.
    subschema_bytes: u64,
    /// Size of the patterns, in bytes.
    pattern_bytes: u64,
    /// Number of characters that are read to translate the patterns.
    translated_chars: u64,
}

impl CompiledSize {
    /// Adds a subschema. The compiler stores the path of each keyword, so a long name counts once
    /// for each keyword below that name.
    ///
    /// # Errors
    /// The schema is too large.
    pub(super) fn add_subschema(
        &mut self,
        entries: &Map<String, Value>,
        path_bytes: usize,
    ) -> Result<(), SchemaError> {
        // Each subschema gets a step counter, which adds two keywords.
        let keywords = entries.len() as u64 + 2;
        let keyword_bytes: u64 = entries.keys().map(|keyword| keyword.len() as u64).sum();
        self.subschema_bytes += keywords * (BYTES_PER_KEYWORD + path_bytes as u64) + keyword_bytes;
        for (keyword, value) in entries {
            // Subschemas in the other keywords are counted by their own calls of `add_subschema`.
            if SubschemaKind::from_keyword(keyword).has_no_schemas() {
                self.subschema_bytes += value_bytes(value);
            }
        }
        self.check()
    }

    /// Adds the size and the translation of a pattern.
    ///
    /// # Errors
    /// The patterns of the schema are too large, or the size of `pattern` cannot be bounded.
    pub(super) fn add_pattern(
        &mut self,
        pattern: &str,
        sizes: &mut PatternSizes,
    ) -> Result<(), SchemaError> {
        // The work to translate the pattern is checked against `MAX_TRANSLATED_CHARS` before the
        // pattern is parsed, because parsing a very long pattern takes too long.
        let work = translation_work(pattern);
        self.translated_chars = self.translated_chars.saturating_add(work);
        self.check()?;
        let bytes = sizes
            .compiled_bytes(pattern)
            .map_err(|Unbounded| too_large(UNBOUNDED_PATTERN_MESSAGE))?;
        self.pattern_bytes = self.pattern_bytes.saturating_add(bytes);
        self.check()
    }

    fn check(&self) -> Result<(), SchemaError> {
        if self.pattern_bytes > MAX_SCHEMA_BYTES || self.translated_chars > MAX_TRANSLATED_CHARS {
            let reason = "the patterns of the schema take too much time and memory to compile";
            return Err(too_large(reason));
        }
        if self.subschema_bytes > MAX_SCHEMA_BYTES {
            let max = MAX_SCHEMA_BYTES / 1024 / 1024;
            let reason = format!("the compiled schema would take more than {max} MiB of memory");
            return Err(too_large(&reason));
        }
        Ok(())
    }

    /// Returns the estimated size of the compiled schema, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.subschema_bytes + self.pattern_bytes
    }

    /// Returns the maximum size of each compiled pattern, in bytes. The maximum is never below
    /// `MAX_SMALL_PATTERN_BYTES`, because a schema may refer to the meta-schemas, whose small
    /// patterns are not counted here.
    pub(super) fn max_pattern_bytes(&self) -> usize {
        let bytes = self
            .pattern_bytes
            .clamp(MAX_SMALL_PATTERN_BYTES, MAX_PATTERN_BYTES);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Returns whether compiling the patterns is estimated to take about a millisecond at most.
    pub(super) fn has_small_patterns(&self) -> bool {
        self.pattern_bytes <= MAX_SMALL_PATTERN_BYTES
            && self.translated_chars <= MAX_SMALL_TRANSLATED_CHARS
    }
}

/// Returns the approximate size of a value in memory, in bytes.
fn value_bytes(value: &Value) -> u64 {
    BYTES_PER_VALUE
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => {
                let sizes = items.iter().map(|item| BYTES_PER_ITEM + value_bytes(item));
                sizes.sum()
            }
            Value::Object(members) => {
                let sizes = members
                    .iter()
                    .map(|(name, member)| BYTES_PER_ITEM + name.len() as u64 + value_bytes(member));
                BYTES_PER_OBJECT + sizes.sum::<u64>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
