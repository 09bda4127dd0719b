use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::{FaultCode, WasmToolError};

const WORLD_WRITABLE_BIT: u32 = 0o002;

/// The metadata that identifies a version of a file, so that an unchanged file is not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WasmFileStamp {
    inode: u64,
    size: u64,
    modified_at: (i64, i64),
    /// The change time (`ctime`), which also changes with the mode and the owner.
    changed_at: (i64, i64),
}

/// The metadata of a component's file, and the metadata of its manifest; `None` if the component
/// has no manifest.
pub(crate) type WasmFileStamps = (WasmFileStamp, Option<WasmFileStamp>);

impl WasmFileStamp {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified_at: (metadata.mtime(), metadata.mtime_nsec()),
            changed_at: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Lists the components of a folder, by their names without `.wasm`. Ignores names that begin with
/// a dot, which mark files that are still being written.
///
/// # Errors
/// [`FaultCode::Folder`] if the folder cannot be read, or if an untrusted user can write it.
pub(crate) fn list_components(
    folder: &Path,
) -> Result<BTreeMap<String, WasmFileStamps>, WasmToolError> {
    let fault = |message: String| {
        let message = format!("{}: {message}", folder.display());
        WasmToolError::new(FaultCode::Folder, message)
    };
    let metadata = folder
        .metadata()
        .map_err(|error| fault(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(fault("not a folder".to_owned()));
    }
    check_owner(&metadata).map_err(fault)?;
    let mut components = BTreeMap::new();
    let entries = folder
        .read_dir()
        .map_err(|error| fault(error.to_string()))?;
    for entry in entries {
        let path = entry.map_err(|error| fault(error.to_string()))?.path();
        let is_component = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        let Some(name) = path.file_stem().and_then(|file_stem| file_stem.to_str()) else {
            continue;
        };
        if !is_component || name.starts_with('.') {
            continue;
        }
        // Skips a file that was removed after the folder was read.
        let Ok(component_metadata) = path.symlink_metadata() else {
            continue;
        };
        let manifest_metadata = path.with_extension("toml").symlink_metadata().ok();
        let stamps = (
            WasmFileStamp::from_metadata(&component_metadata),
            manifest_metadata.as_ref().map(WasmFileStamp::from_metadata),
        );
        components.insert(name.to_owned(), stamps);
    }
    Ok(components)
}

/// Reads a file that no untrusted user can write; returns `None` if the file does not exist.
///
/// # Errors
/// [`FaultCode::Unreadable`]; [`FaultCode::UnsafeFile`] for a symbolic link, or if an untrusted
/// user can write the file; [`FaultCode::TooLarge`] if the file exceeds `max_bytes`.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, WasmToolError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let read_error = |error: std::io::Error| {
        WasmToolError::new(FaultCode::Unreadable, format!("{name}: {error}"))
    };
    let unsafe_file_error = |message: String| {
        let message = format!("{name}: {message}");
        WasmToolError::new(FaultCode::UnsafeFile, message)
    };
    // The flags reject symbolic links, and avoid blocking on a named pipe.
    let open_flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open_result = OpenOptions::new()
        .read(true)
        .custom_flags(open_flags.bits().cast_signed())
        .open(path);
    let file: File = match open_result {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(unsafe_file_error("the file is a symbolic link".to_owned()));
        }
        Err(error) => return Err(read_error(error)),
    };
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() {
        return Err(unsafe_file_error("not a regular file".to_owned()));
    }
    check_owner(&metadata).map_err(unsafe_file_error)?;
    let mut bytes = Vec::new();
    let mut limited_file = file.take(max_bytes.saturating_add(1));
    limited_file.read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("{name}: the file is larger than {max_bytes} bytes");
        return Err(WasmToolError::new(FaultCode::TooLarge, message));
    }
    Ok(Some(bytes))
}

/// Checks that no untrusted user can have written a file. For this, the file must belong to this
/// process's user or to root, and must not be world-writable.
fn check_owner(metadata: &Metadata) -> Result<(), String> {
    let process_uid = rustix::process::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != process_uid {
        return Err(format!(
            "owned by the user id {}, which is neither root nor this process's user ({process_uid})",
            metadata.uid()
        ));
    }
    if metadata.mode() & WORLD_WRITABLE_BIT != 0 {
        return Err("writable by all users: remove this permission with chmod o-w".to_owned());
    }
    Ok(())
}
