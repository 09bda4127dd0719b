//! Decides which MCP server owns a name: the rule for tools, prompts, and the names that MCP clients
//! see.

use pillion_config::McpServerSection;

/// The owners of the names of tools and prompts.
///
/// A name belongs to the configured server with the longest prefix that the name begins with. The
/// decision depends only on the configuration: a server that is unreachable, disconnected or
/// disabled keeps its names.
#[derive(Debug, Default)]
pub(super) struct NameOwners {
    /// The servers with a prefix, those with the longest prefixes first. Of servers with one prefix,
    /// the enabled servers first, then in the order of the configuration.
    owners: Vec<PrefixOwner>,
    /// The labels of the servers without a prefix, which own no names.
    without_prefix: Vec<String>,
}

#[derive(Debug)]
struct PrefixOwner {
    prefix: String,
    label: String,
    /// Whether the configuration sets the prefix explicitly.
    is_configured: bool,
}

impl NameOwners {
    pub(super) fn new(sections: &[McpServerSection]) -> Self {
        let mut sections: Vec<_> = sections.iter().collect();
        sections.sort_by_key(|section| !section.settings.enabled);
        let owners = sections.into_iter().map(|section| PrefixOwner {
            prefix: section.tool_prefix(),
            label: section.label().to_owned(),
            is_configured: section.settings.tool_prefix.is_some(),
        });
        let (mut owners, without_prefix): (Vec<_>, Vec<_>) =
            owners.partition(|owner| !owner.prefix.is_empty());
        owners.sort_by(|one, other| {
            let by_length = other.prefix.len().cmp(&one.prefix.len());
            by_length.then_with(|| one.prefix.cmp(&other.prefix))
        });
        let without_prefix = without_prefix.into_iter().map(|owner| owner.label);
        Self {
            owners,
            without_prefix: without_prefix.collect(),
        }
    }

    /// Returns the label of the server that owns a name, or `None` if the name begins with no
    /// server's prefix.
    pub(super) fn owner(&self, name: &str) -> Option<&str> {
        self.group(name).first().map(|owner| owner.label.as_str())
    }

    /// Returns whether the server with this label owns a name, alone or with others. Servers for
    /// which the configuration sets the same prefix share its names. If several servers have the
    /// same default prefix, which is derived from the label, only the first owns its names.
    pub(super) fn owns(&self, label: &str, name: &str) -> bool {
        let group = self.group(name);
        let Some(first) = group.first() else {
            return false;
        };
        let mut sharing = group.iter().filter(|owner| owner.is_configured);
        first.label == label
            || (first.is_configured && sharing.any(|sharing| sharing.label == label))
    }

    /// Returns whether a server may offer a tool or prompt under this name: the server owns the
    /// name, or no server does.
    pub(super) fn may_offer(&self, label: &str, name: &str) -> bool {
        self.group(name).is_empty() || self.owns(label, name)
    }

    /// Returns whether the server `label` takes a name that `other` may offer as well: of servers
    /// with one prefix, or without a prefix, the first one in the configuration does.
    pub(super) fn takes_precedence(&self, label: &str, other: &str, name: &str) -> bool {
        let labels: Vec<_> = match self.group(name) {
            [] => self.without_prefix.iter().collect(),
            group => group.iter().map(|owner| &owner.label).collect(),
        };
        let rank = |label: &str| labels.iter().position(|known| *known == label);
        match (rank(label), rank(other)) {
            (Some(rank), Some(other_rank)) => rank < other_rank,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Returns the servers with the longest prefix that the name begins with.
    fn group(&self, name: &str) -> &[PrefixOwner] {
        let mut prefixes = self.owners.iter();
        let Some(start) = prefixes.position(|owner| name.starts_with(&owner.prefix)) else {
            return &[];
        };
        let rest = &self.owners[start..];
        let mut others = rest.iter();
        let end = others.position(|owner| owner.prefix != rest[0].prefix);
        &rest[..end.unwrap_or(rest.len())]
    }
}

#[cfg(test)]
mod tests;
