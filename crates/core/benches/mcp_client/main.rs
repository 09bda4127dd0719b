//! A warm `tools/call` of the MCP client against the same request as a bare `reqwest` POST.
//!
//! `cargo bench -p pillion-core --bench mcp_client`
//!
//! The server is this same program in a process of its own, so that neither its work nor
//! its memory counts as the client's. Both sides send the same bytes (the server tells what
//! the client sent) over connections that stay open, and take turns, so that a busy moment
//! of the machine hits both. Ratios of medians are what counts; times are for orientation.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod memory;
mod raw;
mod server;

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use pillion_core::mcp::{McpClient, ProtocolVersion, ServerConfig, TransportKind};
use raw::RawPeer;
use serde_json::json;
use server::{Form, ServerProcess};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type BenchError = Box<dyn Error + Send + Sync>;

/// Calls of each side before anything is measured.
const WARM_UP: usize = 500;
/// Calls of each side, one after the other.
const CALLS: usize = 5_000;
const CALLERS: usize = 32;
/// Rounds of each side with all callers at once.
const ROUNDS: usize = 21;
/// Calls that one caller makes in a round.
const CALLS_PER_ROUND: usize = 50;

fn main() -> Result<(), BenchError> {
    if std::env::args().any(|argument| argument == server::ARGUMENT) {
        return server::serve();
    }
    let server = ServerProcess::start()?;
    memory::report(&server)?;
    println!("\nOne tools/call after the other; medians, and the ratio client / raw");
    println!(
        "{:<34} {:>10} {:>10} {:>7}",
        "", "client us", "raw us", "ratio"
    );
    for runtime in runtimes()? {
        for way in ways() {
            runtime.measured(way, &server, one_by_one)?;
        }
    }
    println!("\n{CALLERS} callers on one session; medians, and the ratio of throughput");
    println!(
        "{:<34} {:>10} {:>10} {:>7}",
        "", "client /s", "raw /s", "ratio"
    );
    for runtime in runtimes()? {
        for way in ways() {
            runtime.measured(way, &server, all_at_once)?;
        }
    }
    Ok(())
}

/// What a row of the tables is about.
#[derive(Clone, Copy)]
struct Way {
    version: ProtocolVersion,
    form: Form,
}

fn ways() -> impl Iterator<Item = Way> {
    let versions = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];
    versions
        .into_iter()
        .flat_map(|version| [Form::Json, Form::EventStream].map(|form| Way { version, form }))
}

struct NamedRuntime {
    name: &'static str,
    runtime: Runtime,
}

fn runtimes() -> Result<[NamedRuntime; 2], BenchError> {
    Ok([
        NamedRuntime {
            name: "1 thread",
            runtime: Builder::new_current_thread().enable_all().build()?,
        },
        NamedRuntime {
            name: "2 threads",
            runtime: Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?,
        },
    ])
}

impl NamedRuntime {
    /// Prints one row: both sides warm, then `measure`, which gives client and raw.
    fn measured<F, M>(&self, way: Way, server: &ServerProcess, measure: M) -> Result<(), BenchError>
    where
        M: FnOnce(McpClient, RawPeer) -> F,
        F: Future<Output = Result<(f64, f64), BenchError>> + Send + 'static,
    {
        let Way { version, form } = way;
        let url = server.url(form);
        let prepared = self.runtime.block_on(async {
            let client = client(&url, version)?;
            client.call().await?;
            let raw = RawPeer::like_last_call(&url, form).await?;
            for _ in 0..WARM_UP {
                client.call().await?;
                raw.call().await?;
            }
            Ok::<_, BenchError>((client, raw))
        });
        let (client, raw) = prepared?;
        // A task, as callers of both sides are: the thread of `block_on` is not a worker.
        let task = self.runtime.spawn(measure(client, raw));
        let (client, raw) = self.runtime.block_on(task)??;
        println!(
            "{:<34} {client:>10.1} {raw:>10.1} {:>7.3}",
            format!("{version}, {form}, {}", self.name),
            client / raw
        );
        Ok(())
    }
}

fn client(url: &str, version: ProtocolVersion) -> Result<McpClient, BenchError> {
    let mut config = ServerConfig::new("bench", url)?;
    config.transport = TransportKind::StreamableHttp;
    config.protocol_version = Some(version);
    Ok(McpClient::new(config))
}

/// Microseconds per call.
async fn one_by_one(client: McpClient, raw: RawPeer) -> Result<(f64, f64), BenchError> {
    let mut times = (Vec::new(), Vec::new());
    for round in 0..CALLS {
        // Whoever comes second finds the caches warm: they change places each round.
        for side in [round % 2, 1 - round % 2] {
            let start = Instant::now();
            if side == 0 {
                client.call().await?;
                times.0.push(micros(start.elapsed()));
            } else {
                raw.call().await?;
                times.1.push(micros(start.elapsed()));
            }
        }
    }
    Ok((median(times.0), median(times.1)))
}

/// Somebody who can make the call that is measured.
trait Caller: Clone + Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = Result<(), BenchError>> + Send;
}

impl Caller for McpClient {
    async fn call(&self) -> Result<(), BenchError> {
        let result = self.call_tool("echo", &json!({"message": "hello"})).await?;
        server::check(&result)
    }
}

/// Calls per second.
async fn all_at_once(client: McpClient, raw: RawPeer) -> Result<(f64, f64), BenchError> {
    let mut rates = (Vec::new(), Vec::new());
    // The first round of each side opens its connections and is not counted.
    for round in 0..=ROUNDS {
        for side in [round % 2, 1 - round % 2] {
            let rate = if side == 0 {
                rate(&client).await?
            } else {
                rate(&raw).await?
            };
            match (round, side) {
                (0, _) => {}
                (_, 0) => rates.0.push(rate),
                _ => rates.1.push(rate),
            }
        }
    }
    Ok((median(rates.0), median(rates.1)))
}

async fn rate(peer: &impl Caller) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let peer = peer.clone();
        callers.spawn(async move {
            for _ in 0..CALLS_PER_ROUND {
                peer.call().await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let calls = u32::try_from(CALLERS * CALLS_PER_ROUND)?;
    Ok(f64::from(calls) / start.elapsed().as_secs_f64())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
