use std::fmt;

use axum::http::Method;

use super::AllowedTools;

/// What somebody may do. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scope {
    /// Look: lists, records, status.
    Read,
    /// Call tools and read what MCP servers hold, through any door.
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
            || path == "/mcp/stdio"
            || path == "/api/v1/tools/batch-execute"
            || path.starts_with("/api/v1/tools/execute/")
            || (*method == Method::POST && path.starts_with("/v1/"));
        let chats = path == "/api/v1/chat" || path.starts_with("/api/v1/chat/");
        let reads_resource =
            path.starts_with("/api/v1/servers/") && path.ends_with("/resources/read");
        let is_of_users = path.starts_with("/api/v1/servers/") && path.contains("/credentials");
        let is_kept = path.starts_with("/api/v1/packs/");
        if is_of_users || is_kept {
            Self::Admin
        } else if calls_tools || chats || reads_resource {
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
    /// What kind of name that is.
    pub holder: Holder,
    /// The most it allows.
    pub scope: Scope,
    /// For whom it may act.
    pub users: Users,
    /// The tools that are there for it.
    pub tools: AllowedTools,
}

/// On whose behalf somebody may use what is the users' own, such as their credentials for MCP
/// servers. A request may name any user for the sake of limits and records, but for one with a
/// user of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Users {
    /// Nobody's.
    #[default]
    Nobody,
    /// This one's alone; requests name no other.
    One(String),
    /// Everybody's.
    Anybody,
}

impl Users {
    const ANYBODY: &'static str = "any-user";
    const ONE: &'static str = "user=";

    /// What a word of a token's entry says: `any-user` or `user=NAME`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word.strip_prefix(Self::ONE) {
            Some("") => None,
            Some(name) => Some(Self::One(name.to_owned())),
            None => (word == Self::ANYBODY).then_some(Self::Anybody),
        }
    }

    /// The word; none for nobody.
    #[must_use]
    pub fn word(&self) -> Option<String> {
        match self {
            Self::Nobody => None,
            Self::One(name) => Some(format!("{}{name}", Self::ONE)),
            Self::Anybody => Some(Self::ANYBODY.to_owned()),
        }
    }
}

/// Who has a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A user of this host, on the Unix socket.
    LocalUser,
    /// Whoever brings a token of the configuration.
    ConfiguredToken,
    /// Whoever brings a token of the store.
    StoredToken,
}

impl Grant {
    /// Who was let in, in a name that nobody else has: limits, kept results and records of what
    /// was decided go by it. Neither a local user nor a token of the configuration is taken for a
    /// token of the store, whatever that is called.
    #[must_use]
    pub fn principal(&self) -> String {
        match self.holder {
            Holder::LocalUser => self.name.clone(),
            Holder::ConfiguredToken => format!("token:{}", self.name),
            Holder::StoredToken => format!("stored-token:{}", self.name),
        }
    }

    /// Whether what is this user's own may be used. Who may change everything could take it
    /// anyway.
    #[must_use]
    pub fn vouches_for(&self, user: &str) -> bool {
        match &self.users {
            Users::One(own) => own == user,
            Users::Anybody => true,
            Users::Nobody => self.allows(Scope::Admin),
        }
    }

    /// Whose recorded calls alone it may see, where that is one user: the one that a token was
    /// made for.
    #[must_use]
    pub fn calls_of(&self) -> Option<&str> {
        match &self.users {
            Users::One(own) => Some(own),
            Users::Nobody | Users::Anybody => None,
        }
    }

    /// Whose approvals alone it may see, where that is one user. Who may decide sees all.
    #[must_use]
    pub fn approvals_of(&self) -> Option<&str> {
        self.calls_of().filter(|_| !self.allows(Scope::Approve))
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
        assert_eq!(needed(Method::POST, "/mcp/stdio"), Scope::Execute);
        assert_eq!(
            needed(Method::POST, "/api/v1/tools/execute/x"),
            Scope::Execute
        );
        assert_eq!(needed(Method::POST, "/v1/messages"), Scope::Execute);
        // There is no such thing, and who has a token for chats is told so.
        let count = "/v1/messages/count_tokens";
        assert_eq!(needed(Method::POST, count), Scope::Execute);
        assert_eq!(needed(Method::GET, "/v1/models/x"), Scope::Read);
        assert_eq!(needed(Method::POST, "/api/v1/servers"), Scope::Admin);
        let connect = "/api/v1/servers/far/connect";
        assert_eq!(needed(Method::POST, connect), Scope::Admin);
        let resources = "/api/v1/servers/far/resources";
        assert_eq!(needed(Method::GET, resources), Scope::Read);
        let read = "/api/v1/servers/far/resources/read/";
        assert_eq!(needed(Method::GET, read), Scope::Execute);
        let approve = "/api/v1/approvals/1/approve";
        assert_eq!(needed(Method::POST, approve), Scope::Approve);
        assert_eq!(needed(Method::GET, "/api/v1/approvals/1"), Scope::Read);
        assert_eq!(needed(Method::DELETE, "/api/v1/tools/x"), Scope::Admin);
        assert_eq!(needed(Method::GET, "/api/v1/packs/"), Scope::Read);
        let scenes = "/api/v1/packs/tabletop/scenes";
        assert_eq!(needed(Method::GET, scenes), Scope::Admin);
    }

    #[test]
    fn l1_a_token_acts_for_the_users_that_it_names() {
        let grant = |scope, word| Grant {
            name: "ci".to_owned(),
            holder: Holder::StoredToken,
            scope,
            users: Users::parse(word).unwrap_or_default(),
            tools: AllowedTools::default(),
        };
        assert!(!grant(Scope::Approve, "").vouches_for("alice"));
        assert!(grant(Scope::Admin, "").vouches_for("alice"));
        assert!(grant(Scope::Execute, "any-user").vouches_for("alice"));
        assert!(grant(Scope::Execute, "user=alice").vouches_for("alice"));
        assert!(!grant(Scope::Admin, "user=alice").vouches_for("bob"));
        assert!(!grant(Scope::Execute, "user=").vouches_for(""));
        for word in ["any-user", "user=alice", "user=any-user"] {
            assert_eq!(Users::parse(word).unwrap().word().unwrap(), word);
        }
        let whose = |scope, word| {
            let grant = grant(scope, word);
            let of = |user: Option<&str>| user.map(str::to_owned);
            (of(grant.calls_of()), of(grant.approvals_of()))
        };
        let alice = Some("alice".to_owned());
        assert_eq!(whose(Scope::Read, ""), (None, None));
        assert_eq!(whose(Scope::Read, "any-user"), (None, None));
        let hers = (alice.clone(), alice.clone());
        assert_eq!(whose(Scope::Execute, "user=alice"), hers);
        assert_eq!(whose(Scope::Approve, "user=alice"), (alice, None));
        let list = "/api/v1/servers/far/credentials/";
        assert_eq!(Scope::needed_by(&Method::GET, list), Scope::Admin);
    }

    #[test]
    fn l3_two_tokens_of_one_name_and_a_local_user_are_three() {
        let of = |name: &str, holder| {
            let name = name.to_owned();
            let scope = Scope::Read;
            let grant = Grant {
                name,
                holder,
                scope,
                users: Users::Nobody,
                tools: AllowedTools::default(),
            };
            grant.principal()
        };
        let all = [
            of("ci", Holder::ConfiguredToken),
            of("ci", Holder::StoredToken),
            of("uid:0", Holder::LocalUser),
            of("uid:0", Holder::ConfiguredToken),
            of("uid:0", Holder::StoredToken),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }

    #[test]
    fn l3_a_scope_includes_those_before_it() {
        let grant = |scope| Grant {
            name: String::new(),
            holder: Holder::LocalUser,
            scope,
            users: Users::Nobody,
            tools: AllowedTools::default(),
        };
        assert!(grant(Scope::Admin).allows(Scope::Read));
        assert!(grant(Scope::Execute).allows(Scope::Execute));
        assert!(!grant(Scope::Execute).allows(Scope::Admin));
        assert!(!grant(Scope::Read).allows(Scope::Execute));
        assert!(!grant(Scope::Execute).allows(Scope::Approve));
        assert!(grant(Scope::Approve).allows(Scope::Execute));
    }
}
