//! The entries of a registry. Anyone may have written them: each entry has limits, and an entry
//! that exceeds a limit or does not parse is skipped.

use std::collections::BTreeMap;

use pillion_core::{is_hidden, truncated};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum size of the JSON of an entry, in bytes.
const MAX_ENTRY_BYTES: usize = 64 * 1024;

/// Maximum length of a server's name, in bytes, as in the schema of the registry.
const MAX_NAME_BYTES: usize = 200;

/// Maximum length of a version, in bytes. The schema of the registry allows 255, which no entry
/// needs.
const MAX_VERSION_BYTES: usize = 100;

/// Maximum number of hidden characters of an entry. The console shows each of them as a mark that
/// is far larger than the character.
const MAX_HIDDEN_CHARS: usize = 8;

/// A version of a server in a registry, with the registry's metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryEntry {
    /// The server, as its publisher describes it.
    pub server: RegistryServer,
    /// The data that the registry itself has added.
    #[serde(
        rename = "_meta",
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    meta: EntryMetadata,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct EntryMetadata {
    #[serde(
        rename = "io.modelcontextprotocol.registry/official",
        default,
        deserialize_with = "null_as_default"
    )]
    official: OfficialMetadata,
}

/// The data that a registry adds to an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OfficialMetadata {
    /// The status of the version: `active`, `deprecated` or `deleted`.
    pub status: Option<String>,
    /// The time at which the version was published, in RFC 3339.
    pub published_at: Option<String>,
    /// The time at which the version was last changed, in RFC 3339.
    pub updated_at: Option<String>,
}

/// A server, as its publisher describes it in `server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryServer {
    /// The name: the namespace of the publisher, `/`, and the name of the server.
    pub name: String,
    /// The display name.
    #[serde(default)]
    pub title: Option<String>,
    /// The description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The version.
    pub version: String,
    /// The URL of the server's website.
    #[serde(default)]
    pub website_url: Option<String>,
    /// The repository with the server's source code.
    #[serde(default)]
    pub repository: Option<Repository>,
    /// The URLs at which the server can be reached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub remotes: Vec<RegistryRemote>,
    /// The packages that can be run as the server.
    #[serde(default, deserialize_with = "null_as_default")]
    pub packages: Vec<RegistryPackage>,
}

/// A repository with source code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repository {
    /// The URL of the repository.
    pub url: Option<String>,
}

/// A URL at which a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryRemote {
    /// The transport: `streamable-http` or `sse`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The URL, which may contain variables in braces.
    #[serde(default, deserialize_with = "null_as_default")]
    pub url: String,
    /// The headers of each request.
    #[serde(default, deserialize_with = "null_as_default")]
    pub headers: Vec<RegistryInput>,
    /// The variables of the URL.
    #[serde(default, deserialize_with = "null_as_default")]
    pub variables: BTreeMap<String, RegistryInput>,
}

/// A package that can be run as a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryPackage {
    /// The type of the package registry, such as `npm` or `pypi`.
    pub registry_type: String,
    /// The URL of the package registry.
    #[serde(default)]
    pub registry_base_url: Option<String>,
    /// The name of the package.
    pub identifier: String,
    /// The version of the package.
    #[serde(default)]
    pub version: Option<String>,
    /// The program with which the publisher suggests to run the package.
    #[serde(default)]
    pub runtime_hint: Option<String>,
    /// The transport of the running package.
    #[serde(default)]
    pub transport: Option<PackageTransport>,
    /// The arguments of the program that runs the package.
    #[serde(default, deserialize_with = "null_as_default")]
    pub runtime_arguments: Vec<RegistryInput>,
    /// The arguments of the package.
    #[serde(default, deserialize_with = "null_as_default")]
    pub package_arguments: Vec<RegistryInput>,
    /// The environment variables of the package.
    #[serde(default, deserialize_with = "null_as_default")]
    pub environment_variables: Vec<RegistryInput>,
}

/// The transport of a running package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageTransport {
    /// The transport: `stdio`, `streamable-http` or `sse`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A header, an environment variable, an argument, or a variable of one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryInput {
    /// `positional` or `named`, for an argument.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name of the header, of the environment variable or of the named argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The meaning of a positional argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_hint: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the server cannot be used without a value.
    #[serde(deserialize_with = "null_as_default")]
    pub is_required: bool,
    /// Whether the value is a secret.
    #[serde(deserialize_with = "null_as_default")]
    pub is_secret: bool,
    /// The value, which may contain variables in braces. The user cannot change it.
    #[serde(
        deserialize_with = "read_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub value: Option<String>,
    /// The value that is suggested to the user.
    #[serde(
        deserialize_with = "read_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub default: Option<String>,
    /// The values of which the user must choose one; empty if every value is allowed.
    #[serde(deserialize_with = "null_as_default")]
    pub choices: Vec<String>,
    /// The variables of `value`.
    #[serde(deserialize_with = "null_as_default")]
    pub variables: BTreeMap<String, Self>,
}

/// The part of an entry that lists of servers show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrySummary {
    /// The name of the server.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The description.
    pub description: String,
    /// The latest version.
    pub version: String,
    /// The status of the version; `active` if the registry sends no status.
    pub status: String,
    /// The transports of the remotes, each once.
    pub remotes: Vec<String>,
    /// The types of the packages, each once.
    pub packages: Vec<String>,
}

/// A list in the format of the registry's API.
#[derive(Deserialize)]
struct ListResponse<'a> {
    #[serde(borrow)]
    servers: Vec<&'a RawValue>,
    #[serde(default, deserialize_with = "null_as_default")]
    metadata: ListMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    next_cursor: Option<String>,
}

/// The entries of a list that can be used.
#[derive(Debug)]
pub(super) struct ParsedList {
    pub(super) entries: Vec<RegistryEntry>,
    /// Number of entries that were skipped.
    pub(super) skipped: usize,
    pub(super) next_cursor: Option<String>,
}

impl ParsedList {
    /// Parses a list. Skips invalid entries, and the entries after the first `max`.
    pub(super) fn parse(json: &[u8], max: usize) -> serde_json::Result<Self> {
        let response: ListResponse<'_> = serde_json::from_slice(json)?;
        let mut entries = Vec::new();
        for raw_entry in response.servers.iter().take(max) {
            entries.extend(RegistryEntry::parse(raw_entry.get()));
        }
        Ok(Self {
            skipped: response.servers.len() - entries.len(),
            entries,
            next_cursor: response.metadata.next_cursor,
        })
    }
}

impl RegistryEntry {
    /// Parses an entry. Returns `None` if the entry is invalid or exceeds a limit.
    pub(super) fn parse(json: &str) -> Option<Self> {
        if json.len() > MAX_ENTRY_BYTES {
            return None;
        }
        let entry: Self = serde_json::from_str(json).ok()?;
        let server = &entry.server;
        let is_valid = is_server_name(&server.name)
            && is_version(&server.version)
            && entry.count_hidden_chars() <= MAX_HIDDEN_CHARS;
        is_valid.then_some(entry)
    }

    /// Returns the data that the registry has added.
    #[must_use]
    pub fn official(&self) -> &OfficialMetadata {
        &self.meta.official
    }

    /// Returns the status of the version; `active` if the registry sends no status.
    #[must_use]
    pub fn status(&self) -> &str {
        self.meta.official.status.as_deref().unwrap_or("active")
    }

    /// Returns the part of the entry that lists of servers show.
    pub(super) fn to_summary(&self) -> RegistrySummary {
        let server = &self.server;
        let remotes = server.remotes.iter().map(|remote| &remote.kind);
        let packages = server.packages.iter().map(|package| &package.registry_type);
        RegistrySummary {
            name: server.name.clone(),
            title: server.title.as_deref().map(shortened),
            description: shortened(&server.description),
            version: server.version.clone(),
            status: shortened(self.status()),
            remotes: distinct(remotes),
            packages: distinct(packages),
        }
    }

    fn count_hidden_chars(&self) -> usize {
        let json = serde_json::to_string(self).unwrap_or_default();
        // In JSON, control characters are escapes of this form.
        let control_chars = json.matches("\\u00").count();
        control_chars
            + json
                .chars()
                .filter(|character| is_hidden(*character))
                .count()
    }
}

/// Returns the beginning of a text, for the list.
fn shortened(text: &str) -> String {
    const MAX_BYTES: usize = 300;
    truncated(text, MAX_BYTES).to_owned()
}

/// Returns the namespace of a server's name, which is the publisher.
#[must_use]
pub fn publisher(name: &str) -> &str {
    name.split_once('/')
        .map_or(name, |(namespace, _)| namespace)
}

/// Returns whether a text has the form of a server's name: a namespace in reverse-DNS notation, `/`
/// and a name.
pub(super) fn is_server_name(text: &str) -> bool {
    let is_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    text.len() <= MAX_NAME_BYTES
        && text.split_once('/').is_some_and(|(namespace, name)| {
            !namespace.is_empty()
                && !name.is_empty()
                && namespace.bytes().all(is_char)
                && name.bytes().all(|byte| is_char(byte) || byte == b'_')
        })
}

/// Returns whether a text can be the version of a server, and a segment of a URL's path.
pub(super) fn is_version(text: &str) -> bool {
    let has_valid_length = (1..=MAX_VERSION_BYTES).contains(&text.len());
    has_valid_length
        && !matches!(text, "." | "..")
        && !text.chars().any(|c| c.is_control() || is_hidden(c))
}

/// Returns the first few distinct texts of a list, each truncated to a maximum length.
fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    const MAX_TEXTS: usize = 3;
    const MAX_BYTES: usize = 20;
    let mut distinct_texts: Vec<String> = Vec::new();
    for text in texts {
        let beginning = truncated(text, MAX_BYTES);
        let is_new = !distinct_texts.iter().any(|known| known == beginning);
        if is_new && distinct_texts.len() < MAX_TEXTS {
            distinct_texts.push(beginning.to_owned());
        }
    }
    distinct_texts
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a text. Numbers and booleans, which some publishers write instead, become texts.
fn read_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        value @ (Value::Number(_) | Value::Bool(_)) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(D::Error::custom("expected a text")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(server: &Value) -> Option<RegistryEntry> {
        RegistryEntry::parse(&json!({ "server": server }).to_string())
    }

    #[test]
    fn invalid_entries_are_skipped_and_counted() {
        let long_text = "x".repeat(MAX_ENTRY_BYTES);
        let list = json!({
            "servers": [
                {
                    "server": {
                        "name": "io.github.ada/weather", "version": "1.0.0",
                        "description": "Weather",
                        "packages": null, "repository": {}, "unknown": [1],
                        "remotes": [{"type": "sse", "url": "https://a.example/", "headers": null}],
                    },
                    "_meta": {
                        "io.modelcontextprotocol.registry/official": {"status": "deprecated"},
                    },
                },
                {"server": {"name": "no-namespace", "version": "1"}},
                {"server": {"name": "a/../b", "version": "1"}},
                {"server": {"name": "a/b", "version": ".."}},
                {"server": {"name": "a/b", "version": 5}},
                {"server": {"name": "a/b", "version": "1", "title": "\u{202e}".repeat(9)}},
                {"server": {"name": "a/b", "version": "1", "title": "\u{1}".repeat(9)}},
                {"server": {"name": "a/b", "version": "1", "title": long_text}},
                "text",
                null,
            ],
            "metadata": {"nextCursor": "next", "count": 10},
        });
        let parsed = ParsedList::parse(list.to_string().as_bytes(), 20).unwrap();
        assert_eq!((parsed.entries.len(), parsed.skipped), (1, 9));
        assert_eq!(parsed.next_cursor.as_deref(), Some("next"));
        let summary = parsed.entries[0].to_summary();
        assert_eq!(summary.status, "deprecated");
        assert_eq!(summary.remotes, ["sse"]);
        assert!(ParsedList::parse(b"{}", 20).is_err());
        let first_entries = ParsedList::parse(list.to_string().as_bytes(), 0).unwrap();
        assert_eq!(first_entries.skipped, 10);
    }

    #[test]
    fn an_entry_is_unchanged_by_the_mirror() {
        let written = entry(&json!({
            "name": "a/b", "version": "1",
            "packages": [{
                "registryType": "npm", "identifier": "c", "version": "1.2.3",
                "packageArguments": [{"type": "named", "name": "--port", "default": 80}],
                "environmentVariables": [{"name": "KEY", "isSecret": true, "choices": null}],
            }],
        }))
        .unwrap();
        let argument = &written.server.packages[0].package_arguments[0];
        assert_eq!(argument.default.as_deref(), Some("80"));
        let json = serde_json::to_string(&written).unwrap();
        assert_eq!(RegistryEntry::parse(&json).unwrap(), written);
    }

    #[test]
    fn the_publisher_is_the_namespace() {
        assert_eq!(publisher("io.github.ada/weather"), "io.github.ada");
        assert!(is_server_name("io.github.ada/we_ather.x-1"));
        for name in [
            "",
            "/",
            "a/",
            "/b",
            "a/b/c",
            "a b/c",
            "a/b\u{202e}",
            "a_b/c",
        ] {
            assert!(!is_server_name(name), "{name}");
        }
    }
}
