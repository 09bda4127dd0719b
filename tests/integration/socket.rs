mod removed_files;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Barrier;

use nix::fcntl::{Flock, FlockArg};
use pillion_config::SystemGroup;
use pillion_sidecar::socket::{Socket, SocketError};

use crate::prelude::*;

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns a group of this process, if possible not the first.
fn some_group() -> u32 {
    let groups = nix::unistd::getgroups().unwrap();
    let own = nix::unistd::getegid();
    groups
        .into_iter()
        .find(|group| *group != own)
        .unwrap_or(own)
        .as_raw()
}

#[test]
fn l3_only_its_user_can_access_the_socket() {
    let daemon = Daemon::start();
    assert_eq!(mode(&daemon.socket), 0o600);
    assert_eq!(mode(daemon.socket.parent().unwrap()), 0o700);
}

#[test]
fn l3_a_configured_group_may_connect() {
    let group = some_group();
    let daemon = Daemon::with_config(&format!("[socket]\ngroup = {group}"));
    let directory = daemon.socket.parent().unwrap();
    assert_eq!(mode(&daemon.socket), 0o660);
    assert_eq!(mode(directory), 0o750);
    for path in [&*daemon.socket, directory] {
        assert_eq!(std::fs::metadata(path).unwrap().gid(), group);
    }
}

#[tokio::test]
async fn an_existing_directory_is_checked_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    for (wide, is_fine) in [(0o755, true), (0o777, false), (0o1777, true)] {
        set_mode(directory.path(), wide);
        let bound = Socket::bind(&path, None).await;
        assert_eq!(bound.is_ok(), is_fine, "{wide:o}: {bound:?}");
        assert_eq!(mode(directory.path()), wide);
        if let Ok(socket) = bound {
            assert_eq!(mode(&path), 0o600);
            socket.into_parts().1.remove().unwrap();
        }
    }
    set_mode(directory.path(), 0o700);
    let group = SystemGroup::Id(some_group().wrapping_add(1));
    let error = Socket::bind(&path, Some(&group)).await.unwrap_err();
    assert_matches!(error, SocketError::GroupCannotEnter { .. });
    let unknown = SystemGroup::Name("no-such-group".to_owned());
    let error = Socket::bind(&path, Some(&unknown)).await.unwrap_err();
    let expected = "socket.group: there is no group 'no-such-group'";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    let old = std::fs::symlink_metadata(&path).unwrap();
    let (listener, guard) = Socket::bind(&path, None).await.unwrap().into_parts();
    assert!(tokio::net::UnixStream::connect(&path).await.is_ok());
    assert!(old.file_type() == std::fs::symlink_metadata(&path).unwrap().file_type());
    drop(listener);
    guard.remove().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_live_socket_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    // A sidecar's file, which holds the lock.
    let first = Socket::bind(&path, None).await.unwrap();
    let error = Socket::bind(&path, None).await.unwrap_err();
    assert_matches!(error, SocketError::AlreadyServed(_));
    drop(first);

    // A file of another program, without a lock.
    let other = directory.path().join("other");
    let _listener = UnixListener::bind(&other).unwrap();
    let error = Socket::bind(&other, None).await.unwrap_err();
    assert_matches!(error, SocketError::AlreadyServed(_));
}

#[test]
fn one_of_several_concurrent_starts_wins() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    for _ in 0..200 {
        // Each start finds a stale socket, and without a lock would remove the socket that another
        // start has just bound.
        drop(UnixListener::bind(&path).unwrap());
        let barrier = Arc::new(Barrier::new(4));
        let starts: Vec<_> = (0..4)
            .map(|_| {
                let (path, barrier) = (path.clone(), Arc::clone(&barrier));
                runtime.spawn(async move {
                    barrier.wait();
                    Socket::bind(&path, None).await
                })
            })
            .collect();
        let mut bound: Vec<Socket> = Vec::new();
        for start in starts {
            bound.extend(runtime.block_on(start).unwrap());
        }
        assert_eq!(bound.len(), 1);
        assert!(UnixStream::connect(&path).is_ok());
        drop(bound);
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn a_path_locked_by_another_start_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    let lock = std::fs::File::create(directory.path().join("s.lock")).unwrap();
    let other = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
    let error = Socket::bind(&path, None).await.unwrap_err();
    assert_matches!(error, SocketError::AlreadyServed(_));
    assert!(path.exists());
    drop(other);
    assert!(Socket::bind(&path, None).await.is_ok());
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    std::fs::write(&path, "precious").unwrap();
    let error = Socket::bind(&path, None).await.unwrap_err();
    assert_matches!(error, SocketError::NotASocket(_));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let link = directory.path().join("link");
    symlink(&path, &link).unwrap();
    let error = Socket::bind(&link, None).await.unwrap_err();
    assert_matches!(error, SocketError::NotASocket(_));

    // A symbolic link at the path of the lock is not followed.
    symlink(&path, directory.path().join("t.lock")).unwrap();
    let error = Socket::bind(&directory.path().join("t"), None)
        .await
        .unwrap_err();
    assert_matches!(error, SocketError::Lock { .. });
}

#[tokio::test]
async fn invalid_paths_are_rejected() {
    let long = format!("/tmp/{}", "x".repeat(103));
    let error = Socket::bind(Path::new(&long), None).await.unwrap_err();
    let expected = "the socket path is 108 bytes long, but the system allows at most 107";
    assert_starts_with!(error.to_string(), expected);
    let error = Socket::bind(Path::new("/dev/null/s"), None)
        .await
        .unwrap_err();
    assert_contains!(error.to_string(), "/dev/null");
    let error = Socket::bind(Path::new("/"), None).await.unwrap_err();
    assert_matches!(error, SocketError::NoFileName(_));
}

#[tokio::test]
async fn a_socket_that_took_its_place_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let (listener, guard) = Socket::bind(&path, None).await.unwrap().into_parts();
    // Stored under another name, so that its inode is not reused.
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(listener);
    guard.remove().unwrap();
    assert!(path.exists());
}
