//! The reasons with which providers end their responses. Each provider documents a fixed set of
//! reasons; any other value ends no response.

use serde_json::Value;

use crate::Finish;

/// Values that servers send in place of `null` while a response has no reason yet.
const PLACEHOLDERS: [&str; 4] = [
    "null",
    "none",
    "FINISH_REASON_UNSPECIFIED",
    "BLOCK_REASON_UNSPECIFIED",
];

/// What a documented reason means for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The response and all calls in the response are complete.
    Complete,
    /// The response reached its maximum length.
    Length,
    /// The provider withheld the response or its rest.
    Filtered,
    /// The provider paused its own tools.
    Paused,
    /// The response broke off with an error.
    Failed,
}

/// Returns what a reason of one provider means; `None` if the provider does not document the
/// reason.
pub(crate) type ReadEnding = fn(&str) -> Option<Ending>;

/// Returns the finish reason in a member of a response or a chunk. `None` if the member is absent,
/// not a string, blank, or a placeholder.
pub(crate) fn reason(member: Option<&Value>) -> Option<&str> {
    let word = member?.as_str()?.trim();
    let is_placeholder = |placeholder: &&str| word.eq_ignore_ascii_case(placeholder);
    (!word.is_empty() && !PLACEHOLDERS.iter().any(is_placeholder)).then_some(word)
}

/// Returns the finish of a complete response with this reason. A response without a reason is
/// complete. If the reason is not documented, the last call of the response may have lost
/// arguments, as in a response that reached its maximum length.
pub(crate) fn finish(reason: Option<&str>, read: ReadEnding, has_calls: bool) -> Finish {
    let Some(word) = reason else {
        return complete(has_calls);
    };
    match read(word) {
        Some(Ending::Complete) => complete(has_calls),
        Some(Ending::Length) => Finish::Length,
        Some(Ending::Filtered) => Finish::Filtered,
        Some(Ending::Paused) => Finish::Other(word.to_owned()),
        Some(Ending::Failed) | None if has_calls => Finish::Length,
        Some(Ending::Failed) | None => Finish::Other(word.to_owned()),
    }
}

fn complete(has_calls: bool) -> Finish {
    if has_calls {
        Finish::ToolCalls
    } else {
        Finish::Stop
    }
}

/// The finish reason of a streamed response. Servers repeat reasons, send reasons before the last
/// content, and send placeholders after reasons.
#[derive(Default)]
pub(crate) struct StreamedReason {
    /// The finish reason, and its meaning if the provider documents the reason.
    reason: Option<(String, Option<Ending>)>,
    /// Whether no content followed the reason, except content whose event repeats the reason.
    is_current: bool,
    /// Whether content followed an earlier reason.
    was_premature: bool,
}

impl StreamedReason {
    /// Notes that an event has content.
    pub(crate) fn add_content(&mut self) {
        if self.reason.is_some() {
            self.is_current = false;
            self.was_premature = true;
        }
    }

    /// Adds the member of an event that has the reason, after the content of the event.
    pub(crate) fn add(&mut self, read: ReadEnding, member: Option<&Value>) {
        let Some(word) = reason(member) else {
            return;
        };
        let ending = read(word);
        self.is_current |= ending.is_some();
        // A documented reason replaces an unknown reason, and the content that is missing stays
        // missing.
        let is_final = match &self.reason {
            Some((_, Some(Ending::Complete))) => ending.is_none(),
            Some((_, known)) => known.is_some(),
            None => false,
        };
        if !is_final {
            self.reason = Some((word.to_owned(), ending));
        }
    }

    /// Returns the reason, whether or not the provider documents the reason.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_ref().map(|(word, _)| word.as_str())
    }

    /// Returns whether a documented reason arrived together with the last content or later.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_current
    }

    /// Returns whether the response is complete even if the connection failed after the reason.
    /// Some models send a reason with every piece of content.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_current && !self.was_premature
    }

    /// Returns why the stream of a response without a documented reason is invalid.
    pub(crate) fn early_end(&self) -> String {
        match &self.reason {
            Some((word, None)) => {
                let word: String = word.chars().take(64).collect();
                format!("the finish reason '{word}' is unknown, and the stream ended early")
            }
            _ => "the stream ended early".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
