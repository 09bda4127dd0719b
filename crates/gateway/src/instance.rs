//! The identity of a sidecar in a store that several hosts may share.
//!
//! Two hosts or containers may have the same name, and their sidecars the same socket path. With
//! the same identity, each sidecar would treat the other's calls as leftovers of its own earlier
//! process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pillion_store::StoreLocation;
use uuid::Uuid;

use pillion_config::{Config, state_directory};

/// The name of the file in the state directory that contains the host's ID.
const INSTANCE_FILE: &str = "instance";

/// Returns the identity of the sidecar on `socket`. The identity stays the same after a restart.
/// With SQLite, whose file only one host uses, the identity consists of the host name and the
/// socket path. With PostgreSQL, it also contains an ID from the state directory; `store.instance`,
/// if set, replaces ID and host name.
pub(crate) fn sidecar_identity(config: &Config, socket: &Path) -> String {
    let identity = local_identity(socket);
    let Some(StoreLocation::Postgres(_)) = config.store.location else {
        return identity;
    };
    if let Some(instance) = &config.store.instance {
        return format_identity(instance, socket);
    }
    let directory = state_directory().ok_or_else(|| {
        io::Error::other(
            "cannot determine the state directory: set XDG_STATE_HOME or HOME to an absolute path",
        )
    });
    match directory.and_then(|directory| load_or_create_id(&directory)) {
        Ok(id) => format!("{id}@{identity}"),
        Err(error) => {
            tracing::warn!(
                %error,
                "Cannot store this host's instance ID in the state directory: set store.instance \
                 if another host with the same name uses the same store"
            );
            identity
        }
    }
}

/// Returns the identity of processes on this host that share a path, such as a sidecar's socket.
pub(crate) fn local_identity(path: &Path) -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format_identity(&host.to_string_lossy(), path)
}

/// Returns the identity of processes that share a path on the host with the name `host`.
fn format_identity(host: &str, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("{host}:{}", path.display())
}

/// Returns the host's ID in the state directory `directory`, and creates an ID if there is none.
fn load_or_create_id(directory: &Path) -> io::Result<Uuid> {
    let path = directory.join(INSTANCE_FILE);
    if !path.try_exists()? {
        // No permissions are set, because the umask of the process restricts the directory to its
        // user.
        fs::create_dir_all(directory)?;
        let id = Uuid::new_v4().to_string();
        let temporary_path = directory.join(format!("{INSTANCE_FILE}.{id}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&temporary_path)?;
        file.write_all(id.as_bytes())?;
        let link_result = fs::hard_link(&temporary_path, &path);
        fs::remove_file(&temporary_path)?;
        match link_result {
            // The error is ignored, because it means that another process has just created an ID,
            // which is read below.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            link_result => link_result?,
        }
    }
    let text = fs::read_to_string(&path)?;
    Uuid::try_parse(text.trim()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_a_state_directory_has_a_stable_id() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let id = load_or_create_id(&one.path().join("pillion")).unwrap();
        assert_eq!(load_or_create_id(&one.path().join("pillion")).unwrap(), id);
        let other_id = load_or_create_id(&other.path().join("pillion")).unwrap();
        assert_ne!(other_id, id);
        let left = fs::read_dir(one.path().join("pillion")).unwrap();
        assert_eq!(left.count(), 1);
        fs::write(one.path().join("pillion/instance"), "mine").unwrap();
        load_or_create_id(&one.path().join("pillion")).unwrap_err();
    }

    #[test]
    fn f4_in_postgres_the_owner_contains_the_instance_name() {
        let socket = Path::new("/run/pillion/pillion.sock");
        let of = |toml: &str| sidecar_identity(&Config::parse(toml, "test.toml").unwrap(), socket);
        let by_host = local_identity(socket);
        let in_file = "[store]\nlocation = \"/var/lib/p.db\"\ninstance = \"a\"";
        assert_eq!(of(in_file), by_host);
        let postgres = "[store]\nlocation = \"postgres://db/p\"\n";
        let [a, b] = ["a", "b"].map(|name| of(&format!("{postgres}instance = \"{name}\"")));
        assert_eq!(a, "a:/run/pillion/pillion.sock");
        assert_ne!(a, b);
    }
}
