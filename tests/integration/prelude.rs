//! Imports that many test modules use.

pub use std::io::{BufRead, BufReader, Read, Write};
pub use std::os::unix::net::UnixStream;
pub use std::path::{Path, PathBuf};
pub use std::process::{Command, Output, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::thread;
pub use std::time::{Duration, Instant};

pub use nix::sys::signal::Signal;
pub use pillion_client::{Caller, Client};
pub use pillion_testkit::{Dialect, FakeLlm, FakeMcp, Fault, FaultServer, LlmResponse, Peer};
pub use pillion_wire::{ExecuteResponse, route};
pub use serde_json::{Value, json};

pub use crate::assertions::{ExpectExecution, ExpectJson};
pub use crate::http::Rest;
pub use crate::mcp_server::{McpServer, Mood, detected_entry, fixed, server_entry};
pub use crate::program::{
    Daemon, eventually, eventually_some, failure, pillion, run, run_with_input, stderr, stdout,
    stdout_json, success,
};
pub use crate::reload::reload;
pub use crate::routes::mcp::{Session, ask, call_request, cancellation, hello, stateless};
pub use crate::sidecar::Sidecar;
pub(crate) use crate::{http, program};
