use std::collections::HashSet;

use super::proposal::Proposal;
use crate::check::Ability;

/// Phrases that neither the reason nor the narration may contain, in lower case, because the model
/// must not change the game state.
const FORBIDDEN_PHRASES: [&str; 14] = [
    "change hp",
    "set hp",
    "reduce hp",
    "increase hp",
    "heal hp",
    "grant hp",
    "deal damage",
    "apply damage",
    "modify inventory",
    "add to inventory",
    "remove from inventory",
    "give item",
    "take item",
    "transfer item",
];

/// Words that are not names even if capitalized.
const CAPITALIZED_NON_NAMES: [&str; 28] = [
    "you",
    "your",
    "yours",
    "yourself",
    "she",
    "her",
    "hers",
    "herself",
    "his",
    "him",
    "himself",
    "they",
    "them",
    "their",
    "theirs",
    "themselves",
    "its",
    "itself",
    "our",
    "ours",
    "ourselves",
    "mine",
    "myself",
    "who",
    "whom",
    "whose",
    "this",
    "that",
];

/// Checks a model's proposal against the rules in order. Returns the proposed ability, or the
/// reason for the rejection.
pub(super) fn check_proposal(
    proposal: &Proposal,
    allowed_actors: &[String],
) -> Result<Ability, &'static str> {
    if proposal.action != "ability_check" {
        return Err("Unsupported action");
    }
    let ability = Ability::from_exact(&proposal.ability).ok_or("Unknown ability")?;
    if !(5..=30).contains(&proposal.suggested_dc) {
        return Err("DC out of acceptable range");
    }
    if proposal.reason.trim().is_empty() {
        return Err("Missing reason");
    }
    if [&proposal.reason, &proposal.narration]
        .into_iter()
        .any(|text| is_unsafe(text))
    {
        return Err("unsafe_verb");
    }
    if !allowed_actors.is_empty() && has_unknown_actor(&proposal.narration, allowed_actors) {
        return Err("unknown_actor");
    }
    Ok(ability)
}

/// Returns whether a text contains a forbidden phrase, regardless of white space.
fn is_unsafe(text: &str) -> bool {
    let lowercase_text = text.to_lowercase();
    let words: Vec<_> = lowercase_text.split_whitespace().collect();
    let normalized_text = words.join(" ");
    FORBIDDEN_PHRASES
        .iter()
        .any(|phrase| normalized_text.contains(phrase))
}

/// Returns whether a narration contains a name that is not part of an allowed name. The first
/// name-like word of each sentence is ignored, because sentences begin with a capital; a forbidden
/// name at the beginning of a sentence is not detected.
fn has_unknown_actor(narration: &str, allowed_names: &[String]) -> bool {
    let allowed_words: HashSet<String> = allowed_names
        .iter()
        .flat_map(|name| split_words(name).map(str::to_lowercase))
        .collect();
    let mut names = split_sentences(narration).flat_map(|sentence| {
        let sentence_names = split_words(sentence).filter(|word| is_name_like(word));
        sentence_names.skip(1)
    });
    names.any(|name| {
        let lowercase_name = name.to_lowercase();
        !CAPITALIZED_NON_NAMES.contains(&lowercase_name.as_str())
            && !allowed_words.contains(&lowercase_name)
    })
}

/// Returns whether a word matches `\b[A-Z][a-z]{2,}\b`.
fn is_name_like(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 3
        && bytes[0].is_ascii_uppercase()
        && bytes[1..].iter().all(u8::is_ascii_lowercase)
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter(|word| !word.is_empty())
}

/// Splits a text after each `.`, `!` or `?` that precedes white space.
fn split_sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .char_indices()
            .zip(rest.chars().skip(1))
            .find(|((_, mark), next_char)| {
                matches!(mark, '.' | '!' | '?') && next_char.is_whitespace()
            })
            .map_or(rest.len(), |((end, _), _)| end + 1);
        let sentence;
        (sentence, rest) = rest.split_at(end);
        Some(sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        Proposal {
            action: "ability_check".to_owned(),
            ability: "DEX".to_owned(),
            suggested_dc: 12,
            reason: "The floor is wet".to_owned(),
            narration: "You slip by.".to_owned(),
        }
    }

    fn rejection_reason(edit: impl FnOnce(&mut Proposal), actors: &[&str]) -> Option<&'static str> {
        let mut proposal = proposal();
        edit(&mut proposal);
        let actors: Vec<_> = actors.iter().map(|&actor| actor.to_owned()).collect();
        check_proposal(&proposal, &actors).err()
    }

    #[test]
    fn d9_the_gates_run_in_order() {
        let mut worst = Proposal {
            action: "attack".to_owned(),
            ability: "LCK".to_owned(),
            suggested_dc: 31,
            reason: " ".to_owned(),
            narration: "Then you deal damage to Zorg.".to_owned(),
        };
        let actors = ["Player".to_owned()];
        let rejection = |proposal: &Proposal| check_proposal(proposal, &actors).unwrap_err();
        assert_eq!(rejection(&worst), "Unsupported action");
        worst.action = "ability_check".to_owned();
        assert_eq!(rejection(&worst), "Unknown ability");
        worst.ability = "DEX".to_owned();
        assert_eq!(rejection(&worst), "DC out of acceptable range");
        worst.suggested_dc = 30;
        assert_eq!(rejection(&worst), "Missing reason");
        worst.reason = "why not".to_owned();
        assert_eq!(rejection(&worst), "unsafe_verb");
        worst.narration = "Then Bob waves to Zorg.".to_owned();
        assert_eq!(rejection(&worst), "unknown_actor");
        assert!(check_proposal(&worst, &[]).is_ok());
    }

    #[test]
    fn d9_a_dc_is_5_to_30_and_an_ability_is_matched_exactly() {
        let dc = |dc| rejection_reason(|proposal| proposal.suggested_dc = dc, &[]);
        assert_eq!((dc(5), dc(30)), (None, None));
        for bad in [1, 4, 31, 40] {
            assert_eq!(dc(bad), Some("DC out of acceptable range"));
        }
        for bad in ["LCK", "dex", "Dex", " DEX", "DEXTERITY", ""] {
            let reason = rejection_reason(|proposal| proposal.ability = bad.to_owned(), &[]);
            assert_eq!(reason, Some("Unknown ability"), "{bad}");
        }
    }

    #[test]
    fn d9_words_that_change_state_are_rejected_at_any_position() {
        let reason = |text: &str| rejection_reason(|it| it.reason = text.to_owned(), &[]);
        let narration = |text: &str| rejection_reason(|it| it.narration = text.to_owned(), &[]);
        assert_eq!(reason("change HP by 5"), Some("unsafe_verb"));
        // The test repeats the phrases, so that it fails if one is removed from
        // `FORBIDDEN_PHRASES`.
        for phrase in [
            "change HP",
            "set HP",
            "reduce HP",
            "increase HP",
            "heal HP",
            "grant HP",
            "deal damage",
            "apply damage",
            "modify inventory",
            "add to inventory",
            "remove from inventory",
            "give item",
            "take item",
            "transfer item",
        ] {
            let text = format!("So I {}.", phrase.to_uppercase());
            assert_eq!(reason(&text), Some("unsafe_verb"), "{phrase}");
            assert_eq!(narration(&text), Some("unsafe_verb"), "{phrase}");
        }
        assert_eq!(narration("You deal\n  damage"), Some("unsafe_verb"));
        assert_eq!(reason("The damage is dealt"), None);
    }

    #[test]
    fn d9_only_allowed_actors_are_named() {
        let rejection = |narration: &str, actors: &[&str]| {
            rejection_reason(|it| it.narration = narration.to_owned(), actors)
        };
        let table = ["Player", "GM"];
        assert_eq!(
            rejection("Bob hands Alice a potion.", &table),
            Some("unknown_actor")
        );
        assert_eq!(rejection("You slip by.", &table), None);
        assert_eq!(rejection("Bob hands Alice a potion.", &[]), None);
        assert_eq!(
            rejection("Zorg attacks.", &table),
            None,
            "a known weakness: it begins the sentence"
        );
        let full = ["Alice Stone", "bob"];
        assert_eq!(
            rejection("Then Bob waves. Alice and Stone nod!", &full),
            None
        );
        assert_eq!(rejection("Then They see Her and His dog.", &full), None);
        assert_eq!(
            rejection("Then it rains. Suddenly Mallory laughs", &full),
            Some("unknown_actor")
        );
        assert_eq!(rejection("Then Al and McDonald meet.", &full), None);
        assert_eq!(rejection("", &full), None);
        assert_eq!(rejection("\u{c4}rger! Ach.", &full), None);
    }
}
