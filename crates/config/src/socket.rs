use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// `[socket]`: the Unix socket, its permissions and the users that may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SocketSection {
    /// The socket's path; at most 107 bytes. The option `--socket` and the variable
    /// `PILLION_SOCKET` override this key. Default: see [Command line](cli.md).
    pub path: Option<PathBuf>,
    /// A group, by name or number, whose members may connect. The socket then has mode 0660, and a
    /// directory created for the socket has mode 0750. Without a group, the modes are 0600 and
    /// 0700, so that only the user who runs the sidecar can connect.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub group: Option<SystemGroup>,
    /// The socket's mode: `"0600"`, `"0660"` or, if `allow_` keys restrict the users, `"0666"`,
    /// with which a directory created for the socket has mode 0755; see
    /// [Operations](../how-to/control-access-to-the-socket.md). Default: the mode that `group`
    /// implies.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub mode: Option<SocketMode>,
    /// Users, by number, whose processes may use the sidecar. If any of the four `allow_` keys is
    /// set, even to an empty list, the sidecar rejects requests of all other users, except root and
    /// the user who runs the sidecar, with status 403; otherwise every user who can open the socket
    /// may use the sidecar.
    pub allow_uids: Option<Vec<u32>>,
    /// Groups, by number, whose processes may use the sidecar. Only the primary group of a process
    /// counts.
    pub allow_gids: Option<Vec<u32>>,
    /// Users, by name, whose processes may use the sidecar.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub allow_users: Option<Vec<SystemUser>>,
    /// Groups, by name or number, whose members may use the sidecar. The members are read from the
    /// system when the configuration is loaded.
    #[cfg_attr(test, schemars(with = "Option<Vec<String>>"))]
    pub allow_groups: Option<Vec<SystemGroup>>,
}

impl SocketSection {
    /// Returns whether an `allow_` key restricts the users.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.allow_uids.is_some()
            || self.allow_gids.is_some()
            || self.allow_users.is_some()
            || self.allow_groups.is_some()
    }

    /// Returns the first key that is inconsistent with another key, and the error message.
    pub(super) fn find_fault(&self) -> Option<(&'static str, &'static str)> {
        let is_open_to_all = self.mode == Some(SocketMode(0o666));
        (is_open_to_all && !self.has_rules()).then_some((
            "mode",
            "mode 0666 allows all users: restrict access with allow_users, allow_groups, \
            allow_uids or allow_gids",
        ))
    }
}

/// The file mode of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(u32);

impl SocketMode {
    /// Returns the permission bits.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.trim_start_matches('0') {
            "600" => Ok(Self(0o600)),
            "660" => Ok(Self(0o660)),
            "666" => Ok(Self(0o666)),
            _ => Err(D::Error::custom("expected \"0600\", \"0660\" or \"0666\"")),
        }
    }
}

/// A group of the operating system, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemGroup {
    /// A group name, such as `www-data`.
    Name(String),
    /// A group ID, such as `33`.
    Id(u32),
}

impl fmt::Display for SystemGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for SystemGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GroupVisitor)
    }
}

struct GroupVisitor;

impl Visitor<'_> for GroupVisitor {
    type Value = SystemGroup;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name or id of a group")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<SystemGroup, E> {
        if name.is_empty() {
            return Err(E::invalid_value(Unexpected::Str(name), &self));
        }
        Ok(SystemGroup::Name(name.to_owned()))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<SystemGroup, E> {
        let message = || {
            format!(
                "the group id {id} is out of range: expected 0 to {}",
                u32::MAX
            )
        };
        let group_id = u32::try_from(id).map_err(|_| E::custom(message()))?;
        Ok(SystemGroup::Id(group_id))
    }
}

/// The name of a user of the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemUser(pub String);

impl<'de> Deserialize<'de> for SystemUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name.is_empty() {
            let unexpected = Unexpected::Str(&name);
            return Err(D::Error::invalid_value(unexpected, &"the name of a user"));
        }
        Ok(Self(name))
    }
}
