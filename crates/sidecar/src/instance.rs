//! What a store that several hosts share knows a sidecar by.
//!
//! Two hosts, or containers, may have one name, and their sidecars the same socket. Were they one
//! to the store, each would take the other's calls for what an earlier life of its own has left.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pillion_store::StoreLocation;
use uuid::Uuid;

use crate::config::{Config, LocationText, state_directory};

/// Where the id is, in the state directory.
const FILE: &str = "instance";

/// What the store knows the sidecar of this socket by, the same after a restart. In a file of
/// SQLite, which a host has for itself, that is the host's name and the socket; in Postgres there
/// is an id besides that the state directory keeps, or `store.instance` in the place of both.
pub(crate) fn owner(config: &Config, socket: &Path) -> String {
    let owner = owner_here(socket);
    let Some(LocationText(StoreLocation::Postgres(_))) = config.store.location else {
        return owner;
    };
    if let Some(instance) = &config.store.instance {
        return owner_at(instance, socket);
    }
    let directory = state_directory().ok_or_else(|| io::Error::other("there is none"));
    match directory.and_then(|directory| id_in(&directory)) {
        Ok(id) => format!("{id}@{owner}"),
        Err(error) => {
            tracing::warn!(
                %error,
                "The state directory cannot keep an id: set store.instance if other hosts of this name have the same store"
            );
            owner
        }
    }
}

/// What the call log knows processes by: their host, and a path that they have there, a
/// sidecar's socket say.
pub(crate) fn owner_here(path: &Path) -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    owner_at(&host.to_string_lossy(), path)
}

/// As [`owner_here`], of a host of that name.
fn owner_at(host: &str, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("{host}:{}", path.display())
}

/// The id that the directory keeps, a new one if it has none.
fn id_in(directory: &Path) -> io::Result<Uuid> {
    let path = directory.join(FILE);
    if !path.try_exists()? {
        // The process's mask leaves it to its user alone.
        fs::create_dir_all(directory)?;
        let id = Uuid::new_v4().to_string();
        let whole = directory.join(format!("{FILE}.{id}"));
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&whole)?;
        file.write_all(id.as_bytes())?;
        let linked = fs::hard_link(&whole, &path);
        fs::remove_file(&whole)?;
        match linked {
            // Another process has just made one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    let text = fs::read_to_string(&path)?;
    Uuid::try_parse(text.trim()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f4_a_state_directory_keeps_an_id_of_its_own() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let id = id_in(&one.path().join("pillion")).unwrap();
        assert_eq!(id_in(&one.path().join("pillion")).unwrap(), id);
        assert_ne!(id_in(&other.path().join("pillion")).unwrap(), id);
        let left = fs::read_dir(one.path().join("pillion")).unwrap();
        assert_eq!(left.count(), 1);
        fs::write(one.path().join("pillion/instance"), "mine").unwrap();
        id_in(&one.path().join("pillion")).unwrap_err();
    }

    #[test]
    fn f4_in_postgres_a_socket_is_not_enough_to_be_known_by() {
        let socket = Path::new("/run/pillion/pillion.sock");
        let of = |toml: &str| owner(&Config::parse(toml, "test.toml").unwrap(), socket);
        let by_host = owner_here(socket);
        assert_eq!(
            of("[store]\nlocation = \"/var/lib/p.db\"\ninstance = \"a\""),
            by_host
        );
        let postgres = "[store]\nlocation = \"postgres://db/p\"\n";
        let [a, b] = ["a", "b"].map(|name| of(&format!("{postgres}instance = \"{name}\"")));
        assert_eq!(a, "a:/run/pillion/pillion.sock");
        assert_ne!(a, b);
    }
}
