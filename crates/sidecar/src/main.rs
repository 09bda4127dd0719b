//! The program `pillion`: the sidecar daemon, and the shell's way to speak to it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion::cli::run()
}
