use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Group, User};

/// `[socket]`: where to listen and who may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SocketSection {
    /// The socket's path. `PILLION__SOCKET__PATH`; the option `--socket` and the variable
    /// `PILLION_SOCKET` win over it. Default
    /// [`default_socket_path`](pillion_client::default_socket_path): `/run/pillion/pillion.sock`
    /// for root, else under `$XDG_RUNTIME_DIR`.
    pub path: Option<PathBuf>,
    /// A group, by name or number, whose members may connect: the socket then has mode 0660
    /// and a directory made for it 0750. `PILLION__SOCKET__GROUP`. Default none: 0600 and
    /// 0700, so that only the user who runs the sidecar may connect.
    pub group: Option<Group>,
    /// The socket's mode in place of that: `"0600"`, `"0660"` or, where rules say who may
    /// speak, `"0666"`; a directory made for it is then 0755. `PILLION__SOCKET__MODE`.
    /// Default none.
    pub mode: Option<SocketMode>,
    /// Users, by number, whose processes may speak to the sidecar. With any of the four
    /// `allow_` keys, everybody whom none of them names is answered with status 403, but for
    /// root and the sidecar's own user. `PILLION__SOCKET__ALLOW_UIDS`. Default none: whoever
    /// the permissions let in.
    pub allow_uids: Vec<u32>,
    /// Groups, by number: a process counts by its first group.
    /// `PILLION__SOCKET__ALLOW_GIDS`. Default none.
    pub allow_gids: Vec<u32>,
    /// Users, by name. `PILLION__SOCKET__ALLOW_USERS`. Default none.
    pub allow_users: Vec<User>,
    /// Groups, by name or number, with those whom the system lists as members when the
    /// configuration is read. `PILLION__SOCKET__ALLOW_GROUPS`. Default none.
    pub allow_groups: Vec<Group>,
}

impl SocketSection {
    /// Whether a rule says who may speak.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !(self.allow_uids.is_empty()
            && self.allow_gids.is_empty()
            && self.allow_users.is_empty()
            && self.allow_groups.is_empty())
    }

    /// What is wrong between the keys, and with which of them.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let open = self.mode == Some(SocketMode(0o666));
        (open && !self.has_rules()).then_some((
            "mode",
            "0666 lets everybody in: say who may speak with allow_users, allow_groups, \
             allow_uids or allow_gids",
        ))
    }
}

/// The mode of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(u32);

impl SocketMode {
    /// The bits.
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
            _ => Err(D::Error::custom(
                "a socket's mode is \"0600\", \"0660\" or \"0666\"",
            )),
        }
    }
}
