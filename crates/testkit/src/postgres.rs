mod relay;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;

pub use relay::PostgresRelay;

/// A real Postgres server with its data and Unix socket in a private directory, so that only the
/// test can reach it. The server stops when this value is dropped.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    directory: TempDir,
    server: Child,
}

impl Postgres {
    /// Starts a server without databases and waits until it answers. Returns `None`, with a message
    /// on standard error, if Postgres is not installed.
    ///
    /// # Panics
    /// If the server does not start; or if it is not installed and `PILLION_REQUIRE_PEERS` is `1`.
    #[must_use]
    pub fn start() -> Option<Self> {
        let programs = programs()?;
        let directory = TempDir::with_prefix("pillion-postgres-").unwrap();
        // Postgres refuses to run as root, and only its user may have access to the data.
        if let Some((uid, gid)) = other_user() {
            chown(directory.path(), Some(uid), Some(gid)).unwrap();
        }
        let made = command(&programs, "initdb", directory.path())
            .args(["--auth=trust", "--username=postgres", "--no-sync"])
            .args(["--encoding=UTF8", "--locale=C.UTF-8", "--pgdata"])
            .arg(directory.path().join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {made:?}");
        let server = spawn(&programs, directory.path());
        let postgres = Self {
            programs,
            directory,
            server,
        };
        postgres.wait();
        Some(postgres)
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    /// If the database already exists.
    #[must_use]
    pub fn database(&self, name: &str) -> String {
        let made = self.client("createdb").arg(name).output().unwrap();
        assert!(made.status.success(), "createdb: {made:?}");
        url(self.directory.path(), name)
    }

    /// Stops the server immediately, like a crash; the data stays.
    ///
    /// # Panics
    /// If the server has already stopped.
    pub fn crash(&mut self) {
        kill(self.pid(), Signal::SIGQUIT).unwrap();
        self.server.wait().unwrap();
    }

    /// Starts the server again after a [`crash`](Self::crash).
    ///
    /// # Panics
    /// If the server does not start.
    pub fn start_again(&mut self) {
        self.server = spawn(&self.programs, self.directory.path());
        self.wait();
    }

    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let mut client = self.client("psql");
            let response = client.args(["-c", "SELECT 1", "postgres"]).output();
            if response.unwrap().status.success() {
                return;
            }
            assert!(Instant::now() < deadline, "Postgres does not start");
            sleep(Duration::from_millis(50));
        }
    }

    fn client(&self, name: &str) -> Command {
        let directory = self.directory.path();
        let mut command = command(&self.programs, name, directory);
        command
            .arg("--username=postgres")
            .arg("--host")
            .arg(directory);
        command
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.server.id().cast_signed())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = kill(self.pid(), Signal::SIGQUIT);
        let _ = self.server.wait();
    }
}

fn url(socket_directory: &Path, database: &str) -> String {
    let host = socket_directory.display();
    format!("postgres://postgres@localhost/{database}?host={host}")
}

fn spawn(programs: &Path, directory: &Path) -> Child {
    let log = fs::File::create(directory.join("log")).unwrap();
    command(programs, "postgres", directory)
        .arg("-D")
        .arg(directory.join("data"))
        .arg("-k")
        .arg(directory)
        .args(["-c", "listen_addresses=", "-c", "fsync=off"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .unwrap()
}

fn command(programs: &Path, name: &str, directory: &Path) -> Command {
    let mut command = Command::new(programs.join(name));
    command.current_dir(directory);
    if let Some((uid, gid)) = other_user() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Returns the user and group to run Postgres as, if this process runs as root.
fn other_user() -> Option<(u32, u32)> {
    geteuid().is_root().then(|| {
        let mut users = ["postgres", "nobody"].into_iter();
        let user = users
            .find_map(|name| User::from_name(name).unwrap())
            .unwrap_or_else(|| panic!("There is no user to run Postgres as"));
        (user.uid.as_raw(), user.gid.as_raw())
    })
}

/// Returns the programs of the newest installed version: Debian has a directory for each version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .max();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = newest
        .map(|(_, programs)| programs)
        .into_iter()
        .chain(std::env::split_paths(&path))
        .find(|programs| programs.join("initdb").exists() && programs.join("postgres").exists());
    if found.is_none() {
        let required = std::env::var("PILLION_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "Postgres is not installed");
        crate::skip("Postgres is not installed");
    }
    found
}
