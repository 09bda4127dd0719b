//! The finish reasons of the providers. Each provider documents a fixed set of finish reasons; any
//! other value does not count as the end of a response.

use serde_json::Value;

use crate::Finish;

/// Values that servers send in place of `null` while a response has no finish reason yet.
const PLACEHOLDERS: [&str; 4] = [
    "null",
    "none",
    "FINISH_REASON_UNSPECIFIED",
    "BLOCK_REASON_UNSPECIFIED",
];

/// What a documented finish reason means for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The response and all calls in the response are complete.
    Complete,
    /// The response reached its maximum length.
    Length,
    /// The provider withheld the response or the rest of the response.
    Filtered,
    /// The provider paused a response that uses the provider's own tools.
    Paused,
    /// The response ended early with an error.
    Failed,
}

/// A function that parses a finish reason of one provider; returns `None` if the provider does not
/// document the finish reason.
pub(crate) type ParseEnding = fn(&str) -> Option<Ending>;

/// Returns the finish reason in a member of a response or a chunk. `None` if the member is absent,
/// not a string, blank, or a placeholder.
pub(crate) fn reason(member: Option<&Value>) -> Option<&str> {
    let text = member?.as_str()?.trim();
    let is_placeholder = |placeholder: &&str| text.eq_ignore_ascii_case(placeholder);
    (!text.is_empty() && !PLACEHOLDERS.iter().any(is_placeholder)).then_some(text)
}

/// Converts the finish reason of a response. A response without a finish reason counts as complete.
/// With a finish reason that the provider does not document, the response counts as truncated, as
/// if the response had reached its maximum length.
pub(crate) fn finish(reason: Option<&str>, parse_ending: ParseEnding, has_calls: bool) -> Finish {
    let Some(text) = reason else {
        return complete_finish(has_calls);
    };
    match parse_ending(text) {
        Some(Ending::Complete) => complete_finish(has_calls),
        Some(Ending::Length) => Finish::Length,
        Some(Ending::Filtered) => Finish::Filtered,
        Some(Ending::Paused) => Finish::Other(text.to_owned()),
        Some(Ending::Failed) | None if has_calls => Finish::Length,
        Some(Ending::Failed) | None => Finish::Other(text.to_owned()),
    }
}

fn complete_finish(has_calls: bool) -> Finish {
    if has_calls {
        Finish::ToolCalls
    } else {
        Finish::Stop
    }
}

/// The finish reason of a streamed response. Servers repeat finish reasons, send finish reasons
/// before the last content, and send placeholders after finish reasons.
#[derive(Default)]
pub(crate) struct StreamedReason {
    /// The finish reason, and its meaning if the provider documents it.
    reason: Option<(String, Option<Ending>)>,
    /// Whether a documented finish reason arrived after the last content or in the same event.
    is_current: bool,
    /// Whether content arrived after an earlier finish reason.
    was_premature: bool,
}

impl StreamedReason {
    /// Records that an event has content.
    pub(crate) fn add_content(&mut self) {
        if self.reason.is_some() {
            self.is_current = false;
            self.was_premature = true;
        }
    }

    /// Records the finish reason in `member` of an event. Must be called after the content of the
    /// event was recorded.
    pub(crate) fn add(&mut self, parse_ending: ParseEnding, member: Option<&Value>) {
        let Some(text) = reason(member) else { return };
        let ending = parse_ending(text);
        self.is_current |= ending.is_some();
        // Any later finish reason replaces an undocumented one, and a documented one replaces
        // `Complete`. All other documented finish reasons are final, because a response that was
        // cut off or filtered stays incomplete.
        let is_final = match &self.reason {
            Some((_, Some(Ending::Complete))) => ending.is_none(),
            Some((_, known_ending)) => known_ending.is_some(),
            None => false,
        };
        if !is_final {
            self.reason = Some((text.to_owned(), ending));
        }
    }

    /// Returns the finish reason, whether or not the provider documents it.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_ref().map(|(text, _)| text.as_str())
    }

    /// Returns whether a documented finish reason arrived after the last content or in the same
    /// event.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_current
    }

    /// Returns whether the response counts as complete if the connection fails now. If content
    /// followed an earlier finish reason, more content may be missing, because some models send a
    /// finish reason with every piece of content.
    pub(crate) fn is_complete_if_broken(&self) -> bool {
        self.is_current && !self.was_premature
    }

    /// Formats the error message for a stream that ended without a documented finish reason.
    pub(crate) fn format_early_end_message(&self) -> String {
        match &self.reason {
            Some((text, None)) => {
                let excerpt: String = text.chars().take(64).collect();
                format!("the finish reason '{excerpt}' is unknown, and the stream ended early")
            }
            _ => "the stream ended early".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
