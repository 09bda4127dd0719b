//! A fake language model for demonstrations, without an API key. The program prints its base URL,
//! and then answers like [`FakeLlm::obedient`] until its standard input ends. The model has the API
//! of OpenAI's Chat Completions, or the API that the program's argument names: `openai-responses`,
//! `anthropic` or `google`.

#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "it is a program of tests"
)]

use std::io::Read as _;

use pillion_testkit::{FakeLlm, LlmDialect};

#[tokio::main]
async fn main() {
    let dialect = match std::env::args().nth(1).as_deref() {
        None | Some("openai") => LlmDialect::OpenAiChat,
        Some("openai-responses") => LlmDialect::OpenAiResponses,
        Some("anthropic") => LlmDialect::Anthropic,
        Some("google") => LlmDialect::Google,
        Some(other) => panic!("no dialect '{other}'"),
    };
    let llm = FakeLlm::obedient(dialect).await;
    println!("{}", llm.base_url);
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    // The program ends when its input does, even if reading failed.
    let _ = end.await;
}
