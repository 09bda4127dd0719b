//! No file descriptors or tasks leak.

use pillion_mcp_client::Callbacks;

use super::*;

#[test]
fn no_descriptors_tasks_or_memory_leak() {
    alone("leaks::inner_meet_every_fault", ("RUST_BACKTRACE", "0"));
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[tokio::test]
#[ignore = "run by no_descriptors_tasks_or_memory_leak, in a process of its own"]
async fn inner_meet_every_fault() {
    let before = (descriptors(), tasks());
    for round in 0..3 {
        for (_, faults) in faults() {
            let server = FaultServer::start(move |request| match request.rpc_method().as_str() {
                "tools/call" => faults.clone(),
                _ => in_session(request),
            })
            .await;
            for transport in [TransportKind::StreamableHttp, TransportKind::Auto] {
                let client = client_within(&server.url, transport, Duration::from_millis(400));
                let (first, second) = tokio::join!(roll(&client), roll(&client));
                assert!(first.is_err() && second.is_err());
                if round == 1 {
                    client.disconnect().await;
                }
            }
        }
        meet_good_servers(round == 1).await;
    }
    eventually("the end of all tasks", || tasks() == before.1).await;
    eventually("all closed", || descriptors() == before.0).await;
}

/// Makes calls that succeed, calls that are dropped, and subscriptions.
async fn meet_good_servers(disconnect: bool) {
    for (dialect, transport) in dialects() {
        let server = FakeMcp::start_with(dialect, "slow", |_| {
            Reply::raw_result("1").after(Duration::from_secs(3))
        });
        let callbacks = Callbacks::new().on_notification(|_| {});
        let client = McpClient::with_callbacks(config(&server.url, transport), callbacks);
        roll(&client).await.unwrap();
        let no_params = json!({});
        let slow = client.request("slow", &no_params);
        tokio::time::timeout(Duration::from_millis(50), slow)
            .await
            .unwrap_err();
        roll(&client).await.unwrap();
        if disconnect {
            client.disconnect().await;
        }
    }
    let (server, client) = start(Dialect::Stateless, TransportKind::Auto);
    let subscription = client.subscribe(tools_filter()).await.unwrap();
    roll(&client).await.unwrap();
    eventually("the stream", || server.open_streams() == 1).await;
    drop(subscription);
    eventually("the stream's end", || server.open_streams() == 0).await;
}
