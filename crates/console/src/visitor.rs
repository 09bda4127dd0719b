//! The signed-in user of a browser, for the handlers and the templates.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use pillion_gateway::access::{AccessGrant, Scope};

use crate::error::PageError;

/// The parts of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Home,
    Approvals,
    Changes,
    Calls,
    Tools,
    Servers,
    Registry,
    Chats,
    Usage,
    Access,
    Connect,
    Settings,
}

impl Section {
    pub(crate) const ALL: [Self; 12] = [
        Self::Home,
        Self::Approvals,
        Self::Changes,
        Self::Calls,
        Self::Tools,
        Self::Servers,
        Self::Registry,
        Self::Chats,
        Self::Usage,
        Self::Access,
        Self::Connect,
        Self::Settings,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Home => "Home",
            Self::Approvals => "Approvals",
            Self::Changes => "Changes",
            Self::Calls => "Calls",
            Self::Tools => "Tools",
            Self::Servers => "Servers",
            Self::Registry => "Registry",
            Self::Chats => "Chats",
            Self::Usage => "Usage",
            Self::Access => "Access",
            Self::Connect => "Connect",
            Self::Settings => "Settings",
        }
    }

    /// Returns the scope without which a visitor does not see the section.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::Access | Self::Settings => Scope::Admin,
            Self::Chats => Scope::Execute,
            _ => Scope::Read,
        }
    }

    /// Returns the path of the section's first page, below the console.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Approvals => "approvals",
            Self::Changes => "changes",
            Self::Calls => "calls",
            Self::Tools => "tools",
            Self::Servers => "servers",
            Self::Registry => "registry",
            Self::Chats => "chats",
            Self::Usage => "usage",
            Self::Access => "access",
            Self::Connect => "connect",
            Self::Settings => "settings",
        }
    }
}

/// The signed-in user of one request. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Visitor(Arc<VisitorData>);

#[derive(Debug)]
pub(crate) struct VisitorData {
    pub(crate) grant: AccessGrant,
    /// The name of the person, if known.
    pub(crate) user: Option<String>,
    pub(crate) csrf_token: String,
    /// Whether the browser has a session of the console, which it can end. A browser whose requests
    /// an application forwards has none.
    pub(crate) has_session: bool,
    pub(crate) is_read_only: bool,
    /// The relative path from the requested page to the console, such as `../`.
    pub(crate) root: String,
    /// Number of approvals that wait for a decision.
    pub(crate) waiting_approvals: u64,
    /// Number of tools whose changed definitions wait for a decision.
    pub(crate) changed_tools: u64,
}

impl Visitor {
    pub(crate) fn new(data: VisitorData) -> Self {
        Self(Arc::new(data))
    }

    pub(crate) fn grant(&self) -> &AccessGrant {
        &self.0.grant
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.0.user.as_deref()
    }

    /// Returns the name by which the console greets the visitor.
    pub(crate) fn name(&self) -> &str {
        self.user().unwrap_or(&self.0.grant.name)
    }

    pub(crate) fn csrf_token(&self) -> &str {
        &self.0.csrf_token
    }

    pub(crate) fn has_session(&self) -> bool {
        self.0.has_session
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.0.is_read_only
    }

    pub(crate) fn root(&self) -> &str {
        &self.0.root
    }

    /// Returns the relative URL of a path below the console. Relative URLs work below any prefix that
    /// a proxy or an application adds.
    pub(crate) fn href(&self, path: &str) -> String {
        format!("{}{path}", self.0.root)
    }

    /// Returns whether the visitor may do what needs `scope`.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.0.grant.allows(scope) && (scope == Scope::Read || !self.0.is_read_only)
    }

    /// Checks that the visitor may do what needs `scope`.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), PageError> {
        match self.may(scope) {
            true => Ok(()),
            false if self.0.is_read_only => Err(PageError::ReadOnly),
            false => Err(PageError::MissingScope { scope }),
        }
    }

    /// Returns whether the visitor may see the pages of a section, even if the console is
    /// read-only.
    pub(crate) fn may_see(&self, section: Section) -> bool {
        self.0.grant.allows(section.scope())
    }

    /// Checks that the visitor may see the pages of a section.
    pub(crate) fn require_section(&self, section: Section) -> Result<(), PageError> {
        if self.may_see(section) {
            Ok(())
        } else {
            let scope = section.scope();
            Err(PageError::MissingScope { scope })
        }
    }

    /// Returns the number of entries of a section that wait for a decision.
    pub(crate) fn waiting(&self, section: Section) -> u64 {
        match section {
            Section::Approvals => self.0.waiting_approvals,
            Section::Changes => self.0.changed_tools,
            _ => 0,
        }
    }
}

/// Extracts the visitor that [`admit`](crate::admission::admit) has identified.
impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, PageError> {
        parts.extensions.get().cloned().ok_or(PageError::SignedOut)
    }
}

/// The relative path from a page to the console: `../` for each segment of the page's path after the
/// first.
pub(crate) fn root_of(path: &str) -> String {
    let segments = path.trim_start_matches('/').matches('/').count();
    match segments {
        0 => "./".to_owned(),
        _ => "../".repeat(segments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_finds_the_console_by_its_depth() {
        let roots = ["/", "/home", "/calls/1", "/servers/a/edit"].map(root_of);
        assert_eq!(roots, ["./", "./", "../", "../../"]);
    }
}
