//! Compares a `tools/call` through the sidecar with the same call sent directly to the MCP server.
//!
//! `cargo bench -p pillion --bench gateway`; add `-- --calls 1000000` to observe the memory over
//! that many calls.
//!
//! The server, the sidecar and the load generator are one process each. The server only responds,
//! and the load generator consists of bare keep-alive connections of `hyper`, so that the
//! comparison includes as little else as possible. The sidecar runs with its defaults, with its
//! call log in a file. The calls over each interface and the direct calls alternate, so that other
//! load on the machine affects all of them. The results are medians over the rounds, and ratios to
//! the direct calls of the same round.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

mod gateway;
mod peer;
mod server;

use std::error::Error;
use std::time::Instant;

use gateway::Gateway;
use peer::{Caller, Way};
use pillion_testkit::Twin;
use server::ServerProcess;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

type BenchError = Box<dyn Error + Send + Sync>;

/// Number of warm-up calls over each interface ([`Way`]).
const WARM_UP: usize = 500;
const ROUNDS: usize = 31;
/// Number of calls of a single caller in a round.
const ALONE: usize = 100;
const CALLERS: usize = 32;
/// Number of calls of each concurrent caller in a round.
const TOGETHER: usize = 50;
/// Number of measurements of the sidecar's memory over many calls.
const STEPS: usize = 20;

fn main() -> Result<(), BenchError> {
    if Twin::is_me(server::ARGUMENT) {
        return server::serve();
    }
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let server = ServerProcess::start()?;
    let upstream = format!(
        "[[mcp_servers]]\nlabel = 'bench'\nurl = '{}'\n\
         transport = 'streamable_http'\nprotocol_version = '2025-11-25'\n",
        server.url()
    );
    let gateway = runtime.block_on(Gateway::start(&upstream))?;
    println!("Memory, idle: {:.1} MiB", gateway.resident_mib()?);
    let number = arguments.iter().position(|argument| argument == "--calls");
    match number.and_then(|at| arguments.get(at + 1)) {
        Some(number) => many(&runtime, &gateway, number.parse()?),
        None => compare(&runtime, &server, &gateway),
    }
}

/// Prints the memory of the sidecar while it serves `calls` calls.
fn many(runtime: &Runtime, gateway: &Gateway, calls: usize) -> Result<(), BenchError> {
    let way = Way::McpOverUnix;
    let mut callers = runtime.block_on(open(way, None, gateway, CALLERS))?;
    for step in 1..=STEPS {
        let (start, cpu) = (Instant::now(), gateway.cpu_us()?);
        callers = runtime.block_on(burst(callers, calls / STEPS / CALLERS))?;
        let each = 1.0 / f64::from(u32::try_from(calls / STEPS)?);
        println!(
            "{:>9} calls: {:>6.1} us a call, {:>6.1} us of its CPU, {:.1} MiB",
            step * (calls / STEPS),
            start.elapsed().as_secs_f64() * 1e6 * each,
            (gateway.cpu_us()? - cpu) * each,
            gateway.resident_mib()?
        );
    }
    Ok(())
}

fn compare(runtime: &Runtime, server: &ServerProcess, gateway: &Gateway) -> Result<(), BenchError> {
    println!("\nOne caller, one call after the other");
    println!(
        "{:<24} {:>9} {:>12} {:>7} {:>14}",
        "", "us a call", "added, us", "ratio", "us of its CPU"
    );
    report(runtime, server, gateway, 1, ALONE)?;
    println!("\n{CALLERS} callers at once");
    println!(
        "{:<24} {:>9} {:>12} {:>7} {:>14}",
        "", "us a call", "calls/s", "share", "us of its CPU"
    );
    report(runtime, server, gateway, CALLERS, TOGETHER)?;
    println!("\nMemory, then: {:.1} MiB", gateway.resident_mib()?);
    Ok(())
}

/// The measurements of one interface ([`Way`]): for each round, microseconds per call of wall-clock
/// time and of the sidecar's CPU time.
#[derive(Default)]
struct Rounds {
    took: Vec<f64>,
    cpu: Vec<f64>,
}

fn report(
    runtime: &Runtime,
    server: &ServerProcess,
    gateway: &Gateway,
    callers: usize,
    calls: usize,
) -> Result<(), BenchError> {
    let mut ways = Vec::new();
    for way in Way::ALL {
        let opened = runtime.block_on(open(way, Some(server), gateway, callers))?;
        let warm = runtime.block_on(burst(opened, WARM_UP.div_ceil(callers)))?;
        ways.push((way, warm, Rounds::default()));
    }
    let total = u32::try_from(callers * calls)?;
    for round in 0..ROUNDS {
        let count = ways.len();
        for turn in 0..count {
            let (_, connections, rounds) = &mut ways[(round + turn) % count];
            let cpu = gateway.cpu_us()?;
            let start = Instant::now();
            *connections = runtime.block_on(burst(std::mem::take(connections), calls))?;
            let each = |us: f64| us / f64::from(total);
            rounds.took.push(each(start.elapsed().as_secs_f64() * 1e6));
            rounds.cpu.push(each(gateway.cpu_us()? - cpu));
        }
    }
    let direct = ways[0].2.took.clone();
    for (way, _, rounds) in ways {
        let pairs = || rounds.took.iter().zip(&direct);
        let took = median(rounds.took.clone());
        let (more, ratio) = if callers == 1 {
            let added = median(pairs().map(|(way, direct)| way - direct).collect());
            (
                added,
                median(pairs().map(|(way, direct)| way / direct).collect()),
            )
        } else {
            let share = median(pairs().map(|(way, direct)| direct / way).collect());
            (1e6 / took, share)
        };
        let cpu = median(rounds.cpu);
        println!("{way:<24} {took:>9.1} {more:>12.1} {ratio:>7.3} {cpu:>14.1}");
    }
    Ok(())
}

async fn open(
    way: Way,
    server: Option<&ServerProcess>,
    gateway: &Gateway,
    number: usize,
) -> Result<Vec<Caller>, BenchError> {
    let mut callers = Vec::with_capacity(number);
    for _ in 0..number {
        callers.push(Caller::open(way, server, gateway).await?);
    }
    Ok(callers)
}

/// Makes `calls` calls per caller, with all callers concurrently.
async fn burst(callers: Vec<Caller>, calls: usize) -> Result<Vec<Caller>, BenchError> {
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        tasks.spawn(async move {
            for _ in 0..calls {
                caller.call().await?;
            }
            Ok::<_, BenchError>(caller)
        });
    }
    let mut callers = Vec::new();
    while let Some(caller) = tasks.join_next().await {
        callers.push(caller??);
    }
    Ok(callers)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
