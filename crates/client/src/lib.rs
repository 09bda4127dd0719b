//! The blocking client of the sidecar: HTTP/1.1 over a Unix socket.
//!
//! It starts no threads and no runtime, so a process may fork with a [`Client`] in hand:
//! the child notices and opens connections of its own. Connections are kept alive between
//! calls; every call has one deadline over all it does, from connecting to the last byte.
//!
//! ```no_run
//! use pillion_client::{Caller, Client};
//! use pillion_wire::Answer;
//! use serde_json::json;
//!
//! let client = Client::new(pillion_client::default_socket_path());
//! let caller = Caller::default().user("alice");
//! match client.execute("calculator", &json!({"expression": "2 + 2"}), &caller)? {
//!     Answer::Ran(execution) => println!("{}", execution.result.text),
//!     Answer::Refused(failure) => eprintln!("{}", failure.error),
//! }
//! # Ok::<(), pillion_client::ClientError>(())
//! ```
//!
//! [`Client::raw`] has the same calls without the decoding: the extension turns the bytes
//! into PHP values in one pass.

mod caller;
mod client;
mod error;
mod raw;
mod socket_path;
mod transport;

pub use caller::Caller;
pub use client::{Client, ClientBuilder, Stream};
pub use error::ClientError;
pub use raw::{BatchPart, Raw};
pub use socket_path::{SOCKET_VARIABLE, default_socket_path, is_another_file};

/// The bodies that the client sends and receives.
pub use pillion_wire as wire;
