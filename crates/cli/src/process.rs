//! Settings of this process, and its runtimes.

use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use super::dispatch::CommandResult;
use super::error::CliError;

/// Excludes the memory of this process, which contains credentials, tokens and the key of the
/// vault, from core dumps, and makes it inaccessible to other processes of the same user.
pub(crate) fn protect_memory() {
    // Failures are ignored, because the program must be able to start on an old kernel that does
    // not support these restrictions. The flag that forbids core dumps is set in addition to the
    // size limit, because the limit does not apply to core dumps that the kernel pipes to a
    // program.
    let _ = prctl::set_dumpable(false);
    if let Ok((_, hard_limit)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard_limit);
    }
}

/// Makes new files accessible only to this user by default. Must be called before any thread
/// starts.
pub(crate) fn restrict_new_files() {
    umask(Mode::from_bits_truncate(0o077));
}

/// Runs a server until the server ends. Tasks that are still running are abandoned.
pub(crate) fn run_without_joining<E: Into<CliError>>(
    server: impl Future<Output = Result<(), E>>,
) -> CommandResult {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::Runtime)?;
    let outcome = runtime.block_on(server);
    runtime.shutdown_background();
    pillion_sidecar::logging::flush();
    outcome.map_err(Into::into).map(|()| ExitCode::SUCCESS)
}
