use std::fmt;

use serde_path_to_error::Segment;

/// The path of one configuration value, displayed as `mcp_servers[0].url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<Key>);

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A key of a table.
    Name(String),
    /// An index of an array.
    Index(usize),
}

impl KeyPath {
    /// Returns the steps, outermost first.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.0
    }

    /// Returns whether `above` is this path or a parent of it.
    pub(super) fn starts_with(&self, above: &Self) -> bool {
        self.0.starts_with(&above.0)
    }

    /// Returns the path extended by one step.
    pub(super) fn join(&self, key: Key) -> Self {
        self.extend(&Self(vec![key]))
    }

    /// Returns the path extended by one key name.
    pub(super) fn join_name(&self, name: &str) -> Self {
        self.join(Key::Name(name.to_owned()))
    }

    /// Returns the path extended by all steps of `below`.
    pub(super) fn extend(&self, below: &Self) -> Self {
        Self([&*self.0, &*below.0].concat())
    }

    /// Returns whether the value at this path may be a credential.
    pub(super) fn may_be_credential(&self) -> bool {
        let holds_credentials = |name: &str| {
            [
                "args",
                "authentication",
                "body",
                "env",
                "headers",
                "location",
            ]
            .contains(&name)
                || ["key", "password", "secret", "token", "url"]
                    .iter()
                    .any(|part| name.contains(part))
        };
        let mut keys = self.0.iter();
        keys.any(|key| matches!(key, Key::Name(name) if holds_credentials(name)))
    }

    /// Builds a path from key names, outermost first.
    pub(super) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter();
        Self(names.map(|name| Key::Name(name.to_owned())).collect())
    }
}

impl From<&serde_path_to_error::Path> for KeyPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        let keys = path.iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(Key::Name(key.clone())),
            Segment::Seq { index } => Some(Key::Index(*index)),
            // The name of a variant is the value itself, not a step of the path.
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        Self(keys.collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, key) in self.0.iter().enumerate() {
            match key {
                Key::Name(name) if depth == 0 => f.write_str(name)?,
                Key::Name(name) => write!(f, ".{name}")?,
                Key::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
