//! A tool that does what its arguments request, and reports the outcome.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

wit_bindgen::generate!({
    path: "../../../crates/wasm-tools/wit",
    world: "tool",
});

use pillion::tool::http::{Error, Request, send};
use pillion::tool::types::{Effects, ErrorCode};

struct Probe;

/// The number of calls of this instance.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Guest for Probe {
    fn describe() -> Definition {
        Definition {
            description: "Tries what it is told".to_owned(),
            input_schema: json!({"type": "object", "required": ["do"]}).to_string(),
            category: None,
            requires_confirmation: false,
            effects: Effects::Destroys,
        }
    }

    fn call(arguments: String, context: Context) -> Result<Output, Failure> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        let done = match text("do").as_str() {
            "context" => Ok(json!([
                context.call_id,
                context.user,
                context.user_is_verified,
                context.channel
            ])),
            "count" => Ok(json!(CALLS.fetch_add(1, Ordering::Relaxed) + 1)),
            "environment" => Ok(std::env::vars()
                .map(|(name, value)| json!([name, value]))
                .collect()),
            "arguments" => Ok(std::env::args().collect()),
            "read" => std::fs::read_to_string(text("path"))
                .map(Value::from)
                .map_err(|error| error.to_string()),
            "write" => std::fs::write(text("path"), text("text"))
                .map(|()| json!("written"))
                .map_err(|error| error.to_string()),
            "remove" => std::fs::remove_file(text("path"))
                .map(|()| json!("removed"))
                .map_err(|error| error.to_string()),
            "list" => list(&text("path")),
            "connect" => std::net::TcpStream::connect(text("to"))
                .map(|_| json!("connected"))
                .map_err(|error| error.to_string()),
            "send" => fetch(&arguments),
            "time" => Ok(json!(
                SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap()
                    .as_secs()
            )),
            "sleep" => {
                std::thread::sleep(Duration::from_secs(
                    arguments["seconds"].as_u64().unwrap_or(3600),
                ));
                Ok(json!("slept"))
            }
            "spin" => loop {
                std::hint::black_box(0);
            },
            "allocate" => {
                let bytes = arguments["bytes"].as_u64().unwrap_or_default() as usize;
                Ok(json!(std::hint::black_box(vec![1_u8; bytes]).len()))
            }
            "chatter" => {
                for _ in 0..10_000 {
                    println!("to nobody");
                    eprintln!("to nobody as well");
                }
                Ok(json!("said"))
            }
            "panic" => panic!("as it was told"),
            "exit" => std::process::exit(3),
            "output" => {
                let bytes = arguments["bytes"].as_u64().unwrap_or_default() as usize;
                return Ok(Output::Text("x".repeat(bytes)));
            }
            other => Err(format!("What is '{other}'?")),
        };
        match done {
            Ok(value) => Ok(Output::Json(value.to_string())),
            Err(message) => Err(Failure {
                code: ErrorCode::Denied,
                message,
                retry_after: Some(7),
            }),
        }
    }
}

fn list(path: &str) -> Result<Value, String> {
    let entries = std::fs::read_dir(path).map_err(|error| error.to_string())?;
    let names =
        entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<_> = names
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    names.sort();
    Ok(json!(names))
}

fn fetch(arguments: &Value) -> Result<Value, String> {
    let headers = arguments["headers"].as_object().into_iter().flatten();
    let request = Request {
        method: arguments["method"].as_str().unwrap_or("GET").to_owned(),
        url: arguments["url"].as_str().unwrap_or_default().to_owned(),
        headers: headers
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
        body: arguments["body"].as_str().unwrap_or_default().into(),
    };
    match send(&request) {
        Ok(response) => Ok(json!([
            response.status,
            String::from_utf8_lossy(&response.body)
        ])),
        Err(Error::InvalidRequest(what)) => Err(format!("invalid: {what}")),
        Err(Error::Denied(what)) => Err(format!("denied: {what}")),
        Err(Error::TooLong) => Err("too long".to_owned()),
        Err(Error::Unavailable(what)) => Err(format!("unavailable: {what}")),
    }
}

export!(Probe);
