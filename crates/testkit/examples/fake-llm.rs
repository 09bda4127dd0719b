//! A language model for demonstrations that needs no key: it prints its base URL, and then does
//! what it is told, as [`FakeLlm::obedient`] says, until its standard input ends.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::io::Read as _;

use pillion_testkit::FakeLlm;

#[tokio::main]
async fn main() {
    let llm = FakeLlm::obedient().await;
    println!("{}", llm.base_url);
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    // However it ended, it has.
    let _ = end.await;
}
