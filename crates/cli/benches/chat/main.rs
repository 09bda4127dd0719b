//! Measures what the chat loop adds to the provider's time.
//!
//! `cargo bench -p pillion --bench chat`
//!
//! The model, the sidecar and the load generator are one process each. The model has no thinking
//! time, and the load generator consists of bare keep-alive connections of `hyper`. The sidecar
//! runs with its defaults: every chat that calls tools is stored, and every call is in the call
//! log. Chats through the sidecar and equal requests to the model itself alternate, so that other
//! load on the machine affects both. The results are medians over the rounds, and differences and
//! ratios of the two measurements of each round.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

#[path = "../gateway/gateway.rs"]
mod gateway;
mod llm;
mod peer;

use std::error::Error;
use std::time::Instant;

use gateway::Gateway;
use peer::Caller;
use pillion_testkit::Twin;
use tokio::runtime::Builder;

type BenchError = Box<dyn Error + Send + Sync>;

/// Number of warm-up chats, both through the sidecar and directly with the model.
const WARM_UP: usize = 50;
const ROUNDS: usize = 31;
/// Number of chats in a round, both through the sidecar and directly with the model.
const CHATS: usize = 20;
/// Number of consecutive tool calls in a chat with calls.
const CALLS: usize = 5;

fn main() -> Result<(), BenchError> {
    if Twin::is_me(llm::ARGUMENT) {
        return llm::serve();
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let model = Twin::start(llm::ARGUMENT)?;
        let configuration = format!(
            "[chat]\nmax_tool_calls = 100\nmax_tool_rounds = 100\n\
             [[providers]]\nname = 'bench'\nbase_url = 'http://127.0.0.1:{}/v1'\n\
             [[models]]\nid = 'bench'\nprovider = 'bench'\n\
             tools = {{ function_calling = true, enabled_tools = ['calculator'] }}\n",
            model.port
        );
        let gateway = Gateway::start(&configuration).await?;
        println!("Memory, idle: {:.1} MiB", gateway.resident_mib()?);
        let mut direct = Caller::open(model.port).await?;
        let mut sidecar = Caller::open(gateway.port).await?;
        whole_chats(&mut direct, &mut sidecar, &gateway).await?;
        first_words(&mut direct, &mut sidecar).await?;
        println!("\nMemory, then: {:.1} MiB", gateway.resident_mib()?);
        Ok(())
    })
}

/// Measures chats without and with calls: the time that the sidecar adds to a chat, and to each
/// round of tool calls in a chat.
async fn whole_chats(
    direct: &mut Caller,
    sidecar: &mut Caller,
    gateway: &Gateway,
) -> Result<(), BenchError> {
    let mut added = Vec::new();
    println!("\nChats, one after the other");
    println!(
        "{:<10} {:>10} {:>11} {:>9} {:>7} {:>14}",
        "calls", "direct, us", "sidecar, us", "added, us", "ratio", "us of its CPU"
    );
    for calls in [0, CALLS] {
        for _ in 0..WARM_UP {
            direct.same_requests(calls).await?;
            sidecar.chat(calls).await?;
        }
        let mut sides = Sides::default();
        let mut cpu = Vec::new();
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let start = Instant::now();
                if (round + turn) % 2 == 0 {
                    for _ in 0..CHATS {
                        direct.same_requests(calls).await?;
                    }
                    sides.direct.push(each(start)?);
                } else {
                    let before = gateway.cpu_us()?;
                    for _ in 0..CHATS {
                        sidecar.chat(calls).await?;
                    }
                    sides.sidecar.push(each(start)?);
                    cpu.push((gateway.cpu_us()? - before) / f64::from(u32::try_from(CHATS)?));
                }
            }
        }
        let [took_direct, took, more, ratio] = sides.medians();
        let cpu = median(cpu);
        println!(
            "{calls:<10} {took_direct:>10.1} {took:>11.1} {more:>9.1} {ratio:>7.3} {cpu:>14.1}"
        );
        added.push(more);
    }
    let rounds = f64::from(u32::try_from(CALLS)?);
    println!("added by a round: {:.1} us", (added[1] - added[0]) / rounds);
    Ok(())
}

/// Measures the time until the first words of a streamed response.
async fn first_words(direct: &mut Caller, sidecar: &mut Caller) -> Result<(), BenchError> {
    let mut sides = Sides::default();
    for round in 0..WARM_UP + ROUNDS * CHATS {
        let (one, other) = match round % 2 {
            0 => {
                let one = direct.first_words().await?;
                (one, sidecar.first_words().await?)
            }
            _ => {
                let other = sidecar.first_words().await?;
                (direct.first_words().await?, other)
            }
        };
        if round >= WARM_UP {
            sides.direct.push(one);
            sides.sidecar.push(other);
        }
    }
    let [took_direct, took, more, ratio] = sides.medians();
    println!("\nUntil the first words of a streamed answer");
    println!(
        "{:>10} {:>11} {:>9} {:>7}",
        "direct, us", "sidecar, us", "added, us", "ratio"
    );
    println!("{took_direct:>10.1} {took:>11.1} {more:>9.1} {ratio:>7.3}");
    Ok(())
}

/// Durations of direct chats and of chats through the sidecar, in microseconds. The entries with
/// the same index belong to one round.
#[derive(Default)]
struct Sides {
    direct: Vec<f64>,
    sidecar: Vec<f64>,
}

impl Sides {
    /// Returns the medians: direct, through the sidecar, the difference, and the ratio.
    fn medians(self) -> [f64; 4] {
        let pairs = || self.sidecar.iter().zip(&self.direct);
        let added = median(pairs().map(|(sidecar, direct)| sidecar - direct).collect());
        let ratio = median(pairs().map(|(sidecar, direct)| sidecar / direct).collect());
        [median(self.direct), median(self.sidecar), added, ratio]
    }
}

/// Returns the duration of one chat, in microseconds, averaged over the chats since `start`.
fn each(start: Instant) -> Result<f64, BenchError> {
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(u32::try_from(CHATS)?))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
