//! Starting the two processes of a stdio server: the server itself and its keeper.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use secrecy::ExposeSecret;

use crate::mcp::StdioCommand;

/// What the keeper does: it waits for the end of its input, which comes when we end,
/// however that happens; then it ends its process group, itself included. The group's
/// SIGTERM, which servers send themselves, too, must not end the keeper.
const KEEPER: &str =
    "trap '' HUP INT QUIT TERM; read -r _; kill -s TERM 0; sleep 2; kill -s KILL 0";

/// A running server. Its process group has the keeper's id, and so it cannot become
/// anybody else's before the keeper is reaped.
pub(super) struct Spawned {
    pub(super) server: Child,
    /// None where there is no shell to run it: then the server leads its group itself.
    pub(super) keeper: Option<Child>,
}

impl Spawned {
    pub(super) fn group(&self) -> u32 {
        self.keeper.as_ref().unwrap_or(&self.server).id()
    }
}

/// Starts keeper and server. The calling thread must live as long as they do: the kernel
/// ends them with it.
///
/// # Errors
/// When the server cannot be started: no such program, no such directory, no permission,
/// no more processes.
pub(super) fn spawn(command: &StdioCommand, shell: &Path) -> io::Result<Spawned> {
    if let Some(cwd) = &command.cwd
        && !cwd.is_dir()
    {
        // The error of starting would read as if the program were missing.
        let error = "the working directory is not a directory";
        return Err(io::Error::new(io::ErrorKind::NotADirectory, error));
    }
    let keeper = match start_keeper(shell) {
        Ok(keeper) => Some(keeper),
        Err(error) => {
            tracing::warn!(
                %error,
                shell = %shell.display(),
                "Processes that an MCP server starts may outlive us if we are killed"
            );
            None
        }
    };
    let mut start = Command::new(&command.program);
    start
        .args(&command.args)
        .env_clear()
        .env("PATH", StdioCommand::DEFAULT_PATH)
        .envs(command.inherit_env.iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some((name, value))
        }))
        .envs(
            command
                .env
                .iter()
                .map(|(name, value)| (name, value.expose_secret())),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        start.current_dir(cwd);
    }
    let group = keeper
        .as_ref()
        .map_or(0, |keeper| keeper.id().cast_signed());
    match isolate(&mut start, group).spawn() {
        Ok(server) => Ok(Spawned { server, keeper }),
        Err(error) => {
            if let Some(mut keeper) = keeper {
                // Both can only say that it has ended already.
                let _ = keeper.kill();
                let _ = keeper.wait();
            }
            Err(error)
        }
    }
}

fn start_keeper(shell: &Path) -> io::Result<Child> {
    let mut start = Command::new(shell);
    start
        .args(["-c", KEEPER])
        .env_clear()
        .env("PATH", StdioCommand::DEFAULT_PATH)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The kernel ends the keeper's charge as well as the keeper can, but it must not end
    // the keeper: it has work to do just then.
    start.process_group(0);
    clean(&mut start, None).spawn()
}

/// Puts the process into a group (0: a new one), and has the kernel end it with us.
fn isolate(command: &mut Command, group: i32) -> &mut Command {
    let signal = if group == 0 {
        // Nobody comes after it.
        rustix::process::Signal::KILL
    } else {
        rustix::process::Signal::TERM
    };
    command.process_group(group);
    clean(command, Some(signal))
}

/// Takes off what a process would inherit besides its environment: blocked signals (our
/// threads block all in PHP, and a server that cannot hear SIGTERM or SIGCHLD is broken),
/// and descriptors that were opened without close-on-exec (PHP's sockets among them: a
/// client's connection would stay open for as long as the server runs).
fn clean(command: &mut Command, dies_with_us: Option<rustix::process::Signal>) -> &mut Command {
    let take_off = move || {
        unblock_signals()?;
        close_on_exec_from(3);
        rustix::process::set_parent_process_death_signal(dies_with_us)?;
        Ok(())
    };
    #[expect(
        unsafe_code,
        reason = "std has no other way to run something between fork and exec"
    )]
    // SAFETY: what runs in the child are four system calls: no allocation, no lock.
    unsafe {
        command.pre_exec(take_off)
    }
}

#[expect(unsafe_code, reason = "no safe wrapper of ours needs it anywhere else")]
fn unblock_signals() -> io::Result<()> {
    // SAFETY: `sigemptyset` initialises the set; both calls are async-signal-safe.
    let result = unsafe {
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[expect(unsafe_code, reason = "no crate here wraps close_range")]
fn close_on_exec_from(first: libc::c_uint) {
    // SAFETY: three integers; a kernel before 5.11 answers with an error, and then all is
    // as it would be without the call.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}
