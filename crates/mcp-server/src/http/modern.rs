//! Revision 2026-07-28, whose requests are independent of each other.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use pillion_mcp_client::RpcError;
use serde_json::value::RawValue;

use super::headers;
use super::stream::{before_silence, body, body_after_silence, body_while_valid};
use super::{Exchange, accepted, event_stream, json as json_response};
use crate::source::OpeningListener;
use crate::stateless::{Answering, RoundStep, UNSUPPORTED_VERSION, listen, requester};
use pillion_gateway::access::TokenValidity;
use pillion_gateway::calling_client::link::Requester;
use pillion_gateway::calling_client::message::{
    self, HEADER_MISMATCH, INVALID_REQUEST, Inbound, METHOD_NOT_FOUND, PARSE_ERROR, Request,
};

const MISSING_CAPABILITY: i64 = -32021;

pub(super) async fn post(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    let request = match inbound {
        Inbound::Request(request) => Arc::new(request),
        // A client cancels a request by closing its stream, so clients send no notifications or
        // responses.
        Inbound::Notification { .. } | Inbound::Response { .. } => return accepted(),
    };
    let can_stream = headers::accepts_stream(exchange.headers);
    let repeated = |header: &'static str, expected: &str| check_header(exchange, header, expected);
    let requester = match requester(&exchange.caller.mcp.gateway, &request, can_stream, repeated) {
        Ok(requester) => Requester {
            param_headers: Some(Arc::new(headers::params(exchange.headers))),
            ..requester
        },
        Err(error) => return super::failed(StatusCode::BAD_REQUEST, Some(&request.id), error),
    };
    if request.method == "subscriptions/listen" {
        return subscribe(exchange, &request).await;
    }
    let started = Answering::start(&exchange.caller, &request, requester);
    let mut answering = match started {
        Ok(answering) => answering,
        Err(error) => return failed(&request, error),
    };
    match before_silence(exchange.headers, answering.step()).await {
        None => event_stream(body_after_silence(answering, TokenValidity::default())),
        Some(RoundStep::Notice(first)) => event_stream(body(Some(first), answering)),
        Some(RoundStep::Done(outcome)) => finished(&request, outcome),
    }
}

/// Handles `subscriptions/listen`: responds with the stream of its notifications.
async fn subscribe(exchange: &Exchange<'_>, request: &Arc<Request>) -> Response {
    let caller = exchange.caller.clone();
    let (token, id) = (exchange.token_validity.clone(), request.id.clone());
    let listener_request = Arc::clone(request);
    let opening = async move { listen(&caller, &listener_request).await };
    let mut listener = OpeningListener::new(id, opening);
    match before_silence(exchange.headers, listener.open())
        .await
        .flatten()
    {
        None => event_stream(body_after_silence(listener, token)),
        Some(Ok(first)) => event_stream(body_while_valid(Some(first), listener, token)),
        Some(Err(error)) => failed(request, error),
    }
}

fn finished(request: &Request, outcome: Result<Box<RawValue>, RpcError>) -> Response {
    match outcome {
        Ok(_) => json_response(
            StatusCode::OK,
            message::response(Some(&request.id), &outcome),
        ),
        Err(error) => failed(request, error),
    }
}

fn failed(request: &Request, error: RpcError) -> Response {
    let status = match error.code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        PARSE_ERROR | INVALID_REQUEST | HEADER_MISMATCH | MISSING_CAPABILITY
        | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    super::failed(status, Some(&request.id), error)
}

/// Checks that a header equals `expected`, the value in the message.
fn check_header(exchange: &Exchange<'_>, header: &str, expected: &str) -> Result<(), RpcError> {
    match headers::text(exchange.headers, header) {
        Some(text) if text == expected => Ok(()),
        Some(_) => Err(message::header_mismatch(header)),
        None => {
            let reason = format!("The header {header} is missing");
            Err(RpcError::new(HEADER_MISMATCH, reason))
        }
    }
}
