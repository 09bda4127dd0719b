use axum::http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use serde_json::Value;

use super::*;

fn executed(data: Value, text: String) -> ExecuteResponse {
    let metadata = json!({"text": "", "n": 1}).as_object().cloned().unwrap();
    ExecuteResponse::Executed(Execution {
        success: true,
        tool: "t".to_owned(),
        result: ToolOutcome {
            success: true,
            data,
            error: None,
            error_code: None,
            result: None,
            text,
            metadata,
        },
    })
}

#[tokio::test]
async fn a_large_response_is_equal_and_contains_its_text_once() {
    let text = "a \"quoted\"\nline \u{e9} ".repeat(MIN_SHARED_TEXT_BYTES / 16);
    let block = json!({"content": [{"type": "text", "text": text}]});
    let cases = [
        (json!(text), text.clone(), true),
        (block.clone(), text.clone(), true),
        (json!({"rows": 3}), text.clone(), false),
        (json!("\"text\":\"\""), "short".to_owned(), false),
    ];
    for (data, text, is_shared) in cases {
        let executed = executed(data, text);
        let expected = serde_json::to_vec(&executed).unwrap();
        let response = serialize_response(executed);
        let length = response.headers().get(CONTENT_LENGTH).cloned();
        let mut body = response.into_body();
        let mut parts = Vec::new();
        while let Some(frame) = body.frame().await {
            parts.push(frame.unwrap().into_data().unwrap());
        }
        assert!(parts.concat() == expected, "another response");
        if let Some(length) = length {
            assert_eq!(length, expected.len().to_string());
        }
        if let [head, text, _] = &parts[..] {
            let memory = head.as_ptr_range();
            assert_eq!(memory.contains(&text.as_ptr()), is_shared);
        } else {
            assert!(!is_shared);
        }
    }
}
