use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::form_urlencoded;

use crate::{Fault, FaultServer, Recorded, Recorder, Reply};

/// A fake MCP server (POST-SSE) that requires a token, and its authorization server, at one origin.
/// All issued secrets begin with `hush-`.
#[derive(Debug)]
pub struct FakeOAuth {
    /// The URL of the MCP server.
    pub url: String,
    /// The issuer of the authorization server, which equals the origin.
    pub issuer: String,
    /// The requests to both servers.
    pub requests: Recorder,
    state: Arc<Mutex<State>>,
    _server: FaultServer,
}

/// The behavior of the fake servers. By default, they behave correctly.
#[derive(Debug, Clone, Default)]
pub struct OAuthRules {
    /// The `expires_in` of access tokens, in seconds.
    pub expires_in: Option<u64>,
    /// Whether the server issues refresh tokens, each of which can be used once.
    pub refresh: bool,
    /// The delay of a token response.
    pub token_delay: Duration,
    /// The scope in the challenge for a request without a token.
    pub scope: Option<String>,
    /// The scope that `tools/call` requires.
    pub call_scope: Option<String>,
    /// Whether the server issues tokens without a scope.
    pub narrow: bool,
    /// Whether the server requires another scope after each rejection for a missing scope.
    pub greedy: bool,
    /// Whether the user denies the authorization.
    pub refuses: bool,
    /// The responses to specific paths, instead of the usual ones.
    pub faults: HashMap<String, Vec<Fault>>,
    /// The issuer in the authorization server's metadata, if it differs from the origin.
    pub other_issuer: Option<String>,
    /// Changed members of the authorization server's metadata; null removes a member.
    pub metadata: Value,
}

#[derive(Debug, Default)]
struct State {
    rules: OAuthRules,
    /// The valid access tokens, with their scopes.
    access: HashMap<String, String>,
    refresh: HashMap<String, String>,
    issued: usize,
}

impl OAuthRules {
    /// Returns the default rules, with one scope for connecting and another for calls.
    #[must_use]
    pub fn with_scopes(scope: &str, call_scope: &str) -> Self {
        Self {
            scope: Some(scope.to_owned()),
            call_scope: Some(call_scope.to_owned()),
            ..Self::default()
        }
    }

    /// Returns the default rules, with refresh tokens.
    #[must_use]
    pub fn refreshing() -> Self {
        Self {
            refresh: true,
            ..Self::default()
        }
    }
}

impl FakeOAuth {
    /// Starts the servers.
    ///
    /// # Panics
    /// If there is no free port, or if called outside a tokio runtime.
    pub fn start(rules: OAuthRules) -> Self {
        let listener = TcpListener::from_std(crate::listen()).unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            rules,
            ..State::default()
        }));
        let (answering, origin) = (Arc::clone(&state), issuer.clone());
        let server = FaultServer::on(listener, move |request| {
            answering.lock().unwrap().respond(&origin, request)
        });
        Self {
            url: server.url.clone(),
            issuer,
            requests: server.requests.clone(),
            state,
            _server: server,
        }
    }

    /// Changes the behavior of the servers.
    ///
    /// # Panics
    /// If another call of this method has panicked.
    pub fn change(&self, change: impl FnOnce(&mut OAuthRules)) {
        change(&mut self.state.lock().unwrap().rules);
    }

    /// Revokes all access tokens, but no refresh tokens.
    ///
    /// # Panics
    /// If another method call has panicked.
    pub fn revoke(&self) {
        self.state.lock().unwrap().access.clear();
    }

    /// Revokes all refresh tokens.
    ///
    /// # Panics
    /// If another method call has panicked.
    pub fn revoke_refresh_tokens(&self) {
        self.state.lock().unwrap().refresh.clear();
    }

    /// Returns the forms of the token requests that the server has received.
    #[must_use]
    pub fn token_requests(&self) -> Vec<HashMap<String, String>> {
        let requests = self.requests_to("/token");
        requests.iter().map(|request| form(&request.body)).collect()
    }

    /// Returns the requests to one path that the server has received.
    #[must_use]
    pub fn requests_to(&self, path: &str) -> Vec<Recorded> {
        let mut requests = self.requests.all();
        requests.retain(|request| request.path == path);
        requests
    }
}

impl State {
    fn respond(&mut self, origin: &str, request: &Recorded) -> Vec<Fault> {
        let path = request.path.split('?').next().unwrap_or_default();
        if let Some(faults) = self.rules.faults.get(path) {
            return faults.clone();
        }
        let issuer = self.rules.other_issuer.as_deref().unwrap_or(origin);
        match path {
            "/.well-known/oauth-protected-resource/sse" => ok(&json!({
                "resource": format!("{origin}/sse"), "authorization_servers": [issuer],
            })),
            "/.well-known/oauth-authorization-server" => ok(&self.metadata(origin)),
            "/register" => ok(&json!({
                "client_id": "registered", "client_secret": "hush-registered",
                "redirect_uris": request.json()["redirect_uris"],
            })),
            "/authorize" => self.authorize(origin, request),
            "/token" => {
                let mut response = vec![Fault::Wait(self.rules.token_delay)];
                response.extend(self.token(&form(&request.body)));
                response
            }
            "/sse" => self.mcp(origin, request),
            _ => vec![Fault::text("404 Not Found", "")],
        }
    }

    fn metadata(&self, origin: &str) -> Value {
        let mut metadata = metadata(origin, origin);
        metadata["authorization_response_iss_parameter_supported"] = true.into();
        replace_members(&mut metadata, &self.rules.metadata);
        metadata
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        metadata
    }

    /// Redirects the browser back without asking a user, with a code that contains the requested
    /// scope.
    fn authorize(&self, origin: &str, request: &Recorded) -> Vec<Fault> {
        let (_, query) = request.path.split_once('?').unwrap_or_default();
        let parameters = form(query.as_bytes());
        let field = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
        let mut response = form_urlencoded::Serializer::new(String::new());
        if self.rules.refuses {
            response.append_pair("error", "access_denied");
        } else {
            response.append_pair("code", &format!("hush-code-{}", field("scope")));
        }
        response.append_pair("state", field("state"));
        response.append_pair("iss", origin);
        let location = format!("{}?{}", field("redirect_uri"), response.finish());
        vec![Fault::redirect("302 Found", &location)]
    }

    fn token(&mut self, form: &HashMap<String, String>) -> Vec<Fault> {
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        if field("grant_type") == "urn:ietf:params:oauth:grant-type:token-exchange" {
            let kind = "urn:ietf:params:oauth:token-type:id-jag";
            return ok(&json!({
                "access_token": "hush-id-jag", "token_type": "N_A", "issued_token_type": kind,
            }));
        }
        let scope = match field("grant_type") {
            // The code contains the requested scope.
            "authorization_code" if !field("code_verifier").is_empty() => {
                field("code").strip_prefix("hush-code-").map(str::to_owned)
            }
            "refresh_token" => self.refresh.remove(field("refresh_token")),
            "client_credentials" | "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
                Some(field("scope").to_owned())
            }
            _ => None,
        };
        let Some(scope) = scope else {
            let rejection = r#"{"error":"invalid_grant"}"#;
            let json = "application/json";
            return vec![Fault::response("400 Bad Request", json, rejection)];
        };
        self.issued += 1;
        let access = format!("hush-access-{}", self.issued);
        let mut response = json!({"access_token": access, "token_type": "Bearer"});
        if let Some(seconds) = self.rules.expires_in {
            response["expires_in"] = seconds.into();
        }
        if self.rules.refresh {
            let refresh = format!("hush-refresh-{}", self.issued);
            response["refresh_token"] = refresh.clone().into();
            self.refresh.insert(refresh, scope.clone());
        }
        let scope = if self.rules.narrow {
            String::new()
        } else {
            scope
        };
        self.access.insert(access, scope);
        ok(&response)
    }

    fn mcp(&self, origin: &str, request: &Recorded) -> Vec<Fault> {
        if request.method != "POST" {
            return vec![Fault::text("405 Method Not Allowed", "")];
        }
        let token = request.header("authorization").strip_prefix("Bearer ");
        let Some(scope) = token.and_then(|token| self.access.get(token)) else {
            let scope = self
                .rules
                .scope
                .as_ref()
                .map_or(String::new(), |scope| format!(", scope=\"{scope}\""));
            let challenge = format!(
                "Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/sse\"{scope}"
            );
            return rejected("401 Unauthorized", &challenge);
        };
        let needed = self.rules.call_scope.as_deref();
        match needed.filter(|_| request.rpc_method() == "tools/call") {
            Some(needed) if !scope.split(' ').any(|scope| scope == needed) => {
                let more = if self.rules.greedy { self.issued } else { 0 };
                let scopes = format!("{needed} more-{more}");
                let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scopes}\"");
                rejected("403 Forbidden", &challenge)
            }
            _ => roll(request),
        }
    }
}

/// Returns the response of an MCP server with the tool `roll` to an authorized request.
pub(crate) fn roll(request: &Recorded) -> Vec<Fault> {
    let result = Reply::raw_result(match request.rpc_method().as_str() {
        "tools/list" => r#"{"tools":[{"name":"roll","inputSchema":{}}]}"#,
        _ => r#"{"content":[{"type":"text","text":"15"}]}"#,
    });
    let event = format!("data: {}\n\n", result.response(&request.rpc_id()));
    vec![Fault::response("200 OK", "text/event-stream", event)]
}

/// Returns the metadata of an authorization server.
pub(crate) fn metadata(issuer: &str, origin: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "code_challenge_methods_supported": ["S256"],
    })
}

pub(crate) fn replace_members(object: &mut Value, changes: &Value) {
    for (name, value) in changes.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

pub(crate) fn ok(body: &Value) -> Vec<Fault> {
    vec![Fault::json(body.to_string())]
}

pub(crate) fn rejected(status: &str, challenge: &str) -> Vec<Fault> {
    let headers = [("WWW-Authenticate", challenge)];
    vec![Fault::response_with(status, &headers, "")]
}

fn form(body: &[u8]) -> HashMap<String, String> {
    form_urlencoded::parse(body).into_owned().collect()
}
