//! Images in tool results.

use std::sync::Arc;

use pillion_core::tool::{FnTool, ToolDefinition, ToolOutput};
use pillion_providers::Provider;
use pillion_testkit::LlmResponse;
use serde_json::json;

use super::bench::Bench;

const PNG_START: &str = "iVBORw0KGgo";

/// Returns a bench whose model takes this number of screenshots, one in each response.
async fn bench(provider: Provider, screenshots: usize, data: String) -> Bench {
    let shoot = || LlmResponse::call("shoot", &json!({}));
    let turns = (0..screenshots).map(|_| shoot());
    let responses: Vec<_> = turns.chain([LlmResponse::text("Done.")]).collect();
    let mut bench = Bench::at(provider, responses).await;
    bench.chat.limits.max_tool_rounds = 100;
    bench.chat.limits.max_tool_calls = 100;
    let definition = ToolDefinition::builder("shoot", "Takes a screenshot")
        .build()
        .unwrap();
    let shown = Arc::new(definition.clone());
    let tool = FnTool::new(definition, move |_, _| {
        let image = json!({"type": "image", "data": data, "mimeType": "image/png"});
        let text = json!({"type": "text", "text": "Took a screenshot."});
        async move { Ok(ToolOutput::value(json!({"content": [text, image]}))) }
    });
    bench.executor.registry().register(Arc::new(tool)).unwrap();
    bench.chat = bench.chat.with_tools(vec![shown]);
    bench
}

#[tokio::test]
async fn h5_a_model_sees_an_image_and_never_its_base64_as_text() {
    for provider in Provider::ALL {
        let mut bench = bench(provider, 1, format!("{PNG_START}{}=", "A".repeat(300_000))).await;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        let sent = bench.llm.bodies()[1].to_string();
        if provider == Provider::OpenAiChat {
            assert!(sent.len() < 10_000, "{}", sent.len());
            assert!(sent.contains("[image image/png, 225008 bytes]"), "{sent}");
            continue;
        }
        let members = match provider {
            Provider::OpenAiResponses => ["image_url\":\"data:image/png;base64,", "input_image"],
            Provider::Anthropic => ["\"data\":\"", "\"media_type\":\"image/png\""],
            _ => ["\"data\":\"", "inlineData"],
        };
        assert_eq!(sent.matches(PNG_START).count(), 1, "{provider}");
        let image = format!("{}{PNG_START}", members[0]);
        assert!(sent.contains(&image), "{provider}");
        assert!(sent.contains(members[1]), "{provider}");
    }
}

#[tokio::test]
async fn h5_later_requests_have_only_the_newest_images() {
    for provider in [
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Google,
    ] {
        let mut bench = bench(provider, 11, format!("{PNG_START}=")).await;
        let mut state = bench.begin();
        assert_eq!(bench.respond(&mut state).await, "Done.", "{provider}");
        for (index, body) in bench.llm.bodies().iter().enumerate() {
            let images = body.to_string().matches(PNG_START).count();
            assert_eq!(images, index.min(8), "{provider}");
        }
        // The state keeps all images, because the limits may change.
        let all = json!(state.messages()).to_string();
        assert_eq!(all.matches(PNG_START).count(), 11, "{provider}");
    }
}
