use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http;

/// A small MCP server over HTTP, whose tools and behavior a test can change. Answers each POST with
/// JSON; the tests of the client cover other dialects.
pub struct McpServer {
    pub url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    tools: Value,
    /// The list of tools as JSON text, sent instead of `tools`.
    raw_tools: Option<String>,
    mood: Mood,
    /// The JSON-RPC methods of the requests, in order.
    methods: Vec<String>,
    /// The `Authorization` headers of the requests.
    credentials: Vec<String>,
    /// The `_meta` of the last tool call, and the name of its tool.
    last_meta: Value,
    last_tool: Value,
    /// The account of each token, if tokens are required.
    accounts: Option<HashMap<String, String>>,
    /// The token that opened each session.
    sessions: HashMap<String, String>,
    /// The number of requests whose token differs from that which opened the session.
    strays: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// The server answers every request with status 500.
    Ill,
    /// The server reads a request and answers nothing for a minute.
    Asleep,
}

impl McpServer {
    /// Starts a server with a tool `echo` that accepts any arguments.
    pub fn echo() -> Self {
        Self::start(json!([{"name": "echo", "inputSchema": {"type": "object"}}]))
    }

    pub fn start(tools: Value) -> Self {
        let state = Arc::new(Mutex::new(State {
            tools,
            raw_tools: None,
            mood: Mood::Well,
            methods: Vec::new(),
            credentials: Vec::new(),
            last_meta: Value::Null,
            last_tool: Value::Null,
            accounts: None,
            sessions: HashMap::new(),
            strays: 0,
        }));
        let shared = Arc::clone(&state);
        let address = http::serve(move |stream| {
            // Serving ends when the peer has closed the connection.
            let _: Option<()> = serve(stream, &shared);
        });
        let url = format!("http://{address}/mcp");
        Self { url, state }
    }

    /// Starts a server that requires one of these tokens, each with an account. Lists one more tool
    /// for each account, returns the account of each call, and has sessions.
    pub fn guarded(tools: Value, accounts: &[(&str, &str)]) -> Self {
        let server = Self::start(tools);
        server.set_accounts(accounts);
        server
    }

    pub fn set_accounts(&self, accounts: &[(&str, &str)]) {
        let accounts = accounts
            .iter()
            .map(|(token, who)| ((*token).to_owned(), (*who).to_owned()));
        self.state.lock().unwrap().accounts = Some(accounts.collect());
    }

    /// Returns the number of requests whose token differs from that which opened the session.
    pub fn strays(&self) -> usize {
        self.state.lock().unwrap().strays
    }

    pub fn set_mood(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    pub fn set_tools(&self, tools: Value) {
        self.state.lock().unwrap().tools = tools;
    }

    /// Sets the list of tools as JSON that `Value` may reject.
    pub fn set_raw_tools(&self, tools: String) {
        self.state.lock().unwrap().raw_tools = Some(tools);
    }

    /// Returns how often a method was called.
    pub fn count(&self, method: &str) -> usize {
        let state = self.state.lock().unwrap();
        state
            .methods
            .iter()
            .filter(|called| *called == method)
            .count()
    }

    /// Returns the `_meta` of the last tool call.
    pub fn last_meta(&self) -> Value {
        self.state.lock().unwrap().last_meta.clone()
    }

    /// Returns the name of the tool of the last tool call.
    pub fn last_tool(&self) -> Value {
        self.state.lock().unwrap().last_tool.clone()
    }

    pub fn credentials(&self) -> Vec<String> {
        self.state.lock().unwrap().credentials.clone()
    }
}

/// Serves requests on the connection until the peer closes it.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (verb, headers, body) = read_request(&mut reader)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let mut who = None;
        let mut opened = String::new();
        let (mood, tools, raw_tools) = {
            let mut state = state.lock().unwrap();
            let credential = headers
                .iter()
                .find_map(|line| line.strip_prefix("authorization: "));
            state.credentials.extend(credential.map(str::to_owned));
            state.methods.push(method.clone());
            if method == "tools/call" {
                state.last_meta = request["params"]["_meta"].clone();
                state.last_tool = request["params"]["name"].clone();
            }
            let mut tools = state.tools.clone();
            if let Some(accounts) = &state.accounts {
                let token = credential
                    .and_then(|it| it.strip_prefix("Bearer "))
                    .unwrap_or_default()
                    .to_owned();
                let account = accounts.get(&token).cloned();
                if let (Some(account), Some(tools)) = (&account, tools.as_array_mut()) {
                    let name = format!("files_of_{account}");
                    tools.push(json!({"name": name, "inputSchema": {"type": "object"}}));
                }
                let session = headers
                    .iter()
                    .find_map(|line| line.strip_prefix("mcp-session-id: "));
                if let Some(session) = session
                    && state.sessions.get(session) != Some(&token)
                {
                    state.strays += 1;
                }
                if method == "initialize" && account.is_some() {
                    opened = format!("session-{}", state.sessions.len());
                    state.sessions.insert(opened.clone(), token);
                }
                who = Some(account);
            }
            let raw_tools = state.raw_tools.clone();
            (
                state.mood,
                tools,
                raw_tools.filter(|_| method == "tools/list"),
            )
        };
        if who == Some(None) {
            respond(&mut writer, "401 Unauthorized", "")?;
            continue;
        }
        match mood {
            Mood::Ill => respond(&mut writer, "500 Internal Server Error", "")?,
            Mood::Asleep => thread::sleep(Duration::from_secs(60)),
            Mood::Well if verb != "POST" => respond(&mut writer, "405 Method Not Allowed", "")?,
            Mood::Well if request["id"].is_null() => respond(&mut writer, "202 Accepted", "")?,
            Mood::Well => {
                let listed = tools.to_string();
                let mut response = rpc_response(&method, &request["params"], &tools);
                response["jsonrpc"] = json!("2.0");
                response["id"] = request["id"].clone();
                if let (Some(Some(who)), "tools/call") = (who, method.as_str()) {
                    response["result"]["structuredContent"]["account"] = json!(who);
                }
                let status = match opened.as_str() {
                    "" => "200 OK".to_owned(),
                    session => format!("200 OK\r\nmcp-session-id: {session}"),
                };
                let text = match raw_tools {
                    Some(tools) => response.to_string().replacen(&listed, &tools, 1),
                    None => response.to_string(),
                };
                respond(&mut writer, &status, &text)?;
            }
        }
    }
}

fn rpc_response(method: &str, params: &Value, tools: &Value) -> Value {
    match method {
        "initialize" => json!({"result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }}),
        "tools/list" => json!({"result": {"tools": tools}}),
        "tools/call" if params["name"] == "picture" => json!({"result": {
            "content": [
                {"type": "text", "text": "a picture"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
            ],
        }}),
        "tools/call" if params["name"] == "fresh" => json!({"result": {
            "content": [{"type": "text", "text": "fresh"}],
            "structuredContent": {"fresh": true},
            "ttlMs": 60_000,
            "cacheScope": "public",
        }}),
        "tools/call" if params["name"] == "broken" => json!({"result": {
            "content": [{"type": "text", "text": "out of paper"}],
            "isError": true,
        }}),
        "tools/call" if params["name"] == "refused" => {
            json!({"error": {"code": -32600, "message": "Invalid Request"}})
        }
        "tools/call" => json!({"result": {
            "content": [
                {"type": "text", "text": format!("called {}", params["name"])},
                {"type": "text", "text": "twice"},
            ],
            "structuredContent": {"echo": params["arguments"]},
        }}),
        "resources/list" => json!({"result": {"resources": [
            {"uri": "memo://one", "name": "one", "mimeType": "text/plain"},
            {"uri": "memo://bytes", "name": "bytes"},
        ]}}),
        "resources/read" => match params["uri"].as_str() {
            Some("memo://one") => json!({"result": {"contents": [
                {"uri": "memo://one", "mimeType": "text/plain", "text": "milk & honey"},
                {"uri": "memo://one/more", "text": "more"},
            ]}}),
            Some("memo://bytes") => json!({"result": {"contents": [
                {"uri": "memo://bytes", "blob": "AA=="},
            ]}}),
            _ => json!({"error": {"code": -32002, "message": "Resource not found"}}),
        },
        _ => json!({"error": {"code": -32601, "message": "Method not found"}}),
    }
}

/// Reads a request, and returns the method, the headers in lower case, and the body.
pub fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<String>, Vec<u8>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let verb = lines.first()?.split(' ').next()?.to_owned();
    let headers: Vec<_> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| format!("{}: {value}", name.to_lowercase()))
        .collect();
    let length = headers
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((verb, headers, body))
}

fn respond(writer: &mut TcpStream, status: &str, body: &str) -> Option<()> {
    let length = body.len();
    write!(
        writer,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .ok()
}

/// Returns a handler of a fake server that always returns this result.
pub fn fixed(result: Value) -> impl Fn(&Value) -> pillion_testkit::Reply + Send + Sync + 'static {
    move |_| pillion_testkit::Reply::result(&result)
}

/// Returns the configuration of a server with Streamable HTTP. `more` contains further settings of
/// the server, and then other sections.
pub fn server_entry(label: &str, url: &str, more: &str) -> String {
    detected_entry(
        label,
        url,
        &format!("transport = \"streamable_http\"\n{more}"),
    )
}

/// Returns the configuration of a server whose transport is detected, like [`server_entry`].
pub fn detected_entry(label: &str, url: &str, more: &str) -> String {
    format!("[[mcp_servers]]\nlabel = \"{label}\"\nurl = \"{url}\"\n{more}\n")
}
