use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::Dialect;
use super::server::{Server, event_stream};
use crate::{Recorded, Reply};

const SESSION_ID: &str = "mcp-session-id";

/// Routes all requests to one function, which first records the request.
pub(super) fn router(server: Arc<Server>) -> Router {
    Router::new().fallback(handle).with_state(server)
}

async fn handle(State(server): State<Arc<Server>>, request: Request) -> Response {
    let request = record(&server, request).await;
    let path = request.path.split('?').next().unwrap_or_default();
    let legacy = matches!(server.dialect, Dialect::LegacySse(_));
    let has_stream = legacy || server.dialect == Dialect::GetSse;
    match (request.method.as_str(), path) {
        ("GET", "/sse") if has_stream => event_stream(server.open_stream()),
        ("POST", "/sse") if server.dialect == Dialect::GetSse => {
            respond_on_stream(&server, &request, None).await
        }
        ("POST", "/messages") if legacy => {
            let stream = request.path.split_once("session=").map(|(_, id)| id);
            if stream.is_some_and(|stream| server.has_forgotten(stream)) {
                return StatusCode::NOT_FOUND.into_response();
            }
            respond_on_stream(&server, &request, stream).await
        }
        ("POST", "/sse") if server.dialect == Dialect::PostSse => {
            respond_directly(&server, &request).await
        }
        ("POST", "/mcp") if server.dialect == Dialect::PlainHttp => {
            respond_directly(&server, &request).await
        }
        ("POST", "/mcp") if server.dialect == Dialect::Stateless => {
            super::stateless::handle(&server, &request).await
        }
        ("POST" | "DELETE", "/mcp") if is_streamable(&server) => {
            respond_in_session(&server, &request).await
        }
        ("GET", "/mcp") if is_streamable(&server) && server.listens => {
            respond_in_session(&server, &request).await
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn is_streamable(server: &Server) -> bool {
    matches!(
        server.dialect,
        Dialect::StreamableJson | Dialect::StreamableSse
    )
}

async fn record(server: &Server, request: Request) -> Recorded {
    let (head, body) = request.into_parts();
    let request = Recorded {
        method: head.method.to_string(),
        path: head
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned(),
        headers: head.headers,
        body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
    };
    server.requests.add(request.clone());
    request
}

/// Returns an HTTP response that contains the JSON-RPC response to the request; 202 for a
/// notification.
async fn respond_directly(server: &Server, request: &Recorded) -> Response {
    let Some(response) = response(server, request).await else {
        return StatusCode::ACCEPTED.into_response();
    };
    if matches!(server.dialect, Dialect::PostSse | Dialect::StreamableSse) {
        let event = format!("data: {response}\n\n");
        return ([(CONTENT_TYPE, "text/event-stream")], event).into_response();
    }
    ([(CONTENT_TYPE, "application/json")], response).into_response()
}

async fn respond_in_session(server: &Server, request: &Recorded) -> Response {
    let session = request.header(SESSION_ID);
    if request.method == "POST" && request.rpc_method() == "initialize" {
        let mut response = respond_directly(server, request).await;
        let session = server.open_session();
        let headers = response.headers_mut();
        headers.insert(SESSION_ID, session.parse().unwrap());
        return response;
    }
    match session {
        "" => StatusCode::BAD_REQUEST.into_response(),
        unknown if !server.knows_session(unknown) => StatusCode::NOT_FOUND.into_response(),
        session if request.method == "DELETE" => {
            server.end_session(session);
            StatusCode::NO_CONTENT.into_response()
        }
        _ if request.method == "GET" => event_stream(server.open_stream()),
        _ => respond_directly(server, request).await,
    }
}

async fn respond_on_stream(
    server: &Arc<Server>,
    request: &Recorded,
    stream: Option<&str>,
) -> Response {
    let stream = stream.map(str::to_owned);
    let (answering, request) = (Arc::clone(server), request.clone());
    tokio::spawn(async move {
        if let Some((reply, response)) = reply_and_response(&answering, &request).await {
            answering.send(stream.as_deref(), &response);
            if reply.is_last {
                answering.close_streams();
            }
        }
    });
    tokio::time::sleep(server.accepts_after).await;
    server.accept();
    (StatusCode::ACCEPTED, "Accepted").into_response()
}

/// Returns the response to a request; `None` for a notification or a response.
async fn response(server: &Server, request: &Recorded) -> Option<String> {
    let (_, response) = reply_and_response(server, request).await?;
    Some(response)
}

async fn reply_and_response(server: &Server, request: &Recorded) -> Option<(Reply, String)> {
    let message: Value = request.json();
    let method = message["method"].as_str()?;
    let id = message.get("id")?;
    let reply = server.reply(method, &message["params"]);
    tokio::time::sleep(reply.delay).await;
    let response = reply.response(&id.to_string());
    Some((reply, response))
}
