//! E2: every form of a response.

use super::*;

/// Asserts that the client reads the body that `shape` makes of a good response, with this content
/// type.
async fn is_understood(name: &str, content_type: &'static str, shape: fn(&str) -> String) {
    let server = FaultServer::start(move |request| {
        let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
        vec![Fault::response("200 OK", content_type, shape(&response))]
    })
    .await;
    let client = client(&server.url, TransportKind::PostSse);
    for round in 0..2 {
        let result = roll(&client).await;
        assert_eq!(result.unwrap().get(), ROLLED, "{name}, round {round}");
    }
}

#[tokio::test]
async fn e2_every_form_of_an_event_stream_is_read() {
    type Shape = fn(&str) -> String;
    let shapes: [(&str, Shape); 19] = [
        ("legacy", |r| format!("data: {r}\n\n")),
        ("CRLF", |r| format!("data: {r}\r\n\r\n")),
        ("CR", |r| format!("data: {r}\r\r")),
        ("no space", |r| format!("data:{r}\n\n")),
        ("byte order mark", |r| format!("\u{feff}data: {r}\n\n")),
        ("no blank line at the end", |r| format!("data: {r}\n")),
        ("no line end at the end", |r| format!("data: {r}")),
        ("other fields", |r| {
            format!("retry: 1\nid: 7\nevent: message\nx: y\ndata: {r}\n\n")
        }),
        ("comments", |r| {
            format!(": hello\n\n:\ndata: {r}\n: bye\n\n")
        }),
        ("several lines of data", |r| {
            format!("data: {}\n\n", r.replacen(',', ",\ndata: ", 1))
        }),
        ("a foreign id before", |r| {
            format!("data: {{\"id\":\"mcp_other\",\"result\":1}}\n\ndata: {r}\n\n")
        }),
        ("a notification before", |r| {
            format!("data: {{\"method\":\"notifications/message\"}}\n\ndata: {r}\n\n")
        }),
        ("bad JSON before", |r| {
            format!("data: {{bad\n\ndata: {r}\n\n")
        }),
        ("other JSON before", |r| {
            format!("data: 3\n\ndata: []\n\ndata: {{}}\n\ndata: {r}\n\n")
        }),
        ("empty data before", |r| {
            format!("data\n\ndata:\n\ndata: {r}\n\n")
        }),
        ("a batch", |r| {
            format!("data: [{{\"method\":\"x\"}},{r}]\n\n")
        }),
        ("another event's name", |r| {
            format!("event: odd\ndata: {r}\n\n")
        }),
        ("events after", |r| format!("data: {r}\n\ndata: {{bad\n\n")),
        ("deep JSON before", |r| {
            let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
            format!("data: {deep}\n\ndata: {r}\n\n")
        }),
    ];
    for (name, shape) in shapes {
        is_understood(name, EVENT_STREAM, shape).await;
    }
}

#[tokio::test]
async fn e2_every_form_of_plain_json_is_read() {
    is_understood("JSON", JSON, str::to_owned).await;
    is_understood("white space", JSON, |r| format!("\r\n  {r}\n")).await;
    is_understood("byte order mark", JSON, |r| format!("\u{feff}{r}")).await;
    is_understood("a batch", JSON, |r| format!("[3,{{\"method\":\"x\"}},{r}]")).await;
    let charset = "Application/JSON; charset=utf-8";
    is_understood("a charset", charset, str::to_owned).await;
    is_understood("named text", "text/plain", str::to_owned).await;
    let stream = "TEXT/EVENT-STREAM;x=y";
    is_understood("named a stream", stream, |r| format!("data: {r}\n\n")).await;
}

#[tokio::test]
async fn e2_a_response_in_single_bytes_is_read() {
    let server = FaultServer::start(|request| {
        let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                     Transfer-Encoding: chunked\r\n\r\n";
        let mut faults = vec![Fault::Send(head.to_vec())];
        for byte in format!("data: {response}\r\n\r\n").bytes() {
            faults.push(Fault::Send(vec![b'1', b'\r', b'\n', byte, b'\r', b'\n']));
        }
        faults.push(Fault::Send(b"0\r\n\r\n".to_vec()));
        faults
    })
    .await;
    let client = client(&server.url, TransportKind::PostSse);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
}

#[tokio::test]
async fn e2_a_response_is_returned_although_the_stream_stays_open() {
    let server = FaultServer::start(|request| {
        let response = Reply::raw_result(ROLLED).response(&request.rpc_id());
        let event = Fault::event(response);
        vec![Fault::head(EVENT_STREAM), event, Fault::Hang]
    })
    .await;
    let client = client(&server.url, TransportKind::PostSse);
    assert_eq!(roll(&client).await.unwrap().get(), ROLLED);
}
