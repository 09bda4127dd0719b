//! Compares a warm `tools/call` of the MCP client with the same request as a bare `reqwest` POST.
//!
//! `cargo bench -p pillion-mcp-client --bench mcp_client`
//!
//! The server is this program in a separate process, so that its work and its memory do not count
//! for the client. Both clients send the same bytes (the server returns what the client sent) over
//! connections that stay open. The clients alternate, so that other load on the machine affects
//! both. The results are medians of ratios; absolute times are only for orientation.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod memory;
mod raw;
mod server;

use std::error::Error;
use std::time::Instant;

use pillion_mcp_client::{McpClient, ProtocolVersion, ServerConfig, TransportKind};
use pillion_testkit::Twin;
use raw::RawPeer;
use serde_json::json;
use server::{Form, ServerProcess};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type BenchError = Box<dyn Error + Send + Sync>;

/// Number of calls of each client before the measurement.
const WARM_UP: usize = 500;
/// Number of rounds; each client has one turn per round.
const ROUNDS: usize = 41;
/// Number of sequential calls of each client per round.
const PAIRS_PER_ROUND: usize = 100;
const CALLERS: usize = 32;
/// Number of calls of each concurrent caller per round.
const CALLS_PER_ROUND: usize = 50;

fn main() -> Result<(), BenchError> {
    if Twin::is_me(server::ARGUMENT) {
        return server::serve();
    }
    let server = ServerProcess::start()?;
    memory::report(&server)?;
    println!("\nOne tools/call after the other; medians of time and of client / raw");
    report("us", &server, one_by_one)?;
    println!("\n{CALLERS} callers on one session; medians of throughput and of client / raw");
    report("/s", &server, all_at_once)
}

/// Prints a table with a row for each runtime, revision and form.
fn report<F>(
    unit: &str,
    server: &ServerProcess,
    measure: fn(McpClient, RawPeer) -> F,
) -> Result<(), BenchError>
where
    F: Future<Output = Result<Rounds, BenchError>> + Send + 'static,
{
    let (client, raw) = (format!("client {unit}"), format!("raw {unit}"));
    println!("{:<34} {client:>10} {raw:>10} {:>7}", "", "ratio");
    for runtime in runtimes()? {
        for way in ways() {
            runtime.measured(way, server, measure)?;
        }
    }
    Ok(())
}

/// The revision and response form that a row of the table measures.
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
    /// Prints one row: warms up both clients, then runs `measure`.
    fn measured<F, M>(&self, way: Way, server: &ServerProcess, measure: M) -> Result<(), BenchError>
    where
        M: FnOnce(McpClient, RawPeer) -> F,
        F: Future<Output = Result<Rounds, BenchError>> + Send + 'static,
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
        // The measurement runs in a task, as the callers of both clients do: the thread of
        // `block_on` is not a worker thread.
        let task = self.runtime.spawn(measure(client, raw));
        let rounds = self.runtime.block_on(task)??;
        let ratio = rounds.ratio();
        let (client, raw) = (median(rounds.client), median(rounds.raw));
        let name = format!("{version}, {form}, {}", self.name);
        println!("{name:<34} {client:>10.1} {raw:>10.1} {ratio:>7.2}");
        Ok(())
    }
}

fn client(url: &str, version: ProtocolVersion) -> Result<McpClient, BenchError> {
    let mut config = ServerConfig::new("bench", url)?;
    config.transport = TransportKind::StreamableHttp;
    config.protocol_version = Some(version);
    Ok(McpClient::new(config))
}

/// The results of many rounds with one turn of each client.
#[derive(Default)]
struct Rounds {
    client: Vec<f64>,
    raw: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, [client, raw]: [f64; 2]) {
        self.client.push(client);
        self.raw.push(raw);
    }

    /// Returns the median of the rounds' ratios. Other load on the machine changes slowly, so that
    /// it affects both clients of a round.
    fn ratio(&self) -> f64 {
        let pairs = self.client.iter().zip(&self.raw);
        median(pairs.map(|(client, raw)| client / raw).collect())
    }
}

/// Measures sequential calls, in microseconds per call; each round is the median of several calls.
async fn one_by_one(client: McpClient, raw: RawPeer) -> Result<Rounds, BenchError> {
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        let mut times = [Vec::new(), Vec::new()];
        for pair in 0..PAIRS_PER_ROUND {
            // The second client benefits from warm caches, so the order alternates.
            for side in [pair % 2, 1 - pair % 2] {
                let start = Instant::now();
                match side {
                    0 => client.call().await?,
                    _ => raw.call().await?,
                }
                times[side].push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        rounds.add(times.map(median));
    }
    Ok(rounds)
}

/// Measures concurrent calls, in calls per second.
async fn all_at_once(client: McpClient, raw: RawPeer) -> Result<Rounds, BenchError> {
    let mut rounds = Rounds::default();
    // The first round of each client opens its connections and does not count.
    for round in 0..=ROUNDS {
        let mut rates = [0.0; 2];
        for side in [round % 2, 1 - round % 2] {
            rates[side] = match side {
                0 => rate(&client).await?,
                _ => rate(&raw).await?,
            };
        }
        if round > 0 {
            rounds.add(rates);
        }
    }
    Ok(rounds)
}

/// A client that can make the measured call.
trait Caller: Clone + Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = Result<(), BenchError>> + Send;
}

impl Caller for McpClient {
    async fn call(&self) -> Result<(), BenchError> {
        let result = self.call_tool("echo", &json!({"message": "hello"})).await?;
        server::check(&result)
    }
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
