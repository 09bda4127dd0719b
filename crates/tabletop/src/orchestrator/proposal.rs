use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum number of characters of a response that are read.
const MAX_RESPONSE_CHARS: usize = 50_000;

/// Maximum number of opening braces that are tried as the start of a JSON object.
const MAX_BRACES: usize = 64;

/// The proposal of a model: an ability check and a narration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) action: String,
    pub(super) ability: String,
    /// The difficulty class, 1 to 40.
    pub(super) suggested_dc: i64,
    pub(super) reason: String,
    pub(super) narration: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelProposal {
    proposal: ProposalMembers,
    narration: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposalMembers {
    action: String,
    ability: String,
    suggested_dc: i64,
    reason: String,
}

impl Proposal {
    /// Returns the proposal without the narration.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "action": self.action,
            "ability": self.ability,
            "suggested_dc": self.suggested_dc,
            "reason": self.reason,
        })
    }
}

/// Parses a model's response. The first JSON object of the response must be a proposal,
/// whatever text surrounds the object.
pub(super) fn parse(text: &str) -> Option<Proposal> {
    let ModelProposal {
        proposal,
        narration,
    } = serde_json::from_value(find_first_object(truncate(text))?).ok()?;
    (1..=40)
        .contains(&proposal.suggested_dc)
        .then_some(Proposal {
            action: proposal.action,
            ability: proposal.ability,
            suggested_dc: proposal.suggested_dc,
            reason: proposal.reason,
            narration,
        })
}

fn truncate(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_RESPONSE_CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Returns the first JSON object in a text. Skips braces that do not start a valid object.
fn find_first_object(text: &str) -> Option<Value> {
    let mut braces = text.match_indices('{').take(MAX_BRACES);
    braces.find_map(|(start, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        values.next()?.ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const GOOD: &str = r#"{"proposal":{"action":"ability_check","ability":"DEX","suggested_dc":12,
        "reason":"It is \"slippery\" {here}"},"narration":"You slip by."}"#;

    #[test]
    fn d9_the_first_object_is_read_despite_surrounding_text() {
        let plain = parse(GOOD).unwrap();
        assert_eq!(plain.suggested_dc, 12);
        assert_eq!(plain.narration, "You slip by.");
        for text in [
            format!("```json\n{GOOD}\n```"),
            format!("Sure {{as you wish}}: {GOOD} Anything else? {{\"a\":1}}"),
        ] {
            assert_eq!(parse(&text).as_ref(), Some(&plain), "{text}");
        }
    }

    #[test]
    fn d9_invalid_proposals_are_ignored() {
        let with = |from: &str, to: &str| {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            text
        };
        for text in [
            String::new(),
            "I cannot do that.".to_owned(),
            GOOD[..GOOD.len() - 1].to_owned(),
            with("12", "0"),
            with("12", "41"),
            with("12", "45"),
            with("12", "12.5"),
            with("12", "\"12\""),
            with("\"DEX\"", "null"),
            with("\"reason\"", "\"extra\":1,\"reason\""),
            with("\"narration\"", "\"extra\":1,\"narration\""),
            with("\"narration\":\"You slip by.\"", "\"story\":\"\""),
            format!("{{\"a\":1}}{GOOD}"),
            format!("[{}]", "{\"a\":1}"),
            " ".repeat(MAX_RESPONSE_CHARS) + GOOD,
        ] {
            assert_eq!(parse(&text), None, "{text}");
        }
        let edge = " ".repeat(MAX_RESPONSE_CHARS - GOOD.len()) + GOOD;
        assert!(parse(&edge).is_some());
    }

    #[test]
    fn d9_every_response_is_parsed_quickly() {
        let began = Instant::now();
        for text in [
            "{".repeat(MAX_RESPONSE_CHARS),
            "{\"a\":".repeat(MAX_RESPONSE_CHARS / 5),
            format!(
                "{}{}",
                "{\"a\":[".repeat(60),
                "1,".repeat(MAX_RESPONSE_CHARS / 2)
            ),
        ] {
            assert_eq!(parse(&text), None);
        }
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn d9_no_text_makes_the_parser_panic(text in "[{}\\[\\]\":a-z0-9,\u{e4} ]{0,200}") {
            let _ = parse(&text);
        }
    }
}
