use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the socket.
pub const SOCKET_VARIABLE: &str = "PILLION_SOCKET";

/// Returns the default path of the sidecar's socket, for both the sidecar and its clients. The
/// first that applies:
///
/// 1. `$PILLION_SOCKET`,
/// 2. `/run/pillion/pillion.sock` for root,
/// 3. `$XDG_RUNTIME_DIR/pillion/pillion.sock`,
/// 4. `/run/pillion/pillion.sock`.
///
/// For root, `$XDG_RUNTIME_DIR` is ignored, because a root shell has this variable and a service
/// that runs as root does not, but the shell and the service must find the same socket.
#[must_use]
pub fn default_socket_path() -> PathBuf {
    resolve_path(
        std::env::var_os(SOCKET_VARIABLE),
        std::env::var_os("XDG_RUNTIME_DIR"),
        nix::unistd::geteuid().is_root(),
    )
}

fn resolve_path(socket: Option<OsString>, runtime_dir: Option<OsString>, is_root: bool) -> PathBuf {
    if let Some(path) = socket.filter(|path| !path.is_empty()) {
        return path.into();
    }
    let user_runtime_dir = runtime_dir.filter(|dir| !is_root && Path::new(dir).is_absolute());
    let directory = user_runtime_dir.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    directory.join("pillion/pillion.sock")
}

/// Returns whether `path` exists and is not a socket. No process can listen on such a path.
///
/// ```
/// use std::path::Path;
/// assert!(pillion_client::is_non_socket_file(Path::new("/")));
/// assert!(!pillion_client::is_non_socket_file(Path::new("/nowhere/pillion.sock")));
/// ```
#[must_use]
pub fn is_non_socket_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_paths_are_tried_in_order() {
        let some = |text: &str| Some(OsString::from(text));
        let shared = Path::new("/run/pillion/pillion.sock");
        let own = Path::new("/run/user/1000/pillion/pillion.sock");
        let path = resolve_path(some("/a/b"), some("/run/user/0"), true);
        assert_eq!(path, Path::new("/a/b"));
        assert_eq!(resolve_path(some(""), some("/run/user/0"), true), shared);
        assert_eq!(resolve_path(None, some("/run/user/1000"), false), own);
        assert_eq!(resolve_path(None, some(""), false), shared);
        assert_eq!(resolve_path(None, None, false), shared);
    }
}
