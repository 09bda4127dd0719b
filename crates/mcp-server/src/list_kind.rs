use pillion_mcp_client::EntryKind;

/// The kind of a server's list, other than its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    /// The member of the result that contains the list.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the kind of the list's entries.
    pub(super) fn entry_kind(self) -> EntryKind {
        match self {
            Self::Prompts => EntryKind::Prompt,
            Self::Resources => EntryKind::Resource,
            Self::Templates => EntryKind::ResourceTemplate,
        }
    }
}
