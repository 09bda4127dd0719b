//! `/mcp`: the MCP server over HTTP.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::body::Body;
use super::caller::Caller;
use super::error::RequestError;
use crate::app::App;
use crate::mcp_server::http::Exchange;
use crate::mcp_server::{self, message};

/// `?model=NAME`: only the tools that the model of that name may see (H2).
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    model: Option<String>,
}

type AskedQuery = Result<Query<Asked>, QueryRejection>;

/// A message of a client.
pub(super) async fn post(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    query: AskedQuery,
    Body(body): Body,
) -> Result<Response, RequestError> {
    Ok(match exchange(&app, &headers, caller, query)? {
        Ok(exchange) => exchange.post(&body).await,
        Err(refusal) => refusal,
    })
}

/// The stream of a session.
pub(super) async fn get(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    query: AskedQuery,
) -> Result<Response, RequestError> {
    Ok(match exchange(&app, &headers, caller, query)? {
        Ok(exchange) => exchange.get(),
        Err(refusal) => refusal,
    })
}

/// The end of a session.
pub(super) async fn delete(
    State(app): State<App>,
    headers: HeaderMap,
    caller: Caller,
    query: AskedQuery,
) -> Result<Response, RequestError> {
    Ok(match exchange(&app, &headers, caller, query)? {
        Ok(exchange) => exchange.delete(),
        Err(refusal) => refusal,
    })
}

fn exchange<'a>(
    app: &'a App,
    headers: &'a HeaderMap,
    Caller(context): Caller,
    query: AskedQuery,
) -> Result<Result<Exchange<'a>, Response>, RequestError> {
    let Query(Asked { model }) = query.map_err(|_| RequestError::BadQuery)?;
    let caller = mcp_server::Caller::new(app, context, model.as_deref());
    Ok(caller
        .map(|caller| Exchange {
            app,
            caller,
            headers,
        })
        .map_err(|error| {
            let status = axum::http::StatusCode::BAD_REQUEST;
            (status, message::response(None, &Err(error))).into_response()
        }))
}
