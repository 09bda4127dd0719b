use pillion_mcp_client::EntryKind;

/// The kinds of the lists that a server has in addition to its list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ListKind {
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    /// Returns the key of the result member that contains the list.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the kind of the entries in a list of this kind.
    pub(super) fn entry_kind(self) -> EntryKind {
        match self {
            Self::Prompts => EntryKind::Prompt,
            Self::Resources => EntryKind::Resource,
            Self::Templates => EntryKind::ResourceTemplate,
        }
    }
}
