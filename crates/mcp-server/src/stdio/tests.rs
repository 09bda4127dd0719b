use pillion_core::registry::ToolRegistry;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

use super::*;
use crate::McpServerState;
use pillion_config::Config;
use pillion_gateway::credentials::UserCredentials;
use pillion_gateway::{Gateway, GatewayParts};

/// A client that the MCP server serves.
struct Served {
    responses: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Served {
    fn start(mcp: McpServer, grace: Duration) -> Self {
        let (context, visibility) = (CallContext::default(), Visibility::default());
        let client = Client::new(move || mcp.clone(), context, visibility, None).unwrap();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let endings = StdioShutdown {
            grace,
            announcement: std::future::pending(),
            access_ended: std::future::pending(),
        };
        let (reader, writer) = tokio::io::split(ours);
        Self {
            responses: BufReader::new(reader).lines(),
            writer,
            task: tokio::spawn(client.serve(BufReader::new(input), output, endings)),
        }
    }

    /// Writes the lines, and returns as many responses as lines.
    async fn exchange(&mut self, lines: &[String]) -> Vec<Value> {
        let writing = async {
            for line in lines {
                self.writer.write_all(line.as_bytes()).await.unwrap();
            }
        };
        let reading = async {
            let mut responses = Vec::new();
            for _ in lines {
                let response = self.responses.next_line().await.unwrap().unwrap();
                responses.push(serde_json::from_str(&response).unwrap());
            }
            responses
        };
        tokio::join!(writing, reading).1
    }

    async fn end(self) {
        drop((self.responses, self.writer));
        self.task.await.unwrap().unwrap();
    }
}

fn mcp_server() -> McpServer {
    let state = Arc::new(McpServerState::default());
    let parts = GatewayParts {
        registry: Arc::new(ToolRegistry::new()),
        state: None,
        credentials: UserCredentials::default(),
        tool_listener: Arc::<McpServerState>::clone(&state),
        has_all_tools: false,
    };
    McpServer::new(Gateway::build(&Config::default(), parts), state)
}

fn line(id: usize, method: &str, params: &Value) -> String {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    format!("{message}\n")
}

fn hello() -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    line(0, "initialize", &params)
}

fn ping(id: usize) -> String {
    line(id, "ping", &json!({}))
}

/// Returns a subscription request that contains `values`.
fn listen(id: usize, values: &[usize]) -> String {
    let params = json!({"many": values, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}});
    line(id, "subscriptions/listen", &params)
}

#[tokio::test]
async fn a_stdio_session_is_never_evicted() {
    let mcp = mcp_server();
    let mut served = Served::start(mcp.clone(), Duration::ZERO);
    let responses = served.exchange(&[hello()]).await;
    let version = &responses[0]["result"]["protocolVersion"];
    assert!(version.is_string(), "{responses:?}");
    assert_eq!(mcp.state.sessions.len(), 0);
    served.end().await;
}

#[tokio::test]
async fn byte_order_marks_are_ignored_before_every_line() {
    let mut served = Served::start(mcp_server(), Duration::ZERO);
    let lines = [
        format!("\u{feff}{}\u{feff}\n\u{feff} \r\n", hello()),
        format!("\u{feff}\u{feff}{}\r\n", ping(1).trim_end()),
        format!(" \u{feff}{}", ping(2)),
    ];
    let responses = served.exchange(&lines).await;
    for (id, response) in responses.iter().enumerate() {
        assert_eq!(response["id"], id, "{response}");
        assert!(response.get("result").is_some(), "{response}");
    }
    served.end().await;
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_client_that_reads_no_responses_are_not_read() {
    const PINGS: usize = 20_000;
    let Served {
        mut responses,
        mut writer,
        task,
    } = Served::start(mcp_server(), Duration::from_secs(30));
    let writing = tokio::spawn(async move {
        writer.write_all(hello().as_bytes()).await?;
        for id in 1..=PINGS {
            writer.write_all(ping(id).as_bytes()).await?;
        }
        writer.shutdown().await
    });
    // The paused clock advances only when all tasks are idle.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!writing.is_finished(), "all messages are in memory");
    for _ in 0..=PINGS {
        assert!(responses.next_line().await.unwrap().is_some());
    }
    writing.await.unwrap().unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_values_of_the_requests_of_a_client_are_limited() {
    let mut served = Served::start(mcp_server(), Duration::ZERO);
    let lines: Vec<_> = (0..4).map(|id| listen(id, &vec![0; 200_000])).collect();
    let responses = served.exchange(&lines).await;
    let is_rejection = |response: &&Value| response.to_string().contains("65536 KiB together");
    // Two of the requests have 57 MB.
    assert_eq!(responses.iter().filter(is_rejection).count(), 2);
    served.end().await;
}

#[tokio::test]
async fn the_subscriptions_of_a_client_are_limited() {
    let mut served = Served::start(mcp_server(), Duration::ZERO);
    let lines: Vec<_> = (0..=MAX_STREAMS).map(|id| listen(id, &[])).collect();
    let mut rejected = served.exchange(&lines).await;
    rejected.retain(|response| response.get("error").is_some());
    let ids: Vec<_> = rejected.iter().map(|response| &response["id"]).collect();
    assert_eq!(ids, [MAX_STREAMS]);
    served.end().await;
}
