use std::sync::Arc;

use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pillion_core::store::{
    LogBounds, LogEntry, LogSummary, PackStore, PageRequest, StoreError, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::telemetry::TabletopTelemetry;
use crate::timestamp::format_timestamp;
use crate::{Tabletop, TabletopOptions};

/// The prefix of the names under which the store keeps transcripts.
const TRANSCRIPT_LOG_PREFIX: &str = "scenes/";

/// The prefix of the names under which the store keeps characters.
const CHARACTER_DOCUMENT_PREFIX: &str = "characters/";

const TRANSCRIPT_URI_PREFIX: &str = "transcript://scene/";
const SCENE_URI_PREFIX: &str = "scene://";

/// The characters that are percent-encoded in a URI: all except `unreserved` in RFC 3986.
const ESCAPED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The scenes with their transcripts, and the characters, in the store.
pub(crate) struct Scenes {
    store: Arc<dyn PackStore>,
    telemetry: Arc<TabletopTelemetry>,
    limits: RwLock<SceneLimits>,
}

/// Maximum numbers of messages, scenes and characters that the store keeps for the pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SceneLimits {
    max_messages: u32,
    pub(crate) max_scenes: u32,
    pub(crate) max_characters: u32,
}

impl SceneLimits {
    pub(crate) fn from_options(options: &TabletopOptions) -> Self {
        Self {
            max_messages: options.max_messages,
            max_scenes: options.max_scenes,
            max_characters: options.max_characters,
        }
    }
}

/// A message for a scene, before it has an ID and a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SceneMessage {
    pub(crate) author: String,
    pub(crate) message: String,
    /// Whether the message is out of character, which means that it is from the player, not from
    /// the character.
    pub(crate) ooc: bool,
}

/// A message of a transcript, with its ID and time.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StoredMessage {
    pub(crate) message_id: String,
    #[serde(flatten)]
    pub(crate) scene_message: SceneMessage,
    pub(crate) timestamp: String,
    #[serde(skip)]
    pub(crate) number: u64,
}

impl Scenes {
    pub(crate) fn new(
        store: Arc<dyn PackStore>,
        telemetry: Arc<TabletopTelemetry>,
        limits: SceneLimits,
    ) -> Self {
        let limits = RwLock::new(limits);
        Self {
            store,
            telemetry,
            limits,
        }
    }

    /// Replaces the limits. A transcript that exceeds its new limit is not shortened until its
    /// scene gets a new message.
    pub(crate) fn reconfigure(&self, limits: SceneLimits) {
        *self.limits.write() = limits;
    }

    /// Returns the current limits of messages, scenes and characters.
    pub(crate) fn limits(&self) -> SceneLimits {
        *self.limits.read()
    }

    /// Adds a message to a scene's transcript. The first message creates the scene.
    pub(crate) async fn append(
        &self,
        scene: &str,
        scene_message: SceneMessage,
    ) -> Result<StoredMessage, StoreError> {
        let (transcript_log, json) = (log_name(scene), encode_message(&scene_message)?);
        let limits = self.limits();
        let bounds = LogBounds {
            max_entries: Some(limits.max_messages),
            max_logs: Some(limits.max_scenes),
        };
        let timestamp = Timestamp::now();
        let append_future =
            self.store
                .append_entry(Tabletop::NAME, &transcript_log, &json, timestamp, bounds);
        let entry = append_future
            .await
            .map_err(|error| add_limit_to_error(error, "scenes", limits.max_scenes))?;
        let message = decode_entry(&entry)?;
        self.notify_changed(scene, message.number == 1);
        Ok(message)
    }

    /// Removes a scene with its transcript, and returns whether the scene existed. Does not notify
    /// listeners.
    pub(crate) async fn remove(&self, scene: &str) -> Result<bool, StoreError> {
        self.store
            .remove_log(Tabletop::NAME, &log_name(scene))
            .await
    }

    /// Notifies listeners that a scene has changed, or was created or removed.
    pub(crate) fn notify_changed(&self, scene: &str, is_list_changed: bool) {
        let changes = &self.telemetry.changes;
        changes.notify_updated(transcript_uri(scene));
        changes.notify_updated(scene_uri(scene));
        if is_list_changed {
            changes.notify_list_changed();
        }
    }

    /// Returns the last messages of a scene, oldest first; empty if the scene does not exist.
    pub(crate) async fn load_last_messages(
        &self,
        scene: &str,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let transcript_log = log_name(scene);
        let entries = self
            .store
            .last_entries(Tabletop::NAME, &transcript_log, None, limit);
        entries.await?.iter().map(decode_entry).collect()
    }

    /// Returns the most recently active scenes with their latest messages.
    pub(crate) async fn list_latest_scenes(
        &self,
        limit: u32,
    ) -> Result<Vec<(String, StoredMessage)>, StoreError> {
        let logs = self
            .store
            .logs(Tabletop::NAME, TRANSCRIPT_LOG_PREFIX, limit)
            .await?;
        logs.iter()
            .map(|log| Ok((scene_name(log), decode_entry(&log.latest)?)))
            .collect()
    }

    /// Returns the scenes whose names follow `after_name`, ordered by name, each with the latest
    /// entry of its transcript, which may be unreadable.
    pub(crate) async fn list_scenes_by_name(
        &self,
        after_name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, LogEntry)>, StoreError> {
        let after_log = after_name.map(log_name);
        let logs = self
            .store
            .logs_by_name(
                Tabletop::NAME,
                TRANSCRIPT_LOG_PREFIX,
                after_log.as_deref(),
                limit,
            )
            .await?;
        Ok(logs
            .into_iter()
            .map(|log| (scene_name(&log), log.latest))
            .collect())
    }

    /// Returns the number of scenes.
    pub(crate) async fn count(&self) -> Result<u64, StoreError> {
        self.store
            .count_logs(Tabletop::NAME, TRANSCRIPT_LOG_PREFIX)
            .await
    }

    /// Returns the names of the characters, in the order of the store.
    pub(crate) async fn list_characters(&self) -> Result<Vec<String>, StoreError> {
        let characters = self
            .list_characters_by_name(None, crate::MAX_CHARACTERS)
            .await?;
        Ok(characters.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the characters whose names follow `after_name`, ordered by name, each with its
    /// document.
    pub(crate) async fn list_characters_by_name(
        &self,
        after_name: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let after_document = after_name.map(document_name);
        let documents = self
            .store
            .documents(
                Tabletop::NAME,
                CHARACTER_DOCUMENT_PREFIX,
                after_document.as_deref(),
                limit,
            )
            .await?;
        Ok(documents
            .into_iter()
            .filter_map(|(name, json)| {
                Some((
                    name.strip_prefix(CHARACTER_DOCUMENT_PREFIX)?.to_owned(),
                    json,
                ))
            })
            .collect())
    }

    /// Returns the number of characters.
    pub(crate) async fn count_characters(&self) -> Result<u64, StoreError> {
        self.store
            .count_documents(Tabletop::NAME, CHARACTER_DOCUMENT_PREFIX)
            .await
    }

    /// Stores a character, and returns whether it is new.
    pub(crate) async fn save_character(&self, name: &str, text: &str) -> Result<bool, StoreError> {
        let document = document_name(name);
        let json = json!({"name": name, "description": text}).to_string();
        let max_characters = self.limits().max_characters;
        let is_new = self
            .store
            .put_document(Tabletop::NAME, &document, &json, Some(max_characters))
            .await
            .map_err(|error| add_limit_to_error(error, "characters", max_characters))?;
        if is_new {
            self.notify_characters_changed().await;
        }
        Ok(is_new)
    }

    /// Removes a character, and returns whether the character existed.
    pub(crate) async fn remove_character(&self, name: &str) -> Result<bool, StoreError> {
        let document = document_name(name);
        let is_removed = self
            .store
            .remove_document(Tabletop::NAME, &document)
            .await?;
        if is_removed {
            self.notify_characters_changed().await;
        }
        Ok(is_removed)
    }

    /// Notifies listeners that the characters have changed. The characters are part of the state of
    /// every scene.
    async fn notify_characters_changed(&self) {
        let changes = &self.telemetry.changes;
        if !changes.has_listeners() {
            return;
        }
        let mut after_name = None;
        loop {
            let page_result = self
                .list_scenes_by_name(after_name.as_deref(), PageRequest::MAX_LIMIT)
                .await;
            let scenes = match page_result {
                Ok(scenes) => scenes,
                Err(error) => {
                    tracing::warn!(%error, "Cannot notify subscribers of a changed character");
                    return;
                }
            };
            let Some((last_scene, _)) = scenes.last() else {
                return;
            };
            after_name = Some(last_scene.clone());
            for (scene, _) in &scenes {
                changes.notify_updated(scene_uri(scene));
            }
        }
    }
}

/// Adds the value of the exceeded limit to the message of a store error.
fn add_limit_to_error(error: StoreError, kind: &str, max: u32) -> StoreError {
    if !error.is_full() {
        return error;
    }
    StoreError::full(format!(
        "The limit of {max} {kind} (tabletop.max_{kind}) is reached"
    ))
}

fn log_name(scene: &str) -> String {
    format!("{TRANSCRIPT_LOG_PREFIX}{scene}")
}

fn document_name(character: &str) -> String {
    format!("{CHARACTER_DOCUMENT_PREFIX}{character}")
}

/// Returns the name of the scene whose transcript is `log`.
fn scene_name(log: &LogSummary) -> String {
    log.log
        .strip_prefix(TRANSCRIPT_LOG_PREFIX)
        .unwrap_or_default()
        .to_owned()
}

fn encode_message(message: &SceneMessage) -> Result<String, StoreError> {
    serde_json::to_string(message).map_err(|error| {
        StoreError::invalid("a message of a transcript cannot be encoded as JSON")
            .with_source(error)
    })
}

fn decode_entry(entry: &LogEntry) -> Result<StoredMessage, StoreError> {
    let scene_message = serde_json::from_str(&entry.json).map_err(|error| {
        let message = format!("message {} of a transcript is unreadable", entry.number);
        StoreError::corrupt(message).with_source(error)
    })?;
    Ok(StoredMessage {
        message_id: entry.number.to_string(),
        scene_message,
        timestamp: format_timestamp(entry.added_at),
        number: entry.number,
    })
}

pub(crate) fn transcript_uri(scene: &str) -> String {
    format!(
        "{TRANSCRIPT_URI_PREFIX}{}",
        utf8_percent_encode(scene, ESCAPED_CHARACTERS)
    )
}

pub(crate) fn scene_uri(scene: &str) -> String {
    format!(
        "{SCENE_URI_PREFIX}{}",
        utf8_percent_encode(scene, ESCAPED_CHARACTERS)
    )
}

/// Returns the scene of a transcript URI without query; `None` for another URI.
pub(crate) fn parse_transcript_uri(uri: &str) -> Option<String> {
    decode_id(uri.strip_prefix(TRANSCRIPT_URI_PREFIX)?)
}

/// Returns the scene of a state URI without query; `None` for another URI.
pub(crate) fn parse_scene_uri(uri: &str) -> Option<String> {
    decode_id(uri.strip_prefix(SCENE_URI_PREFIX)?)
}

fn decode_id(encoded_id: &str) -> Option<String> {
    let id = percent_decode_str(encoded_id).decode_utf8().ok()?;
    (!id.is_empty()).then(|| id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_every_scene_has_its_own_uris() {
        for scene in ["cave", "a/b?c#d", "H\u{f6}hle 7", "%41", "\u{1f409}"] {
            let (transcript, state) = (transcript_uri(scene), scene_uri(scene));
            assert_eq!(parse_transcript_uri(&transcript).as_deref(), Some(scene));
            assert_eq!(parse_scene_uri(&state).as_deref(), Some(scene));
        }
        assert_eq!(transcript_uri("a/b"), "transcript://scene/a%2Fb");
        assert_eq!(parse_transcript_uri("transcript://scene/"), None);
        assert_eq!(parse_scene_uri("scene://%ff"), None);
    }
}
