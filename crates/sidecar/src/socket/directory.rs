use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::{Result, SocketError};
use pillion_config::SocketMode;

const WORLD_WRITABLE: u32 = 0o002;
const WORLD_EXECUTABLE: u32 = 0o001;
const GROUP_EXECUTABLE: u32 = 0o010;
/// With this mode bit, only a file's owner may remove the file, as in `/tmp`.
const STICKY_BIT: u32 = 0o1000;

/// Creates the directory of `socket` if it is missing. An existing directory is checked and never
/// changed, because it may contain other files.
pub(super) fn prepare(socket: &Path, group: Option<u32>, mode: Option<SocketMode>) -> Result<()> {
    if socket.file_name().is_none() {
        return Err(SocketError::NoFileName(socket.to_owned()));
    }
    let directory = match socket.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    match std::fs::metadata(&directory) {
        Ok(metadata) => check(directory, &metadata, group),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_directory(&directory, group, mode)
                .map_err(|source| SocketError::Directory { directory, source })
        }
        Err(source) => Err(SocketError::Directory { directory, source }),
    }
}

fn create_directory(
    directory: &Path,
    group: Option<u32>,
    mode: Option<SocketMode>,
) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)?;
    let is_open = mode.is_some_and(|mode| mode.bits() & WORLD_WRITABLE != 0);
    if is_open {
        return std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755));
    }
    if let Some(group) = group {
        chown(directory, None, Some(group))?;
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o750))?;
    }
    Ok(())
}

fn check(directory: PathBuf, metadata: &Metadata, group: Option<u32>) -> Result<()> {
    let mode = metadata.mode();
    if !metadata.is_dir() {
        return Err(SocketError::NotADirectory(directory));
    }
    if mode & WORLD_WRITABLE != 0 && mode & STICKY_BIT == 0 {
        return Err(SocketError::DirectoryWritableByAll(directory));
    }
    let Some(group) = group else { return Ok(()) };
    let may_enter =
        mode & WORLD_EXECUTABLE != 0 || (metadata.gid() == group && mode & GROUP_EXECUTABLE != 0);
    if may_enter {
        Ok(())
    } else {
        Err(SocketError::GroupCannotEnter { directory, group })
    }
}
