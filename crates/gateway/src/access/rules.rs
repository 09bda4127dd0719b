use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use pillion_config::{SocketSection, SystemGroup, SystemUser};

/// The rules that decide, in addition to the socket's file permissions, which processes may connect
/// to the Unix socket. Root and the sidecar's own user are always allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerRules {
    /// The allowed user and group IDs; `None` if the file permissions of the socket alone decide.
    allowed_ids: Option<AllowedIds>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AllowedIds {
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
}

/// A rule that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The user does not exist.
    #[error("socket.allow_users: there is no user '{0}'")]
    UnknownUser(String),
    /// The group does not exist.
    #[error("socket.allow_groups: there is no group '{0}'")]
    UnknownGroup(String),
    /// The system's user or group database cannot be read.
    #[error("socket: cannot look up '{name}': {source}")]
    Lookup {
        /// The name of the user or group.
        name: String,
        /// Why the lookup failed.
        #[source]
        source: io::Error,
    },
}

impl PeerRules {
    /// Resolves the user and group names in the rules of the configuration. A group is resolved to
    /// its ID and its current members.
    ///
    /// # Errors
    /// [`RuleError`]: a user or group does not exist or cannot be looked up.
    pub fn resolve(socket: &SocketSection) -> Result<Self, RuleError> {
        if !socket.has_rules() {
            return Ok(Self::default());
        }
        let mut allowed_ids = AllowedIds {
            uids: socket.allow_uids.iter().flatten().copied().collect(),
            gids: socket.allow_gids.iter().flatten().copied().collect(),
        };
        // Root and the sidecar's own user are always allowed: root can read the sidecar's memory,
        // and the sidecar's own user can replace the sidecar.
        allowed_ids.uids.insert(0);
        allowed_ids.uids.insert(nix::unistd::geteuid().as_raw());
        for SystemUser(name) in socket.allow_users.iter().flatten() {
            allowed_ids.uids.insert(find_uid(name)?);
        }
        for group in socket.allow_groups.iter().flatten() {
            allowed_ids.add_group(group)?;
        }
        Ok(Self {
            allowed_ids: Some(allowed_ids),
        })
    }

    /// Returns whether a process with this user ID and primary group ID may connect.
    #[must_use]
    pub fn allows(&self, uid: u32, gid: u32) -> bool {
        let allowed_ids = self.allowed_ids.as_ref();
        allowed_ids.is_none_or(|ids| ids.uids.contains(&uid) || ids.gids.contains(&gid))
    }
}

impl AllowedIds {
    fn add_group(&mut self, group: &SystemGroup) -> Result<(), RuleError> {
        let lookup_result = match group {
            SystemGroup::Id(id) => {
                self.gids.insert(*id);
                nix::unistd::Group::from_gid((*id).into())
            }
            SystemGroup::Name(name) => nix::unistd::Group::from_name(name),
        };
        let found_group = lookup_result.map_err(|errno| RuleError::Lookup {
            name: group.to_string(),
            source: errno.into(),
        })?;
        match (found_group, group) {
            (Some(group), _) => {
                self.gids.insert(group.gid.as_raw());
                for member in &group.mem {
                    // A group member without an account is ignored.
                    if let Ok(Some(user)) = nix::unistd::User::from_name(member) {
                        self.uids.insert(user.uid.as_raw());
                    }
                }
                Ok(())
            }
            (None, SystemGroup::Id(_)) => Ok(()),
            (None, SystemGroup::Name(name)) => Err(RuleError::UnknownGroup(name.clone())),
        }
    }
}

fn find_uid(name: &str) -> Result<u32, RuleError> {
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(RuleError::UnknownUser(name.to_owned())),
        Err(errno) => Err(RuleError::Lookup {
            name: name.to_owned(),
            source: errno.into(),
        }),
    }
}

/// The peer of a connection, attached to every request on the connection as an HTTP extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A process of this host on the Unix socket, with credentials from the kernel, which cannot be
    /// forged.
    Process {
        /// The user ID of the process when it connected.
        uid: u32,
        /// The primary group ID of the process when it connected.
        gid: u32,
        /// The process ID, if the system reports it. The process may have ended since.
        pid: Option<i32>,
    },
    /// A client that is connected over TCP.
    Network {
        /// The address and port of the client.
        address: SocketAddr,
    },
}

impl Peer {
    /// Returns the kind of connection, for logs and metrics: `unix` or `tcp`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Process { .. } => "unix",
            Self::Network { .. } => "tcp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(toml: &str) -> Result<PeerRules, RuleError> {
        PeerRules::resolve(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn l3_without_rules_the_permissions_decide() {
        assert!(rules("").unwrap().allows(12_345, 12_345));
    }

    #[test]
    fn l3_a_user_without_a_rule_is_refused() {
        let own = nix::unistd::geteuid().as_raw();
        let rules = rules("allow_uids = [33]\nallow_gids = [44]\nallow_users = ['root']").unwrap();
        assert!(rules.allows(33, 1));
        assert!(rules.allows(1, 44));
        assert!(rules.allows(own, 1));
        assert!(rules.allows(0, 0));
        assert!(!rules.allows(12_345, 12_345));
    }

    #[test]
    fn l3_an_empty_list_allows_only_root_and_the_own_user() {
        let own = nix::unistd::geteuid().as_raw();
        for list in ["allow_uids", "allow_gids", "allow_users", "allow_groups"] {
            let rules = rules(&format!("{list} = []")).unwrap();
            assert!(rules.allows(0, 0) && rules.allows(own, 1), "{list}");
            assert!(!rules.allows(12_345, 12_345), "{list}");
        }
    }

    #[test]
    fn l3_an_unknown_user_name_is_an_error() {
        let error = rules("allow_users = [\"no such user\"]").unwrap_err();
        assert!(matches!(error, RuleError::UnknownUser(_)), "{error}");
        let error = rules("allow_groups = [\"no such group\"]").unwrap_err();
        assert!(matches!(error, RuleError::UnknownGroup(_)), "{error}");
    }
}
