use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::{FaultCode, WasmToolError};

const OTHERS_MAY_WRITE: u32 = 0o002;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Changes with the mode and the owner as well.
    changed: (i64, i64),
}

/// A component's file and its manifest, if it has one.
pub(crate) type Stamps = (Stamp, Option<Stamp>);

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The components of a folder, by their names without `.wasm`. Names that begin with a dot do not
/// count: files under such names are being put there.
///
/// # Errors
/// [`FaultCode::Folder`].
pub(crate) fn list(folder: &Path) -> Result<BTreeMap<String, Stamps>, WasmToolError> {
    let fault = |what: String| {
        let what = format!("{}: {what}", folder.display());
        WasmToolError::new(FaultCode::Folder, what)
    };
    let metadata = folder
        .metadata()
        .map_err(|error| fault(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(fault("it is no folder".to_owned()));
    }
    safe(&metadata).map_err(fault)?;
    let mut found = BTreeMap::new();
    let entries = folder
        .read_dir()
        .map_err(|error| fault(error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| fault(error.to_string()))?;
        let path = entry.path();
        let is_component = path
            .extension()
            .is_some_and(|extension| extension == "wasm");
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        if !is_component || name.starts_with('.') {
            continue;
        }
        // One that goes meanwhile is not there.
        let Ok(component) = path.symlink_metadata() else {
            continue;
        };
        let manifest = path.with_extension("toml").symlink_metadata().ok();
        let stamps = (Stamp::of(&component), manifest.as_ref().map(Stamp::of));
        found.insert(name.to_owned(), stamps);
    }
    Ok(found)
}

/// What is in a file that nobody else may write; none where there is no file.
///
/// # Errors
/// [`FaultCode::Unreadable`], [`FaultCode::UnsafeFile`], [`FaultCode::TooLarge`].
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, WasmToolError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unreadable = |error: std::io::Error| {
        WasmToolError::new(FaultCode::Unreadable, format!("{name}: {error}"))
    };
    let unsafe_file = |what: String| {
        let what = format!("{name}: {what}");
        WasmToolError::new(FaultCode::UnsafeFile, what)
    };
    // Neither a link that leads elsewhere, nor a pipe that nobody writes to.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file: File = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(unsafe_file("it is a symbolic link".to_owned()));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unsafe_file("it is no file".to_owned()));
    }
    safe(&metadata).map_err(unsafe_file)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(max_bytes.saturating_add(1));
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > max_bytes {
        let what = format!("{name}: it is longer than {max_bytes} bytes");
        return Err(WasmToolError::new(FaultCode::TooLarge, what));
    }
    Ok(Some(bytes))
}

/// Whether nobody can have put something there whom the sidecar need not trust: what it runs is
/// its owner's or root's, and not everybody may write it.
fn safe(metadata: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != own {
        return Err(format!(
            "it belongs to the user {}, who is neither root nor this process' ({own})",
            metadata.uid()
        ));
    }
    match metadata.mode() & OTHERS_MAY_WRITE {
        0 => Ok(()),
        _ => Err("everybody may write it: chmod o-w".to_owned()),
    }
}
