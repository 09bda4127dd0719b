use std::convert::Infallible;
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::request_memory::RequestMemory;
use crate::app::App;
use crate::current_app::CurrentApp;
use pillion_gateway::access::{
    AccessGate, AccessGrant, AccessRejection, Admission, AllowedTools, GrantHolder, Peer, Scope,
    TokenValidity, Users,
};
use pillion_gateway::waiting_bytes::ConnectionBytes;

/// Returns the scope that a request needs. For a path without a route, any valid token may see that
/// there is no such route.
fn required_scope(request: &Parts) -> Scope {
    match request.extensions.get::<MatchedPath>() {
        Some(_) => Scope::required_scope(&request.method, request.uri.path()),
        None => Scope::Read,
    }
}

/// Returns the grant of a process on the Unix socket, which may do everything.
pub(super) fn local_grant(peer: Option<&Peer>) -> AccessGrant {
    AccessGrant {
        name: match peer {
            Some(Peer::Process { uid, .. }) => format!("uid:{uid}"),
            // Only a caller that uses the router directly, such as a test, has no peer.
            _ => "in-process".to_owned(),
        },
        holder: GrantHolder::LocalUser,
        scope: Scope::Admin,
        users: Users::Anybody,
        tools: AllowedTools::default(),
    }
}

/// Extracts the validity of the request's token. Without a token, the validity is unlimited.
impl FromRequestParts<App> for TokenValidity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Authenticates the request and stores its grant as an extension, or rejects the request. Every
/// request over TCP needs a valid token. A request over the Unix socket needs none, because the
/// socket's permissions and rules admitted its connection.
pub(super) async fn enter(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let grant = match parts.extensions.get::<Peer>() {
        Some(Peer::Network { .. }) => {
            let Some(gate) = &app.access().gate else {
                return AccessRejection::Closed.into_response();
            };
            let grant = match gate.enter(&parts, required_scope(&parts)).await {
                Ok(grant) => grant,
                Err(rejection) => return rejection.into_response(),
            };
            if let Some(grant) = &grant {
                let admission = parts.extensions.get::<Arc<Admission>>();
                if let Some(admission) = admission.map(Arc::clone)
                    && !admission.admit(&grant.principal()).await
                {
                    return AccessRejection::Full.into_response();
                }
                let current_app = parts.extensions.get().map(CurrentApp::downgrade);
                let token_validity = AccessGate::token_validity(&parts, grant, move || {
                    let current_app = current_app.as_ref()?()?;
                    current_app.app().access().gate.clone()
                });
                parts.extensions.insert(token_validity);
            }
            grant
        }
        local => Some(local_grant(local)),
    };
    let memory = RequestMemory::for_body(body.size_hint().upper(), &app, grant.as_ref());
    if let Some(grant) = grant {
        tracing::Span::current().record("client", &grant.name);
        if let Some(waiting) = parts.extensions.get::<ConnectionBytes>() {
            waiting.set_principal(&grant.principal());
        }
        parts.extensions.insert(grant);
    }
    if let Some(memory) = &memory {
        parts.extensions.insert(memory.clone());
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    match memory {
        Some(memory) => memory.hold(response),
        None => response,
    }
}
