//! Tests that need a separate process: leaks of descriptors, and processes that keep running when
//! their parent is killed. Each test starts this test binary again.

use std::process::Child;

use tokio::runtime::{Builder, Runtime};

use super::*;

/// Runs one of the ignored tests below in a separate process.
fn alone(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            &format!("mcp::stdio::leaks::{name}"),
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn runtime(builder: &mut Builder) -> Runtime {
    builder.enable_all().build().unwrap()
}

#[test]
fn e9_no_descriptors_or_processes_leak() {
    assert!(alone("inner_start_and_end_many").wait().unwrap().success());
}

#[test]
#[ignore = "run by e9_no_descriptors_or_processes_leak, in a process of its own"]
fn inner_start_and_end_many() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let me = std::process::id();
    let children = || {
        let lists = std::fs::read_dir(format!("/proc/{me}/task")).unwrap();
        lists
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
            .map(|list| list.split_whitespace().count())
            .sum::<usize>()
    };
    let runtime = runtime(&mut Builder::new_current_thread());
    runtime.block_on(async {
        let (descriptors_before, threads_before) = (descriptors(), threads());
        for round in 0..4 {
            let mut clients = Vec::new();
            for flags in [&[][..], &["ignore-term", "ignore-end"], &["exit-at-once"]] {
                let client = fake(flags);
                let _ = roll(&client).await;
                clients.push(client);
            }
            assert!(children() >= 4, "{}", children());
            clients[0].call_tool("kill", &json!({})).await.unwrap_err();
            let _ = roll(&clients[0]).await;
            if round % 2 == 0 {
                for client in &clients {
                    client.disconnect().await;
                }
            }
        }
        eventually("the end of all", || children() == 0).await;
        eventually("all closed", || descriptors() == descriptors_before).await;
        eventually("the end of all threads", || threads() == threads_before).await;
    });
}

#[tokio::test]
async fn e9_programs_end_when_their_parent_is_killed() {
    let mut test = alone("inner_wait_to_be_killed");
    let output = BufReader::new(test.stdout.take().unwrap());
    let line = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("PIDS ")?.1.to_owned()))
        .unwrap();
    let pids: Vec<u64> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|&pid| exists(pid)));
    test.kill().unwrap();
    test.wait().unwrap();
    eventually("the end of all", || !pids.iter().any(|&pid| exists(pid))).await;
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "it is how this process tells the other"
)]
#[ignore = "run by e9_programs_end_when_their_parent_is_killed, in a process of its own"]
fn inner_wait_to_be_killed() {
    let runtime = runtime(Builder::new_multi_thread().worker_threads(1));
    runtime.block_on(async {
        let client = fake(&["ignore-term", "ignore-end"]);
        let fork = call(&client, "fork", json!({})).await;
        let mut pids: Vec<String> = fork["pids"]
            .items()
            .iter()
            .map(ToString::to_string)
            .collect();
        pids.push(pid(&client).await.to_string());
        pids.push(call(&client, "state", json!({})).await["group"].to_string());
        println!("PIDS {}", pids.join(" "));
        std::future::pending::<()>().await;
    });
}

#[test]
fn e9_a_forked_process_does_not_affect_the_program_of_its_parent() {
    assert!(alone("inner_fork").wait().unwrap().success());
}

#[test]
#[ignore = "run by e9_a_forked_process_does_not_affect_the_program_of_its_parent, in a process of its own"]
#[expect(unsafe_code, reason = "there is no safe way to fork")]
fn inner_fork() {
    let runtime = runtime(&mut Builder::new_current_thread());
    let client = fake(&[]);
    let before = runtime.block_on(pid(&client));
    // SAFETY: except for those of the test harness, no other thread of this process holds a lock
    // while the runtime is idle; the child only drops the client, then exits without cleaning up.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            drop(client);
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
        }
        nix::unistd::ForkResult::Parent { child } => {
            nix::sys::wait::waitpid(child, None).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(300));
            assert_eq!(runtime.block_on(pid(&client)), before);
            // The child has ended, so no other process holds the pipes.
            runtime.block_on(async {
                client.disconnect().await;
                eventually("the server's end", || !exists(before)).await;
            });
        }
    }
}
