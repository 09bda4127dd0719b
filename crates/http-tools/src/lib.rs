//! HTTP endpoints as tools, declared instead of programmed: [`HttpTool`] is one tool;
//! [`OpenApiEntry::tools`] creates a tool for each selected operation of an OpenAPI document.
//!
//! Arguments from a model only fill placeholders of a request: they cannot change the host or the
//! structure of the path. Requests follow the egress policy of `pillion-egress`; responses have a
//! size limit and a timeout.
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

mod api_access;
mod digest;
mod entry;
mod error;
mod openapi;
mod request;
mod response;
mod status;
mod tool;
mod url_template;

pub use entry::HttpToolEntry;
pub use error::HttpToolError;
pub use openapi::OpenApiEntry;
pub use status::StatusRange;
pub use tool::HttpTool;
