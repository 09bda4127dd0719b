use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::UnixStream;

use super::BenchError;

/// The access token of the load generator's requests over TCP.
pub(super) const TOKEN: &str = "pillion-benchmark-token-0123456789abcdef";

/// A running `pillion serve`, killed when dropped.
pub(super) struct Gateway {
    child: Child,
    directory: TempDir,
    pub(super) port: u16,
}

impl Gateway {
    /// Starts the sidecar with the configuration `configured`, to which settings such as the
    /// sockets and the store are added.
    pub(super) async fn start(configured: &str) -> Result<Self, BenchError> {
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let root = directory.path().display();
        let configuration = format!(
            "[socket]\npath = '{root}/pillion.sock'\n\
             [tcp]\nlisten = '127.0.0.1:{port}'\ntokens_env = 'BENCH_TOKENS'\n\
             [executor]\nmax_concurrent = 64\nmax_concurrent_total = 128\n\
             [store]\nlocation = '{root}/pillion.db'\n{configured}"
        );
        let path = directory.path().join("pillion.toml");
        fs::write(&path, configuration)?;
        let log = fs::File::create(directory.path().join("log"))?;
        let child = Command::new(env!("CARGO_BIN_EXE_pillion"))
            .args(["serve", "--config"])
            .arg(path)
            .env("BENCH_TOKENS", format!("bench execute {TOKEN}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let gateway = Self {
            child,
            directory,
            port,
        };
        for _ in 0..500 {
            if UnixStream::connect(gateway.socket()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
                return Ok(gateway);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let log = fs::read_to_string(gateway.directory.path().join("log"))?;
        Err(format!("the sidecar does not start: {log}").into())
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("pillion.sock")
    }

    /// Returns the resident memory of the sidecar, in MiB.
    pub(super) fn resident_mib(&self) -> Result<f64, BenchError> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let text = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
        Ok(text.parse::<f64>()? / 1024.0)
    }

    /// Returns the CPU time of all threads of the sidecar, in microseconds.
    pub(super) fn cpu_us(&self) -> Result<f64, BenchError> {
        let mut nanoseconds = 0.0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = fs::read_to_string(task?.path().join("schedstat"))?;
            let ran = stat.split_whitespace().next().ok_or("no schedstat")?;
            nanoseconds += ran.parse::<f64>()?;
        }
        Ok(nanoseconds / 1e3)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
