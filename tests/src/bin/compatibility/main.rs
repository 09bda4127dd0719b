//! Connects to every real server of `tests/peers`, in every transport that it has, does what
//! it offers, and prints what came of it as a page of Markdown, `docs/COMPATIBILITY.md`.
//! Ends with exit code 1 when something did not work.
//!
//! ```text
//! cargo run -p pillion-tests --bin compatibility            # every server
//! cargo run -p pillion-tests --bin compatibility -- NAME... # only these
//! ```

mod check;
mod offer;
mod server;
mod table;

use std::io::Write;
use std::process::ExitCode;

use server::SERVERS;
use table::Row;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut rows: Vec<Row> = Vec::new();
    for server in SERVERS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == server.name) {
            continue;
        }
        eprintln!("{}", server.name);
        let Some(running) = server.start() else {
            return ExitCode::FAILURE;
        };
        let row = running.row().await;
        for failure in row.failures() {
            eprintln!("  {failure}");
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
