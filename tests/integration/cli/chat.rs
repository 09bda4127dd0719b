//! `pillion chat` without a configured model.

use crate::prelude::*;

fn chat(daemon: &Daemon, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = pillion(&[&["chat"], arguments].concat());
    run_with_input(command.env("PILLION_SOCKET", &daemon.socket), input)
}

#[test]
fn h7_a_message_that_is_too_long_is_refused_with_the_limit() {
    let daemon = Daemon::start();
    let mut line = vec![b'a'; 2 * 1024 * 1024];
    line.push(b'\n');
    let expected = "longer than 1048576 bytes";
    assert_contains!(failure(&chat(&daemon, &[], &line), 1), expected);
}

#[test]
fn h7_an_endless_line_is_not_read_to_the_end() {
    let daemon = Daemon::start();
    let output = chat(&daemon, &[], &vec![0; 65 * 1024 * 1024]);
    assert_contains!(failure(&output, 2), "larger than 67108864 bytes");
}

#[test]
fn h7_an_empty_message_is_not_sent() {
    let daemon = Daemon::start();
    let expected = "pillion: the message is empty: pass a text\n";
    assert_eq!(failure(&chat(&daemon, &["  "], b""), 2), expected);
}
