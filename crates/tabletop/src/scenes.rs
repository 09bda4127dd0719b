use std::sync::Arc;

use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pillion_core::store::{LogBounds, LogEntry, PackStore, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::telling::Telling;
use crate::{Tabletop, TabletopOptions};

/// What a scene's log is called in the store, before its id.
const LOGS: &str = "scenes/";

/// What a character's document is called, before the name.
const CHARACTERS: &str = "characters/";

const TRANSCRIPT: &str = "transcript://scene/";
const SCENE: &str = "scene://";

/// What stands in a URI as it is (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The scenes at the table and what was said in them, and the characters.
pub(crate) struct Scenes {
    store: Arc<dyn PackStore>,
    telling: Arc<Telling>,
    room: RwLock<Room>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    max_messages: u32,
    max_scenes: u32,
    max_characters: u32,
}

impl Room {
    pub(crate) fn of(options: &TabletopOptions) -> Self {
        Self {
            max_messages: options.max_messages,
            max_scenes: options.max_scenes,
            max_characters: options.max_characters,
        }
    }
}

/// Something that somebody has said in a scene.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) author: String,
    pub(crate) message: String,
    /// Said by a player, and not by a character.
    pub(crate) ooc: bool,
}

/// The same in its place.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Message {
    pub(crate) message_id: String,
    #[serde(flatten)]
    pub(crate) line: Line,
    pub(crate) timestamp: String,
    #[serde(skip)]
    pub(crate) number: u64,
}

impl Scenes {
    pub(crate) fn new(store: Arc<dyn PackStore>, telling: Arc<Telling>, room: Room) -> Self {
        let room = RwLock::new(room);
        Self {
            store,
            telling,
            room,
        }
    }

    /// From now on there is so much room. What is there already stays until its scene goes on.
    pub(crate) fn reconfigure(&self, room: Room) {
        *self.room.write() = room;
    }

    /// Writes a line into a scene's transcript; with the first one a scene begins.
    pub(crate) async fn append(&self, scene: &str, line: Line) -> Result<Message, StoreError> {
        let (log, json) = (log_of(scene), written(&line)?);
        let room = *self.room.read();
        let bounds = LogBounds {
            most_entries: Some(room.max_messages),
            most_logs: Some(room.max_scenes),
        };
        let now = Timestamp::now();
        let entry = self
            .store
            .append_entry(Tabletop::NAME, &log, &json, now, bounds);
        let entry = entry.await;
        let entry = entry.map_err(|error| full(error, "scenes", room.max_scenes))?;
        let message = read(&entry)?;
        let changes = &self.telling.changes;
        changes.updated(transcript_uri(scene));
        changes.updated(scene_uri(scene));
        if message.number == 1 {
            changes.list_changed();
        }
        Ok(message)
    }

    /// The last messages of a scene, oldest first; none where there is no such scene.
    pub(crate) async fn last(&self, scene: &str, limit: u32) -> Result<Vec<Message>, StoreError> {
        let log = log_of(scene);
        let entries = self.store.last_entries(Tabletop::NAME, &log, None, limit);
        entries.await?.iter().map(read).collect()
    }

    /// The scenes in which something was said last, each with that.
    pub(crate) async fn latest(&self, limit: u32) -> Result<Vec<(String, Message)>, StoreError> {
        let logs = self.store.logs(Tabletop::NAME, LOGS, limit).await?;
        let scenes = logs.into_iter().map(|log| {
            let scene = log.log.strip_prefix(LOGS).unwrap_or_default().to_owned();
            Ok((scene, read(&log.latest)?))
        });
        scenes.collect()
    }

    /// The names of the characters, in their order in the store.
    pub(crate) async fn characters(&self) -> Result<Vec<String>, StoreError> {
        let documents =
            self.store
                .documents(Tabletop::NAME, CHARACTERS, None, crate::MOST_CHARACTERS);
        let names = documents.await?.into_iter();
        let names = names.filter_map(|(name, _)| Some(name.strip_prefix(CHARACTERS)?.to_owned()));
        Ok(names.collect())
    }

    /// Puts a character at the table; whether it is new there.
    pub(crate) async fn save_character(
        &self,
        name: &str,
        description: &str,
    ) -> Result<bool, StoreError> {
        let document = format!("{CHARACTERS}{name}");
        let json = serde_json::json!({"name": name, "description": description}).to_string();
        let most = self.room.read().max_characters;
        let saved = self
            .store
            .put_document(Tabletop::NAME, &document, &json, Some(most));
        let saved = saved.await;
        saved.map_err(|error| full(error, "characters", most))
    }
}

/// Says what there is no room for, if that is the error.
fn full(error: StoreError, what: &str, most: u32) -> StoreError {
    match error.is_full() {
        true => StoreError::full(format!(
            "There are {most} {what} already, as many as tabletop.max_{what} lets there be"
        )),
        false => error,
    }
}

fn log_of(scene: &str) -> String {
    format!("{LOGS}{scene}")
}

fn written(line: &Line) -> Result<String, StoreError> {
    serde_json::to_string(line)
        .map_err(|error| StoreError::invalid("a line of a transcript").with_source(error))
}

fn read(entry: &LogEntry) -> Result<Message, StoreError> {
    let line = serde_json::from_str(&entry.json).map_err(|error| {
        StoreError::corrupt("a line of a transcript is unreadable").with_source(error)
    })?;
    Ok(Message {
        message_id: entry.number.to_string(),
        line,
        timestamp: moment(entry.at),
        number: entry.number,
    })
}

pub(crate) fn transcript_uri(scene: &str) -> String {
    format!("{TRANSCRIPT}{}", utf8_percent_encode(scene, UNRESERVED))
}

pub(crate) fn scene_uri(scene: &str) -> String {
    format!("{SCENE}{}", utf8_percent_encode(scene, UNRESERVED))
}

/// The scene whose transcript, or whose state, a URI without query is.
pub(crate) fn scene_of_transcript(uri: &str) -> Option<String> {
    id(uri.strip_prefix(TRANSCRIPT)?)
}

pub(crate) fn scene_of_state(uri: &str) -> Option<String> {
    id(uri.strip_prefix(SCENE)?)
}

fn id(encoded: &str) -> Option<String> {
    let id = percent_decode_str(encoded).decode_utf8().ok()?;
    (!id.is_empty()).then(|| id.into_owned())
}

/// RFC 3339, in UTC, with milliseconds.
pub(crate) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_millis()).map_or_else(
        |_| at.as_millis().to_string(),
        |moment| format!("{moment:.3}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_any_scene_has_uris_of_its_own() {
        for scene in ["cave", "a/b?c#d", "H\u{f6}hle 7", "%41", "\u{1f409}"] {
            let (transcript, state) = (transcript_uri(scene), scene_uri(scene));
            assert_eq!(scene_of_transcript(&transcript).as_deref(), Some(scene));
            assert_eq!(scene_of_state(&state).as_deref(), Some(scene));
        }
        assert_eq!(transcript_uri("a/b"), "transcript://scene/a%2Fb");
        assert_eq!(scene_of_transcript("transcript://scene/"), None);
        assert_eq!(scene_of_state("scene://%ff"), None);
    }
}
