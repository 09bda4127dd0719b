//! A language model for demonstrations that needs no key: it prints its base URL, and then does
//! what it is told, as [`FakeLlm::obedient`] says, until its standard input ends. It speaks as
//! OpenAI's chat completions, or as the argument says: `openai-responses`, `anthropic`, `google`.

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
    // However it ended, it has.
    let _ = end.await;
}
