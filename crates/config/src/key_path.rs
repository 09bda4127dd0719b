use std::fmt;

use serde_path_to_error::Segment;

/// The path of one configuration value, displayed as `mcp_servers[0].url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<KeyStep>);

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyStep {
    /// A key of a table.
    Name(String),
    /// An index of an array.
    Index(usize),
}

impl KeyPath {
    /// Returns the steps, outermost first.
    #[must_use]
    pub fn steps(&self) -> &[KeyStep] {
        &self.0
    }

    /// Returns whether `parent` is this path or a parent of this path.
    pub(super) fn starts_with(&self, parent: &Self) -> bool {
        self.0.starts_with(&parent.0)
    }

    /// Returns the path extended by one step.
    pub(super) fn join(&self, step: KeyStep) -> Self {
        self.extend(&Self(vec![step]))
    }

    /// Returns this path, extended by one key name.
    pub(super) fn join_name(&self, name: &str) -> Self {
        self.join(KeyStep::Name(name.to_owned()))
    }

    /// Returns the path extended by all steps of `suffix`.
    pub(super) fn extend(&self, suffix: &Self) -> Self {
        Self([&*self.0, &*suffix.0].concat())
    }

    /// Returns whether the value at this path may be a credential.
    pub(super) fn may_be_credential(&self) -> bool {
        let parts = ["key", "password", "secret", "token", "url"];
        let is_credential_key = |name: &str| match name {
            "args" | "authentication" | "body" | "env" | "headers" | "location" => true,
            _ => parts.iter().any(|part| name.contains(part)),
        };
        let mut steps = self.0.iter();
        steps.any(|step| matches!(step, KeyStep::Name(name) if is_credential_key(name)))
    }

    /// Builds a path from key names, outermost first.
    pub(super) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(
            names
                .into_iter()
                .map(str::to_owned)
                .map(KeyStep::Name)
                .collect(),
        )
    }
}

impl From<&serde_path_to_error::Path> for KeyPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(KeyStep::Name(key.clone())),
            Segment::Seq { index } => Some(KeyStep::Index(*index)),
            // The segment for an enum variant is skipped, because the name of a variant is the
            // value itself, not a step of the path.
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        Self(steps.collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                KeyStep::Name(name) if depth == 0 => f.write_str(name)?,
                KeyStep::Name(name) => write!(f, ".{name}")?,
                KeyStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
