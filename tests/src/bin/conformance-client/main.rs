//! The client that the official MCP conformance suite tests: it drives
//! [`McpClient`](pillion_core::mcp::McpClient) through its public interface, scenario by
//! scenario. `tests/conformance/run` starts it.
//!
//! The suite gives the server's URL as the last argument and the rest in the environment.
//! There is no protocol in here: a scenario decides what a program that uses the client
//! would decide (which tool to call, what to answer a question with) and nothing else.

mod run;
mod scenario;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // The suite shows standard error where a scenario fails.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let outcome = async { scenario::play(&run::Run::from_environment()?).await };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("conformance-client: {failure}");
            ExitCode::FAILURE
        }
    }
}
