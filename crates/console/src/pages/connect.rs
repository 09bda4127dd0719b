//! The configuration of each client, to copy, and a test of access tokens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use pillion_core::store::Timestamp;
use pillion_gateway::access::{AccessGrant, Scope, Users};
use pillion_gateway::timestamp::format_timestamp;
use pillion_management::RequestError;
use pillion_management::store::require_store;
use pillion_management::tokens::{self, CreatedToken, NewAccessToken, SeenTools};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{PageResult, access, redirect_to};
use crate::Console;
use crate::error::{PageError, Result};
use crate::form::FormFields;
use crate::quote::{quote_dotenv, quote_php, quote_shell};
use crate::ui::{
    Field, FormControl, Page, Tone, card, copyable, count, facts, hidden_fields, name, notice,
    time, untrusted_beginning,
};
use crate::visitor::{Section, Visitor};

/// The text in place of a token, in configurations to which no token was added.
const PLACEHOLDER: &str = "TOKEN";

/// Lifetime of a token that the page creates, in days.
const TOKEN_DAYS: u32 = 90;

/// Maximum length of a list of tools on the page, in bytes.
const MAX_TOOLS_BYTES: usize = 1024;

/// Maximum length of the error of a server, in bytes.
const MAX_ERROR_BYTES: usize = 300;

/// The arguments of the tool that the examples call.
const EXAMPLE_ARGUMENTS: &str = r#"{"expression": "6 * 7"}"#;

/// The body of a call over MCP that needs no session.
const MCP_CALL: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
  "name": "calculator", "arguments": {"expression": "6 * 7"},
  "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}}"#;

/// The settings that make the sidecar listen on TCP and accept tokens that are created here.
const TCP_SETTINGS: &str = "[tcp]\nlisten = \"127.0.0.1:7420\"\ntokens_store = true";

pub(super) fn routes() -> Router<Console> {
    Router::new()
        .route("/connect", get(show))
        .route("/connect/token", get(return_to_page).post(create))
        .route("/connect/try", get(return_to_page).post(try_token))
}

async fn show(State(console): State<Console>, visitor: Visitor) -> PageResult {
    Ok(page(&console, &visitor, &Outcome::default()))
}

/// Redirects from the URL of a form to the page with the form.
async fn return_to_page(visitor: Visitor) -> Response {
    redirect_to(&visitor.href("connect"))
}

/// The outcome of the form that was sent.
#[derive(Default)]
struct Outcome {
    created_token: Option<CreatedToken>,
    trial: Option<Trial>,
}

/// The outcome of the test of a token.
enum Trial {
    Accepted(AccessGrant, SeenTools),
    Rejected(&'static str),
}

/// Returns the URL of the TCP listener for clients on this host; `None` if the sidecar does not
/// listen, or accepts no token.
fn find_base_url(console: &Console) -> Option<String> {
    console.gate.as_ref()?;
    console.listen.map(base_url)
}

fn base_url(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

async fn create(State(console): State<Console>, visitor: Visitor) -> Result<Response> {
    visitor.require(Scope::Admin)?;
    if find_base_url(&console).is_none() || !console.accepts_stored_tokens {
        return Err(PageError::NotFound(
            "The sidecar accepts no tokens of the store.",
        ));
    }
    let store = require_store(&console.gateway).map_err(RequestError::from)?;
    let grant = visitor.grant();
    let expiry = tokens::expiry_after_days(TOKEN_DAYS);
    let latest_expiry = tokens::latest_expiry(&*store, grant).await?;
    let new_token = NewAccessToken {
        name: format!("connect-{}", format_timestamp(Timestamp::now())),
        scope: Scope::Execute,
        users: match grant.only_user() {
            Some(user) => Users::SingleUser(user.to_owned()),
            None => Users::NoUser,
        },
        tools: grant.tools.clone(),
        expires_at: Some(latest_expiry.map_or(expiry, |latest| latest.min(expiry))),
    };
    let created_token = access::new_token::create_token(&console, &visitor, new_token).await?;
    let outcome = Outcome {
        created_token: Some(created_token),
        ..Outcome::default()
    };
    Ok(page(&console, &visitor, &outcome).into_response())
}

async fn try_token(
    State(console): State<Console>,
    visitor: Visitor,
    form: FormFields,
) -> Result<Response> {
    let Some(gate) = &console.gate else {
        return Err(PageError::NotFound("The sidecar accepts no tokens."));
    };
    let token = SecretString::from(form.text("token").unwrap_or_default());
    let (status, trial) = match gate.check(token.expose_secret()).await {
        Ok(Some(grant)) => {
            let seen_tools = tokens::list_seen_tools(&console.gateway, &grant).await;
            (StatusCode::OK, Trial::Accepted(grant, seen_tools))
        }
        Ok(None) => (
            StatusCode::FORBIDDEN,
            Trial::Rejected("The sidecar rejects this token: it is unknown, expired or revoked."),
        ),
        Err(error) => {
            tracing::warn!(%error, "Cannot check the access token that a visitor of the console tries");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                Trial::Rejected("The token cannot be checked now. Try again."),
            )
        }
    };
    let outcome = Outcome {
        trial: Some(trial),
        ..Outcome::default()
    };
    Ok((status, page(&console, &visitor, &outcome)).into_response())
}

fn page(console: &Console, visitor: &Visitor, outcome: &Outcome) -> Markup {
    let base = find_base_url(console);
    let token = outcome
        .created_token
        .as_ref()
        .map_or(PLACEHOLDER, |created| created.token.expose());
    let socket = console.socket.to_string_lossy();
    let clients = clients(&socket, base.as_deref(), token);
    let body = html! {
        p .lead { "Copy the configuration of your client. Programs on this host can connect over the socket, for which they need no token." }
        @if let Some(created_token) = &outcome.created_token { (created_notice(created_token)) }
        @if base.is_some() {
            div .columns {
                (card("Token", None, html! { div .content { (create_form(console, visitor)) } }))
                (card("Try a token", None, html! { div .content { (try_form(visitor, outcome.trial.as_ref())) } }))
            }
        } @else {
            (card("Clients on other hosts", None, html! { div .content {
                p { "The sidecar does not listen on TCP. The configurations below use the socket: " code { "pillion mcp-stdio" } " connects a client's standard input and output with it." }
                p { "To accept clients over TCP, add these settings to the sidecar's configuration, and restart it:" }
                (copyable("enable-tcp", TCP_SETTINGS))
            } }))
        }
        div .columns { @for client in &clients { (client_card(client)) } }
    };
    Page::new("Connect", Section::Connect, body).render(visitor)
}

fn created_notice(created_token: &CreatedToken) -> Markup {
    let record = &created_token.record;
    let content = html! {
        "The configurations below contain the new token " (name(&record.name)) ", which may call tools. "
        @if let Some(expiry) = record.expires_at { "It expires at " (time(&format_timestamp(expiry))) ". " }
        "It is shown only now: copy what you need before you leave this page."
    };
    notice(Tone::Good, content)
}

fn create_form(console: &Console, visitor: &Visitor) -> Markup {
    html! {
        p { "Clients on TCP need an access token. The configurations below have the text " code { (PLACEHOLDER) } " in its place." }
        @if !console.accepts_stored_tokens {
            p .muted { "To create a token here, set " code { "tcp.tokens_store = true" } " in the sidecar's configuration. Otherwise use a token of the configuration." }
        } @else if visitor.may(Scope::Admin) {
            form .stack method="post" action=(visitor.href("connect/token")) {
                (hidden_fields(visitor))
                div { button .primary type="submit" { "Create a token and add it below" } }
            }
            p .muted .small { "The token may read and call tools (scope " code { "execute" } "), and expires after " (TOKEN_DAYS) " days. " a href=(visitor.href("access/new")) { "Create another kind of token" } }
        } @else {
            p .muted { "An operator creates a token with " code { "pillion tokens create" } ", or under Access." }
        }
    }
}

fn try_form(visitor: &Visitor, trial: Option<&Trial>) -> Markup {
    let fault = match trial {
        Some(Trial::Rejected(message)) => Some(*message),
        Some(Trial::Accepted(..)) | None => None,
    };
    html! {
        @if let Some(Trial::Accepted(grant, seen_tools)) = trial { (accepted_trial(grant, seen_tools)) }
        form .stack method="post" action=(visitor.href("connect/try")) {
            (hidden_fields(visitor))
            (Field::new("token", "Access token", FormControl::Secret).with_hint("Shows what the token may do. The token is not stored.").with_fault(fault).render())
            div { button type="submit" { "Try" } }
        }
    }
}

fn accepted_trial(grant: &AccessGrant, seen_tools: &SeenTools) -> Markup {
    let tool_count = count(seen_tools.tools.len() as u64, "tool");
    let offered_count = count(seen_tools.count_offered() as u64, "tool");
    let details = facts([
        ("Name", Some(name(&grant.name))),
        ("Scope", Some(html! { (grant.scope.as_str()) })),
        ("Acts for", Some(access::users(grant))),
        ("Allowed tools", Some(access::tools(grant, MAX_TOOLS_BYTES))),
        ("REST API", Some(html! { (tool_count) })),
        ("MCP", Some(html! { (offered_count) })),
    ]);
    html! {
        div #trial .stack {
            (notice(Tone::Good, html! { "The sidecar accepts this token." }))
            (details)
            @for server in seen_tools.unavailable_servers.iter().take(5) {
                (notice(Tone::Warning, html! { "The tools of " (untrusted_beginning(&server.label, MAX_ERROR_BYTES)) " are missing: " (untrusted_beginning(&server.error, MAX_ERROR_BYTES)) }))
            }
        }
    }
}

/// The configurations of one client.
struct Client {
    name: &'static str,
    snippets: Vec<Snippet>,
}

/// A configuration to copy.
struct Snippet {
    /// The ID of the element.
    id: &'static str,
    /// Where the text belongs.
    hint: &'static str,
    text: String,
}

fn client_card(client: &Client) -> Markup {
    let content = html! {
        div .content { @for snippet in &client.snippets {
            div .stack { p .muted .small { (snippet.hint) } (copyable(snippet.id, &snippet.text)) }
        } }
    };
    card(client.name, None, content)
}

/// Returns the configurations of all clients. Without `base`, the URL of the TCP listener, all use
/// the socket.
fn clients(socket: &str, base: Option<&str>, token: &str) -> Vec<Client> {
    let mut clients = mcp_clients(socket, base, token);
    clients.extend(php_clients(socket, base, token));
    clients.push(curl_client(socket, base, token));
    clients
}

/// Returns the snippets for the socket, and those for TCP if there is a listener.
fn with_tcp(
    socket_snippets: impl Into<Vec<Snippet>>,
    base: Option<&str>,
    to_snippets: impl FnOnce(&str) -> Vec<Snippet>,
) -> Vec<Snippet> {
    let mut snippets = socket_snippets.into();
    snippets.extend(base.map(to_snippets).into_iter().flatten());
    snippets
}

fn mcp_clients(socket: &str, base: Option<&str>, token: &str) -> Vec<Client> {
    let bridge = json!({"command": "pillion", "args": ["mcp-stdio", "--socket", socket]});
    let headers = json!({"Authorization": format!("Bearer {token}")});
    let servers = |key: &str, server: &Value| format!("{:#}", json!({key: {"pillion": server}}));
    let with_type = |transport: &str, server: &Value| {
        let mut typed_server = json!({"type": transport});
        if let (Some(target), Some(members)) = (typed_server.as_object_mut(), server.as_object()) {
            target.extend(members.clone());
        }
        typed_server
    };
    let remote = |base: &str| json!({"url": format!("{base}/mcp"), "headers": &headers});
    vec![
        Client {
            name: "Claude Desktop",
            snippets: vec![Snippet {
                id: "claude-desktop",
                hint: "claude_desktop_config.json, over the socket. If Claude Desktop does not find \
                       the program, use its absolute path as the command.",
                text: servers("mcpServers", &bridge),
            }],
        },
        Client {
            name: "Claude Code",
            snippets: with_tcp(
                [Snippet {
                    id: "claude-code",
                    hint: "A command, over the socket",
                    text: format!(
                        "claude mcp add pillion -- pillion mcp-stdio --socket {}",
                        quote_shell(socket)
                    ),
                }],
                base,
                |base| {
                    vec![Snippet {
                        id: "claude-code-tcp",
                        hint: "A command, over TCP",
                        text: format!(
                            "claude mcp add --transport http pillion {base}/mcp --header {}",
                            quote_shell(&format!("Authorization: Bearer {token}"))
                        ),
                    }]
                },
            ),
        },
        Client {
            name: "VS Code",
            snippets: with_tcp(
                [Snippet {
                    id: "vscode",
                    hint: ".vscode/mcp.json, over the socket",
                    text: servers("servers", &with_type("stdio", &bridge)),
                }],
                base,
                |base| {
                    vec![Snippet {
                        id: "vscode-tcp",
                        hint: ".vscode/mcp.json, over TCP",
                        text: servers("servers", &with_type("http", &remote(base))),
                    }]
                },
            ),
        },
        Client {
            name: "Cursor",
            snippets: with_tcp(
                [Snippet {
                    id: "cursor",
                    hint: "~/.cursor/mcp.json, over the socket",
                    text: servers("mcpServers", &bridge),
                }],
                base,
                |base| {
                    vec![Snippet {
                        id: "cursor-tcp",
                        hint: "~/.cursor/mcp.json, over TCP",
                        text: servers("mcpServers", &remote(base)),
                    }]
                },
            ),
        },
    ]
}

fn php_clients(socket: &str, base: Option<&str>, token: &str) -> Vec<Client> {
    let (php_socket, php_token) = (quote_php(socket), quote_php(token));
    vec![
        Client {
            name: "PHP with the extension",
            snippets: with_tcp(
                [Snippet {
                    id: "php",
                    hint: "Over the socket",
                    text: format!(
                        "$sidecar = new Pillion\\Sidecar({php_socket});\n\
                         echo $sidecar->callTool('calculator', ['expression' => '6 * 7'])['result'], \"\\n\";"
                    ),
                }],
                base,
                |base| {
                    vec![Snippet {
                        id: "php-tcp",
                        hint: "Over TCP, as an MCP client",
                        text: format!(
                            "$client = new Pillion\\McpClient({}, ['api_key' => {php_token}]);\n\
                             echo $client->callTool('calculator', ['expression' => '6 * 7'])->toMessage(), \"\\n\";",
                            quote_php(&format!("{base}/mcp"))
                        ),
                    }]
                },
            ),
        },
        Client {
            name: "PHP with the library",
            snippets: vec![Snippet {
                id: "php-library",
                hint: "Before the first call, over the socket. Needs the Composer package \
                       pillion/pillion.",
                text: format!(
                    "require 'vendor/autoload.php';\n\
                     Pillion\\Sidecar::resolveSocketUsing(fn () => {php_socket});"
                ),
            }],
        },
        Client {
            name: "Laravel",
            snippets: with_tcp(
                [Snippet {
                    id: "laravel",
                    hint: ".env, over the socket. config/pillion.php reads this variable.",
                    text: format!("PILLION_SOCKET={}", quote_dotenv(socket)),
                }],
                base,
                |base| {
                    vec![
                        Snippet {
                            id: "laravel-tcp",
                            hint: "config/pillion.php, over TCP, as an MCP server",
                            text: format!(
                                "'servers' => [\n    'pillion' => [\n        'url' => {},\n        \
                                 'token' => env('PILLION_TOKEN'),\n    ],\n],",
                                quote_php(&format!("{base}/mcp"))
                            ),
                        },
                        Snippet {
                            id: "laravel-token",
                            hint: ".env, for the configuration over TCP",
                            text: format!("PILLION_TOKEN={}", quote_dotenv(token)),
                        },
                    ]
                },
            ),
        },
    ]
}

fn curl_client(socket: &str, base: Option<&str>, token: &str) -> Client {
    let calls = |target: &str, header: &str| {
        let rest = format!(
            "curl {target}/api/v1/tools/execute/calculator{header} \\\n  -d {}",
            quote_shell(EXAMPLE_ARGUMENTS)
        );
        let mcp = format!(
            "curl {target}/mcp{header} \\\n  -H 'Accept: application/json, text/event-stream' \\\n  \
             -H 'MCP-Protocol-Version: 2026-07-28' \\\n  -H 'Mcp-Method: tools/call' \
             -H 'Mcp-Name: calculator' \\\n  -d {}",
            quote_shell(MCP_CALL)
        );
        (rest, mcp)
    };
    let socket_target = format!("--unix-socket {} http://localhost", quote_shell(socket));
    let (rest, mcp) = calls(&socket_target, "");
    let socket_snippets = [
        Snippet {
            id: "curl",
            hint: "The REST API, over the socket",
            text: rest,
        },
        Snippet {
            id: "curl-mcp",
            hint: "MCP, over the socket",
            text: mcp,
        },
    ];
    let authorization = format!("Authorization: Bearer {token}");
    let header = format!(" \\\n  -H {}", quote_shell(&authorization));
    let snippets = with_tcp(socket_snippets, base, |base| {
        let (rest, mcp) = calls(base, &header);
        vec![
            Snippet {
                id: "curl-tcp",
                hint: "The REST API, over TCP",
                text: rest,
            },
            Snippet {
                id: "curl-mcp-tcp",
                hint: "MCP, over TCP",
                text: mcp,
            },
        ]
    });
    Client {
        name: "curl",
        snippets,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn snippets(socket: &str, base: Option<&str>) -> Vec<Snippet> {
        let clients = clients(socket, base, "pln_secret");
        let snippets = clients.into_iter().flat_map(|client| client.snippets);
        snippets.collect()
    }

    fn text(snippets: &[Snippet], id: &str) -> String {
        let snippet = snippets.iter().find(|snippet| snippet.id == id).unwrap();
        snippet.text.clone()
    }

    #[test]
    fn without_tcp_every_configuration_uses_the_socket_and_none_has_a_token() {
        let snippets = snippets("/run/pillion/pillion.sock", None);
        for snippet in &snippets {
            let text = &snippet.text;
            assert!(text.contains("/run/pillion/pillion.sock"), "{text}");
            assert!(!text.contains("pln_"), "{text}");
        }
        let text = text(&snippets, "claude-code");
        assert!(text.ends_with("mcp-stdio --socket /run/pillion/pillion.sock"));
    }

    #[test]
    fn with_tcp_each_configuration_over_tcp_has_the_token() {
        let snippets = snippets("/run/pillion.sock", Some("http://127.0.0.1:7420"));
        let ids: HashSet<_> = snippets.iter().map(|snippet| snippet.id).collect();
        assert_eq!(ids.len(), snippets.len());
        for id in [
            "claude-code-tcp",
            "vscode-tcp",
            "cursor-tcp",
            "php-tcp",
            "laravel-token",
            "curl-tcp",
            "curl-mcp-tcp",
        ] {
            assert!(text(&snippets, id).contains("pln_secret"), "{id}");
        }
        let vscode: Value = serde_json::from_str(&text(&snippets, "vscode-tcp")).unwrap();
        let server = &vscode["servers"]["pillion"];
        assert_eq!(server["type"], "http");
        assert_eq!(server["url"], "http://127.0.0.1:7420/mcp");
        assert_eq!(server["headers"]["Authorization"], "Bearer pln_secret");
    }

    #[test]
    fn a_path_with_special_characters_is_quoted() {
        let path = "/run/it's \"$x\"\\p.sock";
        let snippets = snippets(path, None);
        let desktop: Value = serde_json::from_str(&text(&snippets, "claude-desktop")).unwrap();
        assert_eq!(desktop["mcpServers"]["pillion"]["args"][2], path);
    }

    #[test]
    fn an_address_that_means_every_interface_is_reached_over_the_loopback_interface() {
        for (listen, url) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:7420", "http://[::1]:7420"),
            ("192.0.2.7:7420", "http://192.0.2.7:7420"),
        ] {
            assert_eq!(base_url(listen.parse().unwrap()), url);
        }
    }
}
