//! Starts the two processes of a stdio server: the server and its supervisor.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use secrecy::ExposeSecret;

use crate::StdioCommand;

/// The supervisor's script. Waits for the end of its input, which comes when the client's process
/// ends for any reason, and then terminates its process group, including itself. Ignores SIGTERM,
/// which servers may send to their own group.
const SUPERVISOR_SCRIPT: &str =
    "trap '' HUP INT QUIT TERM; read -r _; kill -s TERM 0; sleep 2; kill -s KILL 0";

/// A running server. Its process group has the ID of the supervisor, so the system does not reuse
/// that ID before the supervisor is reaped.
pub(super) struct SpawnedServer {
    pub(super) server: Child,
    /// The supervisor; `None` if there is no shell to run it. The server then leads the group.
    pub(super) supervisor: Option<Child>,
}

impl SpawnedServer {
    pub(super) fn group_id(&self) -> u32 {
        self.supervisor.as_ref().unwrap_or(&self.server).id()
    }
}

/// Starts the supervisor and the server. The calling thread must live as long as both, because the
/// kernel signals the server when that thread ends.
///
/// # Errors
/// The server cannot be started: there is no such program or directory, the permission is missing,
/// or the system cannot create another process.
pub(super) fn spawn(command: &StdioCommand, shell: &Path) -> io::Result<SpawnedServer> {
    if let Some(cwd) = &command.cwd
        && !cwd.is_dir()
    {
        // The directory is checked here, because `spawn` would report a missing directory as a
        // missing program.
        let path = cwd.display();
        let message = format!("the working directory '{path}' is not a directory");
        return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
    }
    let supervisor = match start_supervisor(shell) {
        Ok(supervisor) => Some(supervisor),
        Err(error) => {
            tracing::warn!(
                %error,
                shell = %shell.display(),
                "Cannot start the supervisor of an MCP server: child processes of the server may \
                outlive Pillion if Pillion is killed"
            );
            None
        }
    };
    let variables = command.env.iter();
    let mut server_command = Command::new(&command.program);
    server_command
        .args(&command.args)
        .env_clear()
        .env("PATH", StdioCommand::DEFAULT_PATH)
        .envs(command.inherit_env.iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some((name, value))
        }))
        .envs(variables.map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        server_command.current_dir(cwd);
    }
    let group_id = supervisor
        .as_ref()
        .map_or(0, |supervisor| supervisor.id().cast_signed());
    match isolate(&mut server_command, group_id).spawn() {
        Ok(server) => Ok(SpawnedServer { server, supervisor }),
        Err(error) => {
            if let Some(mut supervisor) = supervisor {
                // Errors are ignored, because `kill` and `wait` fail only if the supervisor has
                // already ended.
                let _ = supervisor.kill();
                let _ = supervisor.wait();
            }
            Err(error)
        }
    }
}

fn start_supervisor(shell: &Path) -> io::Result<Child> {
    let mut command = Command::new(shell);
    command
        .args(["-c", SUPERVISOR_SCRIPT])
        .env_clear()
        .env("PATH", StdioCommand::DEFAULT_PATH)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The supervisor has no parent-death signal, because the kernel could kill it before it has
    // terminated the group.
    command.process_group(0);
    reset_inherited_state(&mut command, None).spawn()
}

/// Puts the process into the group `group_id`, or into a new group if `group_id` is 0. Has the
/// kernel signal the process when the calling thread ends.
fn isolate(command: &mut Command, group_id: i32) -> &mut Command {
    let signal = if group_id == 0 {
        // A server without a supervisor is killed, because no other process would kill it later.
        rustix::process::Signal::KILL
    } else {
        rustix::process::Signal::TERM
    };
    command.process_group(group_id);
    reset_inherited_state(command, Some(signal))
}

/// Resets what a process inherits from the client, and sets the signal that the process gets when
/// its parent thread ends. Blocked signals are unblocked: in PHP, the client's threads block all
/// signals, and a server does not work without SIGTERM or SIGCHLD. File descriptors without
/// close-on-exec are closed: otherwise, the connection of a browser to PHP would stay open while
/// the server runs.
fn reset_inherited_state(
    command: &mut Command,
    parent_death_signal: Option<rustix::process::Signal>,
) -> &mut Command {
    let prepare = move || {
        unblock_signals()?;
        close_on_exec_from(3);
        rustix::process::set_parent_process_death_signal(parent_death_signal)?;
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "std has no other way to run something between fork and exec"
    )]
    // SAFETY: the child only makes system calls, without allocations or locks.
    unsafe {
        command.pre_exec(prepare)
    }
}

#[expect(unsafe_code, reason = "std has no safe function for signal masks")]
fn unblock_signals() -> io::Result<()> {
    // SAFETY: `sigemptyset` initializes the set; both calls are async-signal-safe.
    let result = unsafe {
        let mut empty_set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(empty_set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, empty_set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[expect(unsafe_code, reason = "no crate here wraps close_range")]
fn close_on_exec_from(first_descriptor: libc::c_uint) {
    // SAFETY: the arguments are integers; a kernel before 5.11 returns an error, which has the same
    // effect as omitting the call.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first_descriptor,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}
