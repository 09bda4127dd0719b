//! Revision 2026-07-28, whose requests are independent of each other.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use pillion_mcp_client::RpcError;
use serde_json::value::RawValue;

use super::headers;
use super::stream::{body, body_while_valid};
use super::{Exchange, accepted, event_stream, json as json_response};
use crate::stateless::{Answering, RoundStep, UNSUPPORTED_VERSION, listen, requester};
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
    let requester = match requester(exchange.mcp, &request, can_stream, repeated) {
        Ok(requester) => Requester {
            param_headers: Some(Arc::new(headers::params(exchange.headers))),
            ..requester
        },
        Err(error) => return super::failed(StatusCode::BAD_REQUEST, Some(&request.id), error),
    };
    if request.method == "subscriptions/listen" {
        return match listen(exchange.mcp, &exchange.caller, &request).await {
            Ok((first, listener)) => {
                let token_validity = exchange.token_validity.clone();
                event_stream(body_while_valid(Some(first), listener, token_validity))
            }
            Err(error) => failed(&request, error),
        };
    }
    let answering = Answering::start(exchange.mcp, &exchange.caller, &request, requester);
    let mut answering = match answering {
        Ok(answering) => answering,
        Err(error) => return failed(&request, error),
    };
    match answering.step().await {
        RoundStep::Notice(first) => event_stream(body(Some(first), answering)),
        RoundStep::Done(outcome) => finished(&request, outcome),
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

/// Checks that a header equals the value in the message.
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
