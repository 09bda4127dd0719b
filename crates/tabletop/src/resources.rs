use std::sync::Arc;

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use pillion_core::pack::{
    ChangeListener, Resource, ResourceContents, ResourceError, ResourceProvider, ResourceReader,
    ResourceTemplate, split_query,
};
use serde_json::{Value, json};

use crate::orchestrator::format_facts;
use crate::scenes::{
    Scenes, StoredMessage, parse_scene_uri, parse_transcript_uri, scene_uri, transcript_uri,
};
use crate::telemetry::{COUNTERS_URI, TabletopTelemetry};

/// Number of messages of a transcript that are returned by default.
const DEFAULT_MESSAGES: u32 = 15;
/// Maximum number of messages of a transcript that one request can return.
const MAX_MESSAGES: u32 = 200;

/// Maximum number of listed scenes.
const MAX_SCENES: u32 = 200;

/// Maximum length of a message in the list of scenes, in characters.
const MAX_EXCERPT_CHARS: usize = 80;

/// Provides the resources `transcript://scene/{id}`, `scene://{id}` and `metrics://counters`.
pub(crate) struct TableResources {
    scenes: Arc<Scenes>,
    telemetry: Arc<TabletopTelemetry>,
}

impl TableResources {
    pub(crate) fn new(scenes: Arc<Scenes>, telemetry: Arc<TabletopTelemetry>) -> Self {
        Self { scenes, telemetry }
    }

    async fn load_transcript(&self, scene: &str, limit: u32) -> Result<Value, ResourceError> {
        let messages = self.load_messages(scene, limit).await?;
        Ok(json!({"scene_id": scene, "messages": messages}))
    }

    /// Returns the state of a scene, with the facts that the prompt contains.
    async fn load_state(&self, scene: &str) -> Result<Value, ResourceError> {
        let messages = self.load_messages(scene, DEFAULT_MESSAGES).await?;
        let characters = self.scenes.list_characters().await?;
        let latest_message = messages.last();
        Ok(json!({
            "scene_id": scene,
            "messages": latest_message.map(|message| message.number),
            "last_message_at": latest_message.map(|message| &message.timestamp),
            "facts": format_facts(&messages),
            "characters": characters,
        }))
    }

    async fn load_messages(
        &self,
        scene: &str,
        limit: u32,
    ) -> Result<Vec<StoredMessage>, ResourceError> {
        let messages = self.scenes.load_last_messages(scene, limit).await?;
        if messages.is_empty() {
            return Err(ResourceError::not_found());
        }
        Ok(messages)
    }

    fn counters(&self, prefix: &str) -> Value {
        let counts = self.telemetry.counters().with_prefix(prefix);
        let members = counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), json!(count)));
        Value::Object(members.collect())
    }
}

#[async_trait]
impl ResourceProvider for TableResources {
    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = |uri: &str, name: &str, description: &str| ResourceTemplate {
            uri_template: uri.to_owned(),
            name: name.to_owned(),
            description: Some(description.to_owned()),
            mime_type: Some("application/json".to_owned()),
        };
        vec![
            template(
                "transcript://scene/{id}{?limit}",
                "transcript",
                "The last messages of a scene, oldest first. The default number of messages is 15; \
                 'limit' sets another number, at most 200",
            ),
            template(
                "scene://{id}",
                "scene",
                "The state of a scene: the facts in the prompt of the model, and the characters",
            ),
            template(
                "metrics://counters{?prefix}",
                "counters",
                "The pack's counters by name; with 'prefix', only the counters whose names begin \
                 with the prefix",
            ),
        ]
    }

    fn owns(&self, uri: &str) -> bool {
        let (uri, _) = split_query(uri);
        uri == COUNTERS_URI || parse_transcript_uri(uri).is_some() || parse_scene_uri(uri).is_some()
    }

    async fn list(&self, _reader: ResourceReader<'_>) -> Result<Vec<Resource>, ResourceError> {
        let counters = Resource::new(COUNTERS_URI, "counters");
        let mut resources = vec![
            counters
                .describe("The counters of the tabletop pack")
                .with_json_type(),
        ];
        for (scene, latest_message) in self.scenes.list_latest_scenes(MAX_SCENES).await? {
            let transcript =
                Resource::new(transcript_uri(&scene), format!("transcript of {scene}"));
            resources.push(
                transcript
                    .describe(summarize(&latest_message))
                    .with_json_type(),
            );
            let state = Resource::new(scene_uri(&scene), scene);
            resources.push(state.describe("The state of the scene").with_json_type());
        }
        Ok(resources)
    }

    async fn read(
        &self,
        uri: &str,
        _reader: ResourceReader<'_>,
    ) -> Result<ResourceContents, ResourceError> {
        let (path, query) = split_query(uri);
        let value = if path == COUNTERS_URI {
            self.counters(&find_parameter(query, "prefix").unwrap_or_default())
        } else if let Some(scene) = parse_transcript_uri(path) {
            let limit = find_parameter(query, "limit").and_then(|limit| limit.parse().ok());
            let message_limit = limit.unwrap_or(DEFAULT_MESSAGES).clamp(1, MAX_MESSAGES);
            self.load_transcript(&scene, message_limit).await?
        } else if let Some(scene) = parse_scene_uri(path) {
            self.load_state(&scene).await?
        } else {
            return Err(ResourceError::not_found());
        };
        Ok(ResourceContents::json(&value))
    }

    fn changes(&self) -> Option<ChangeListener> {
        Some(self.telemetry.changes.listen())
    }
}

/// Returns the excerpt of a scene's latest message that a list shows.
fn summarize(message: &StoredMessage) -> String {
    let text = &message.scene_message.message;
    let mut excerpt: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
    if excerpt.len() < text.len() {
        excerpt.push('\u{2026}');
    }
    let (author, timestamp) = (&message.scene_message.author, &message.timestamp);
    format!("Latest, {timestamp}: {author}: {excerpt}")
}

/// Returns the value of a parameter in the query of a URI.
fn find_parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = query?
        .split('&')
        .filter_map(|key_value| key_value.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}
