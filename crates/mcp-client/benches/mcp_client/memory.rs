use std::fs;

use pillion_mcp_client::ProtocolVersion;

use super::server::{Form, ServerProcess};
use super::{BenchError, client};

/// The number of opened sessions; each has one connection.
const SESSIONS: u32 = 1_000;
/// Number of sessions opened before the first measurement, to exclude one-time allocations.
const FIRST: u32 = 20;

/// Prints how much the memory of this process grows with each idle session, and with each bare
/// `reqwest` client that has made one request.
pub(super) fn report(server: &ServerProcess) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let url = server.url(Form::Json);
    let session = runtime.block_on(growth(async || {
        let client = client(&url, ProtocolVersion::V2025_11_25)?;
        client.connect().await?;
        Ok(client)
    }))?;
    let bare = runtime.block_on(growth(async || {
        let client = reqwest::Client::builder().no_proxy().build()?;
        client.get(&url).send().await?.bytes().await?;
        Ok(client)
    }))?;
    println!("Memory, {SESSIONS} idle sessions of a client each, growth of the resident set");
    println!("  per session:              {session:>6.1} KiB");
    println!("  per bare reqwest client:  {bare:>6.1} KiB");
    Ok(())
}

/// Returns how much the memory of this process grows with each item that `make` creates, in KiB.
async fn growth<T, F>(make: impl Fn() -> F) -> Result<f64, BenchError>
where
    F: Future<Output = Result<T, BenchError>>,
{
    let mut all = Vec::new();
    for _ in 0..FIRST {
        all.push(make().await?);
    }
    let before = resident_kib()?;
    for _ in 0..SESSIONS {
        all.push(make().await?);
    }
    let grown = resident_kib()?.saturating_sub(before);
    drop(all);
    Ok(f64::from(grown) / f64::from(SESSIONS))
}

fn resident_kib() -> Result<u32, BenchError> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(text.parse()?)
}
