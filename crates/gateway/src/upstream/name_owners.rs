//! Decides which MCP server owns the name of a tool or prompt, and the name under which MCP clients
//! see a tool.

use pillion_config::McpServerSection;

/// The owners of the names of tools and prompts.
///
/// A name belongs to the configured server with the longest prefix that the name begins with. The
/// decision depends only on the configuration: a server that is unreachable, disconnected or
/// disabled keeps its names.
#[derive(Debug, Default)]
pub(super) struct NameOwners {
    /// The servers with a prefix, those with the longest prefixes first. Servers with the same
    /// prefix are in the order of the configuration, with the enabled servers first.
    owners: Vec<PrefixOwner>,
    /// The labels of the servers without a prefix, which own no names.
    labels_without_prefix: Vec<String>,
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
        let (mut owners, owners_without_prefix): (Vec<_>, Vec<_>) =
            owners.partition(|owner| !owner.prefix.is_empty());
        owners.sort_by(|left, right| {
            let length_order = right.prefix.len().cmp(&left.prefix.len());
            length_order.then_with(|| left.prefix.cmp(&right.prefix))
        });
        let labels_without_prefix = owners_without_prefix.into_iter().map(|owner| owner.label);
        Self {
            owners,
            labels_without_prefix: labels_without_prefix.collect(),
        }
    }

    /// Returns the label of the server that owns a name, or `None` if the name begins with no
    /// server's prefix.
    pub(super) fn owner(&self, name: &str) -> Option<&str> {
        let owner = self.owners_of_name(name).first()?;
        Some(&owner.label)
    }

    /// Returns whether the server with this label owns a name, alone or with others. Servers for
    /// which the configuration sets the same prefix share its names. If several servers have the
    /// same default prefix, which is derived from the label, only the first owns its names.
    pub(super) fn owns(&self, label: &str, name: &str) -> bool {
        let group = self.owners_of_name(name);
        let Some(first_owner) = group.first() else {
            return false;
        };
        let mut sharing_owners = group.iter().filter(|owner| owner.is_configured);
        first_owner.label == label
            || (first_owner.is_configured && sharing_owners.any(|owner| owner.label == label))
    }

    /// Returns whether a server may offer a tool or prompt under this name: the server owns the
    /// name, or no server owns it.
    pub(super) fn may_offer(&self, label: &str, name: &str) -> bool {
        self.owners_of_name(name).is_empty() || self.owns(label, name)
    }

    /// Returns whether the server `label` takes precedence for a name that the server `other_label`
    /// may offer as well. Of servers with the same prefix, or without a prefix, the first in the
    /// configuration takes precedence.
    pub(super) fn takes_precedence(&self, label: &str, other_label: &str, name: &str) -> bool {
        let labels: Vec<_> = match self.owners_of_name(name) {
            [] => self.labels_without_prefix.iter().collect(),
            group => group.iter().map(|owner| &owner.label).collect(),
        };
        let rank = |label: &str| labels.iter().position(|owner_label| *owner_label == label);
        match (rank(label), rank(other_label)) {
            (Some(rank), Some(other_rank)) => rank < other_rank,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Returns the servers with the longest prefix that the name begins with.
    fn owners_of_name(&self, name: &str) -> &[PrefixOwner] {
        let mut prefixes = self.owners.iter();
        let Some(start) = prefixes.position(|owner| name.starts_with(&owner.prefix)) else {
            return &[];
        };
        let rest = &self.owners[start..];
        let mut following_owners = rest.iter();
        let end = following_owners.position(|owner| owner.prefix != rest[0].prefix);
        &rest[..end.unwrap_or(rest.len())]
    }
}

#[cfg(test)]
mod tests;
