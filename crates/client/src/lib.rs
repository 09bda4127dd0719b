//! The blocking client of the sidecar: HTTP/1.1 over a Unix socket.
//!
//! The client starts no threads and no runtime, so a process with a [`Client`] can fork: the child
//! process detects the fork and opens new connections. Connections are kept alive between calls.
//! Each call has one deadline, from connecting to the last byte of the response.
//!
//! ```no_run
//! use pillion_client::{Caller, Client};
//! use pillion_wire::ExecuteResponse;
//! use serde_json::json;
//!
//! let client = Client::new(pillion_client::default_socket_path());
//! let caller = Caller::default().user("alice");
//! match client.execute("calculator", &json!({"expression": "2 + 2"}), &caller)? {
//!     ExecuteResponse::Executed(execution) => println!("{}", execution.result.text),
//!     ExecuteResponse::NotFound(failure) => eprintln!("{}", failure.error),
//! }
//! # Ok::<(), pillion_client::ClientError>(())
//! ```
//!
//! [`Client::request`] sends a request to any route of [`route`](pillion_wire::route):
//!
//! ```no_run
//! # use pillion_client::{Caller, Client};
//! use pillion_wire::route;
//! # let client = Client::new("/run/pillion/pillion.sock");
//! let alice = Caller::default().user("alice");
//! let response = client
//!     .request(route::LIST_TOOLS, [])
//!     .query([("category", "math")])
//!     .caller(&alice)
//!     .send()?;
//! for tool in response.decode()?.tools {
//!     println!("{}", tool.name);
//! }
//! # Ok::<(), pillion_client::ClientError>(())
//! ```

mod batch;
mod caller;
mod client;
mod error;
mod request;
mod response;
mod socket_path;
mod transport;

pub use batch::BatchPart;
pub use caller::Caller;
pub use client::{Client, ClientBuilder, Stream};
pub use error::ClientError;
pub use request::Request;
pub use response::Response;
pub use socket_path::{SOCKET_VARIABLE, default_socket_path, is_non_socket_file};

/// The request and response bodies of the API.
pub use pillion_wire as wire;
