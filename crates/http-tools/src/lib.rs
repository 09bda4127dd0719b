//! HTTP endpoints as tools (F-304 of seed S1), declared and not programmed: [`HttpTool`] is one,
//! [`OpenApiEntry::tools`] makes one of each operation that was chosen of an OpenAPI document.
//!
//! What a model says fills places in a request and never leaves them: the host and the way through the
//! path are the operator's, whatever stands in an argument. Requests go out under the egress
//! policy of `pillion-core`; answers are read up to a limit and in a time.
//!
//! ```
//! use pillion_core::tool::Tool;
//! use pillion_http_tools::{HttpTool, HttpToolEntry};
//! let entry: HttpToolEntry = serde_json::from_value(serde_json::json!({
//!     "name": "get_order",
//!     "description": "One order, by its number",
//!     "url": "https://shop.example/api/orders/{number}",
//!     "authentication": {"type": "bearer", "token": "s3cret"},
//! }))?;
//! let tool = HttpTool::new(entry)?;
//! assert_eq!(tool.definition().input_schema()["required"], serde_json::json!(["number"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod digest;
mod door;
mod entry;
mod error;
mod openapi;
mod request;
mod status;
mod tool;
mod url_template;

pub use entry::HttpToolEntry;
pub use error::HttpToolError;
pub use openapi::OpenApiEntry;
pub use status::StatusRange;
pub use tool::HttpTool;
