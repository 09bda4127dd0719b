use std::fmt;

use axum::http::Method;

use super::Peer;

/// What somebody may do. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// Look: lists, records, status.
    Read,
    /// Call tools, through any door.
    Execute,
    /// Decide on calls that need approval.
    Approve,
    /// Change what the sidecar is made of.
    Admin,
}

impl Scope {
    /// The scope of that name: `read`, `execute`, `approve` or `admin`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Read),
            "execute" => Some(Self::Execute),
            "approve" => Some(Self::Approve),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Execute => "execute",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }

    /// What a request needs. What is not known here to be harmless needs `admin`, so that a
    /// new route is closed until it is opened.
    #[must_use]
    pub fn needed_by(method: &Method, path: &str) -> Self {
        let path = path.trim_end_matches('/');
        let calls_tools = path == "/mcp"
            || path == "/api/v1/tools/batch-execute"
            || path.starts_with("/api/v1/tools/execute/");
        if calls_tools {
            Self::Execute
        } else if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
            Self::Read
        } else if path.starts_with("/api/v1/approvals/") {
            Self::Approve
        } else {
            Self::Admin
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// On whose permission a request runs: an extension of every request. Over TCP it is the
/// token's; on the Unix socket, whose permissions let in whom they let in, it is everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The token's name, or `uid:` and the user's number.
    pub name: String,
    /// The most it allows.
    pub scope: Scope,
}

impl Grant {
    /// Whose it is, for a record of what was decided: a user of this host, or a token.
    #[must_use]
    pub fn holder(&self, peer: Option<&Peer>) -> String {
        match peer {
            Some(Peer::Network { .. }) => format!("token:{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Whether it allows what needs `scope`.
    #[must_use]
    pub fn allows(&self, scope: Scope) -> bool {
        self.scope >= scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_a_route_that_nobody_opened_needs_admin() {
        let needed = |method, path| Scope::needed_by(&method, path);
        assert_eq!(needed(Method::GET, "/api/v1/tools/"), Scope::Read);
        assert_eq!(needed(Method::GET, "/metrics"), Scope::Read);
        assert_eq!(needed(Method::POST, "/mcp/"), Scope::Execute);
        assert_eq!(needed(Method::GET, "/mcp"), Scope::Execute);
        assert_eq!(
            needed(Method::POST, "/api/v1/tools/execute/x"),
            Scope::Execute
        );
        assert_eq!(needed(Method::POST, "/api/v1/servers"), Scope::Admin);
        let approve = "/api/v1/approvals/1/approve";
        assert_eq!(needed(Method::POST, approve), Scope::Approve);
        assert_eq!(needed(Method::GET, "/api/v1/approvals/1"), Scope::Read);
        assert_eq!(needed(Method::DELETE, "/api/v1/tools/x"), Scope::Admin);
    }

    #[test]
    fn l3_a_scope_includes_those_before_it() {
        let grant = |scope| Grant {
            name: String::new(),
            scope,
        };
        assert!(grant(Scope::Admin).allows(Scope::Read));
        assert!(grant(Scope::Execute).allows(Scope::Execute));
        assert!(!grant(Scope::Execute).allows(Scope::Admin));
        assert!(!grant(Scope::Read).allows(Scope::Execute));
        assert!(!grant(Scope::Execute).allows(Scope::Approve));
        assert!(grant(Scope::Approve).allows(Scope::Execute));
    }
}
