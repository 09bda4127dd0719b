use std::collections::HashMap;

use serde::Serialize;

/// Words that are read in a minute.
const PACE: usize = 230;

/// What can be counted of a text.
#[derive(Serialize)]
pub struct Facts {
    /// Characters, which are Unicode's scalar values.
    characters: usize,
    bytes: usize,
    words: usize,
    /// Of them, different ones, whatever their case.
    different_words: usize,
    lines: usize,
    sentences: usize,
    longest_word: String,
    /// The most frequent words with their counts; words of one count by the alphabet.
    most_frequent: Vec<(String, usize)>,
    reading_seconds: usize,
}

impl Facts {
    pub fn of(text: &str, top: usize) -> Self {
        let words: Vec<String> = words(text).collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for word in &words {
            *counts.entry(word).or_default() += 1;
        }
        let longest = words.iter().rev().max_by_key(|word| word.chars().count());
        let mut most_frequent: Vec<_> = counts
            .iter()
            .map(|(word, count)| ((*word).to_owned(), *count))
            .collect();
        most_frequent
            .sort_by(|(word, count), (other, others)| others.cmp(count).then(word.cmp(other)));
        let different_words = most_frequent.len();
        most_frequent.truncate(top);
        Self {
            characters: text.chars().count(),
            bytes: text.len(),
            words: words.len(),
            different_words,
            lines: text.lines().count(),
            sentences: sentences(text),
            longest_word: longest.cloned().unwrap_or_default(),
            most_frequent,
            reading_seconds: (words.len() * 60).div_ceil(PACE),
        }
    }
}

/// Runs of letters and digits, in lower case; an apostrophe or a hyphen within one belongs to it.
fn words(text: &str) -> impl Iterator<Item = String> {
    let is_inner = |character: char| matches!(character, '\'' | '’' | '-');
    text.split(move |character: char| !character.is_alphanumeric() && !is_inner(character))
        .map(move |word| word.trim_matches(is_inner).to_lowercase())
        .filter(|word| !word.is_empty())
}

/// How often a word is followed by a full stop and its kin, or by the end.
fn sentences(text: &str) -> usize {
    let is_end = |character: char| matches!(character, '.' | '!' | '?' | '…' | '。');
    text.split(is_end)
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .count()
}
