//! Revision 2026-07-28, whose requests are independent of each other.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use pillion_mcp_client::RpcError;
use serde_json::value::RawValue;

use super::headers;
use super::stream::{body, body_after_silence, body_while_valid, wait_before_silence};
use super::{Exchange, accepted_response, event_stream_response, json_response};
use crate::source::OpeningListener;
use crate::stateless::{
    RoundStep, RunningStatelessRequest, UNSUPPORTED_VERSION_CODE, listen, parse_requester,
};
use pillion_gateway::access::TokenValidity;
use pillion_gateway::calling_client::link::Requester;
use pillion_gateway::calling_client::message::{
    self, HEADER_MISMATCH, INVALID_REQUEST, Inbound, METHOD_NOT_FOUND, PARSE_ERROR, Request,
};

const MISSING_CAPABILITY_CODE: i64 = -32021;

pub(super) async fn post(exchange: &Exchange<'_>, inbound: Inbound) -> Response {
    let request = match inbound {
        Inbound::Request(request) => Arc::new(request),
        // Accepts and ignores the message. Clients of this revision need no notifications or
        // responses, because a client cancels a request by closing its stream.
        Inbound::Notification { .. } | Inbound::Response { .. } => return accepted_response(),
    };
    let can_stream = headers::accepts_stream(exchange.headers);
    let check = |header: &'static str, expected: &str| check_header(exchange, header, expected);
    let parse_result = parse_requester(&exchange.caller.mcp.gateway, &request, can_stream, check);
    let requester = match parse_result {
        Ok(requester) => Requester {
            param_headers: Some(Arc::new(headers::read_param_headers(exchange.headers))),
            ..requester
        },
        Err(error) => {
            return super::error_response(StatusCode::BAD_REQUEST, Some(&request.id), error);
        }
    };
    if request.method == "subscriptions/listen" {
        return subscribe(exchange, &request).await;
    }
    let start_result = RunningStatelessRequest::start(&exchange.caller, &request, requester);
    let mut running_request = match start_result {
        Ok(running_request) => running_request,
        Err(error) => return failed_response(&request, error),
    };
    match wait_before_silence(exchange.headers, running_request.next_step()).await {
        None => event_stream_response(body_after_silence(
            running_request,
            TokenValidity::default(),
        )),
        Some(RoundStep::Notice(first_message)) => {
            event_stream_response(body(Some(first_message), running_request))
        }
        Some(RoundStep::Done(outcome)) => result_response(&request, outcome),
    }
}

/// Handles `subscriptions/listen`: responds with the stream of its notifications.
async fn subscribe(exchange: &Exchange<'_>, request: &Arc<Request>) -> Response {
    let caller = exchange.caller.clone();
    let (validity, id) = (exchange.token_validity.clone(), request.id.clone());
    let listener_request = Arc::clone(request);
    let opening_future = async move { listen(&caller, &listener_request).await };
    let mut listener = OpeningListener::new(id, opening_future);
    match wait_before_silence(exchange.headers, listener.open())
        .await
        .flatten()
    {
        None => event_stream_response(body_after_silence(listener, validity)),
        Some(Ok(first_message)) => {
            event_stream_response(body_while_valid(Some(first_message), listener, validity))
        }
        Some(Err(error)) => failed_response(request, error),
    }
}

fn result_response(request: &Request, outcome: Result<Box<RawValue>, RpcError>) -> Response {
    match outcome {
        Ok(_) => json_response(
            StatusCode::OK,
            message::response(Some(&request.id), &outcome),
        ),
        Err(error) => failed_response(request, error),
    }
}

fn failed_response(request: &Request, error: RpcError) -> Response {
    let status = match error.code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        PARSE_ERROR
        | INVALID_REQUEST
        | HEADER_MISMATCH
        | MISSING_CAPABILITY_CODE
        | UNSUPPORTED_VERSION_CODE => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    super::error_response(status, Some(&request.id), error)
}

/// Checks that the HTTP header `header` equals `expected`, the value in the message.
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
