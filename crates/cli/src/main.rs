//! The program `pillion`: the sidecar daemon and its command-line client.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion::run()
}
