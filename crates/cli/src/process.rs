//! Settings of this process, and its runtimes.

use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use super::dispatch::CommandResult;
use super::error::CliError;

/// Keeps the memory of this process out of core dumps, and out of reach of other processes of the
/// user: it contains credentials, tokens and the key of the vault.
pub(crate) fn protect_memory() {
    // Both calls only lower what this process may do, and an old kernel's refusal must not prevent a
    // start. A core dump that is piped to a program ignores the limit, but not the flag.
    let _ = prctl::set_dumpable(false);
    if let Ok((_, max)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, max);
    }
}

/// Makes new files accessible only to this user, unless a setting says otherwise. Called before any
/// thread starts.
pub(crate) fn restrict_new_files() {
    umask(Mode::from_bits_truncate(0o077));
}

/// Runs a server until it ends, without waiting for tasks that still run then.
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
