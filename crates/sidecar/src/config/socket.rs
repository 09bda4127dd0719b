use std::path::PathBuf;

use serde::Deserialize;

use super::Group;

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
}
