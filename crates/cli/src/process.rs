//! Settings of this process, and its runtimes.

use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use super::dispatch::CommandResult;
use super::error::CliError;

/// Keeps the memory of this process, which contains credentials, tokens and the key of the vault,
/// out of core dumps and inaccessible to other processes of the user.
pub(crate) fn protect_memory() {
    // Failures are ignored: both calls only restrict this process, and an old kernel that does not
    // support them must not prevent a start. The flag also prevents core dumps that are piped to a
    // program, which the limit does not.
    let _ = prctl::set_dumpable(false);
    if let Ok((_, max)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, max);
    }
}

/// Makes new files accessible only to this user by default. Must be called before any thread
/// starts.
pub(crate) fn restrict_new_files() {
    umask(Mode::from_bits_truncate(0o077));
}

/// Runs a server until it ends, without waiting for remaining tasks.
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
