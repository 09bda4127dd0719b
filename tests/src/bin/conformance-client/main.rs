//! The client for the official MCP conformance suite. The client runs the suite's scenarios with
//! the public API of [`McpClient`](pillion_mcp_client::McpClient). `tests/conformance/run` starts
//! the client.
//!
//! The suite passes the server's URL as the last argument, and other parameters as environment
//! variables. The client contains no protocol code: a scenario only decides what an application
//! would decide, such as which tool to call and how to answer an elicitation.

mod run;
mod scenario;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // The suite prints standard error if a scenario fails.
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
