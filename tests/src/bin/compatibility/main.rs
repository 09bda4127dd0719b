//! Connects to every real server of `tests/peers` with every transport of the server, uses all its
//! features, and prints the results as Markdown, `docs/reference/compatibility.md`. Exits with code
//! 1 if a check fails.
//!
//! ```text
//! cargo run -p pillion-tests --bin compatibility            # every server
//! cargo run -p pillion-tests --bin compatibility -- NAME... # only these
//! ```

mod browser;
mod check;
mod offer;
mod server;
mod table;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use server::{SERVERS, Server};
use table::Row;
use tokio::sync::Semaphore;

/// The maximum number of servers that run concurrently.
const AT_ONCE: usize = 4;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_selected =
        |server: &&Server| names.is_empty() || names.iter().any(|name| name == server.name);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let tasks: Vec<_> = SERVERS
        .iter()
        .filter(is_selected)
        .map(|server| tokio::spawn(row(server, Arc::clone(&permits))))
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    for task in tasks {
        let Ok(Some(row)) = task.await else {
            eprintln!("compatibility: not every server could be started");
            return ExitCode::FAILURE;
        };
        for failure in row.failures() {
            eprintln!("{}: {failure}", row.name);
        }
        rows.push(row);
    }
    let page = table::page(&rows);
    if let Err(error) = std::io::stdout().write_all(page.as_bytes()) {
        eprintln!("compatibility: the page cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    let failed = rows.iter().any(|row| row.failures().next().is_some());
    if failed || rows.is_empty() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Starts a server when a permit is free, and runs all checks.
async fn row(server: &'static Server, permits: Arc<Semaphore>) -> Option<Row> {
    let _permit = permits.acquire_owned().await.ok()?;
    let running = tokio::task::spawn_blocking(|| server.start())
        .await
        .ok()??;
    Some(running.row().await)
}
