use super::SocketError;
use pillion_config::Group;

/// Returns the group's id.
pub(super) fn resolve(group: &Group) -> Result<u32, SocketError> {
    match group {
        Group::Id(id) => Ok(*id),
        Group::Name(name) => match nix::unistd::Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            Ok(None) => Err(SocketError::UnknownGroup(name.clone())),
            Err(errno) => Err(SocketError::GroupLookup {
                name: name.clone(),
                source: errno.into(),
            }),
        },
    }
}
