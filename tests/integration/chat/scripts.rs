//! `pillion chat` and `pillion approvals` in a script that reads IDs from JSON output.

use super::*;

const ALWAYS: &str = "[tools.calculator]\nrequire_approval = \"always\"\n";

async fn daemon() -> (FakeLlm, Daemon) {
    let llm = FakeLlm::start([calculator(), LlmResponse::text("It is 42.")]).await;
    let daemon = Daemon::with_config(&config(&llm, ALWAYS));
    (llm, daemon)
}

/// Runs a command against the daemon without standard input.
fn pillion(daemon: &Daemon, arguments: &[&str]) -> std::process::Output {
    let socket = daemon.socket.to_str().unwrap();
    run(arguments, &[("PILLION_SOCKET", socket)])
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_h7_a_script_approves_and_resumes_a_chat_with_the_ids_in_the_json_output() {
    let (_llm, daemon) = daemon().await;
    tokio::task::block_in_place(|| {
        let printed = stdout(&pillion(&daemon, &["chat", "--json", "Go"]));
        let done = json(printed.lines().last().unwrap());
        assert_eq!(done["type"], "done", "{printed}");
        assert_eq!(done["status"], "awaiting_approval");
        let approval = done["approvals"][0]["id"].text();

        let listed = json(&stdout(&pillion(&daemon, &["approvals", "list", "--json"])));
        assert_eq!(listed["approvals"][0]["id"], approval);
        let show = ["approvals", "show", approval, "--json"];
        let shown = json(&stdout(&pillion(&daemon, &show)));
        assert_eq!(shown["approval"]["arguments"]["expression"], "6 * 7");
        let approve = ["approvals", "approve", approval, "--json"];
        let approved = json(&stdout(&pillion(&daemon, &approve)));
        assert_eq!(approved["approval"]["status"], "approved");

        let chat = done["id"].text();
        let printed = stdout(&pillion(&daemon, &["chat", "--json", "--resume", chat]));
        let done = json(printed.lines().last().unwrap());
        assert_eq!(done["status"], "answered", "{printed}");
        assert_eq!(done["content"], "It is 42.");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g3_h7_the_commands_that_a_pending_chat_prints_can_be_run() {
    let (_llm, daemon) = daemon().await;
    tokio::task::block_in_place(|| {
        let printed = failure(&pillion(&daemon, &["chat", "Go"]), 1);
        let commands: Vec<Vec<&str>> = printed
            .lines()
            .filter_map(|line| line.strip_prefix("  pillion "))
            .map(|command| command.split(' ').collect())
            .collect();
        assert_eq!(commands.len(), 2, "{printed}");
        for command in &commands {
            let output = pillion(&daemon, command);
            assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        }
        let denied = pillion(&daemon, &["approvals", "deny", commands[0][2], "--json"]);
        assert!(!denied.status.success(), "it is decided");
    });
}
