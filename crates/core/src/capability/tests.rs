use serde_json::{Value, json};

use super::*;

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::builder(name, "A tool").build().unwrap()
}

fn mcp(server_url: &str) -> ToolOrigin {
    ToolOrigin::Mcp {
        server_label: "dmcp".to_owned(),
        server_url: server_url.to_owned(),
    }
}

fn model(tools: &Value) -> ModelConfig {
    ModelConfig::from_value(&json!({"id": "m", "tools": tools})).unwrap()
}

/// Returns the offered names, and `name: reason` for each dropped tool, for two built-in tools, an
/// MCP tool, and an MCP tool whose server has no URL.
fn decide(model: &ModelConfig) -> (Vec<String>, Vec<String>) {
    let tools = [
        (tool("calculator"), ToolOrigin::Native),
        (tool("dmcp_roll_dice"), mcp("https://dmcp.example/sse")),
        (tool("test_tool"), ToolOrigin::Native),
        (tool("homeless"), mcp(" ")),
    ];
    let offer = offer(tools.iter().map(|(tool, origin)| (tool, origin)), model);
    (
        offer.offered.iter().map(|t| t.name().to_string()).collect(),
        offer.dropped.iter().map(DroppedTool::to_string).collect(),
    )
}

#[test]
fn h2_function_calling_without_mcp_gives_the_built_in_tools() {
    let (offered, dropped) = decide(&model(&json!({"function_calling": true})));
    assert_eq!(offered, ["calculator", "test_tool"]);
    let expected = [
        "dmcp_roll_dice: model has no 'mcp' flag",
        "homeless: model has no 'mcp' flag",
    ];
    assert_eq!(dropped, expected);
}

#[test]
fn h2_enabled_tools_leaves_only_the_tools_it_names() {
    let (offered, dropped) = decide(&model(&json!({
        "function_calling": true, "mcp": true, "enabled_tools": ["dmcp_roll_dice"],
    })));
    assert_eq!(offered, ["dmcp_roll_dice"]);
    let expected = ["calculator", "test_tool", "homeless"];
    assert_eq!(
        dropped,
        expected.map(|name| format!("{name}: not in enabled_tools"))
    );
}

#[test]
fn h2_mcp_without_function_calling_gives_nothing() {
    let (offered, dropped) = decide(&model(&json!({"mcp": true})));
    assert!(offered.is_empty());
    assert_eq!(dropped.len(), 4);
    assert_eq!(dropped[0], "calculator: model cannot call functions");
}

#[test]
fn h2_an_empty_list_means_all_and_a_server_without_a_url_is_skipped() {
    let (offered, dropped) = decide(&model(&json!({
        "function_calling": true, "mcp": true, "enabled_tools": [],
    })));
    assert_eq!(offered, ["calculator", "dmcp_roll_dice", "test_tool"]);
    assert_eq!(dropped, ["homeless: MCP server has no URL"]);
}

#[test]
fn b4_the_filter_answers_for_one_tool_by_name_and_origin() {
    let capabilities = model(&json!({"function_calling": true})).tools;
    let admission = capabilities.admit("x", &mcp("https://x.example"));
    assert_eq!(admission, Err(DropReason::NoMcpFlag));
    assert_eq!(capabilities.admit("x", &ToolOrigin::Native), Ok(()));
}

/// HAWKI's `config/model_lists/*.php` as encoded by `json_encode`, with the keys that are ignored.
#[test]
fn h2_hawkis_model_lists_are_read_unchanged() {
    let models = ModelConfig::list_from_json(
        r#"[
          {"active": true, "id": "meta-llama-3.1-8b-instruct",
           "label": "GWDG Meta Llama 3.1 8B Instruct", "input": ["text"], "output": ["text"],
           "tools": {"stream": true, "file_upload": true, "function_calling": true,
                     "enabled_tools": ["test_tool"]}},
          {"active": true, "id": "gemma-3-27b-it", "tools": {"stream": true, "vision": true}},
          {"id": "plain", "tools": []},
          {"id": "bare"}
        ]"#,
    )
    .unwrap();
    let label = models[0].label.as_deref();
    assert_eq!(label, Some("GWDG Meta Llama 3.1 8B Instruct"));
    assert_eq!(decide(&models[0]).0, ["test_tool"]);
    for model in &models[1..] {
        assert!(decide(model).0.is_empty(), "{}", model.id);
    }
}

#[test]
fn h2_php_lists_with_gaps_are_lists() {
    let models = ModelConfig::list_from_value(&json!({
        "0": {"id": "a", "tools": {"function_calling": true,
              "enabled_tools": {"1": "test_tool", "4": "calculator"}}},
        "3": {"id": "b"},
    }))
    .unwrap();
    assert_eq!(models[0].tools.enabled_tools, ["test_tool", "calculator"]);
    assert_eq!(models[1].id, "b");
}

#[test]
fn h2_toml_gives_one_model_or_several() {
    let list = "[[models]]\nid = 'a'\n[models.tools]\nfunction_calling = true\n\
                [[models]]\nid = 'b'\nprovider = 'gwdg'\n";
    let models = ModelConfig::list_from_toml(list).unwrap();
    assert!(models[0].tools.function_calling);
    assert_eq!(models[1].provider.as_deref(), Some("gwdg"));
    let one = ModelConfig::from_toml("id = 'a'\nreleased = 2025-01-01").unwrap();
    assert_eq!(one.tools, ToolCapabilities::default());
}

#[test]
fn h2_flags_may_be_numbers_and_strings() {
    for (value, expected) in [
        (json!(true), true),
        (json!(1), true),
        (json!("true"), true),
        (json!("TRUE"), true),
        (json!("1"), true),
        (json!(false), false),
        (json!(0), false),
        (json!("false"), false),
        (json!("0"), false),
        (json!(""), false),
        (json!(null), false),
    ] {
        let model = model(&json!({"function_calling": value.clone()}));
        assert_eq!(model.tools.function_calling, expected, "{value}");
    }
}

#[test]
fn h2_a_wrong_type_names_the_key() {
    for (value, message) in [
        (
            json!({"models": [{"id": "a"}, {"id": "b", "tools": {"mcp": "yes"}}]}),
            "models[1].tools.mcp: expected a boolean, found the string 'yes'",
        ),
        (
            json!([{"id": "a", "tools": {"function_calling": 2}}]),
            "[0].tools.function_calling: expected a boolean, found the number 2",
        ),
        (
            json!([{"id": "a", "tools": {"enabled_tools": "test_tool"}}]),
            "[0].tools.enabled_tools: expected a list, found the string 'test_tool'",
        ),
        (
            json!([{"id": "a", "tools": {"enabled_tools": {"test_tool": true}}}]),
            "[0].tools.enabled_tools: expected a list, found a map",
        ),
        (
            json!([{"id": "a", "tools": {"enabled_tools": ["x", null]}}]),
            "[0].tools.enabled_tools[1]: expected a string, found null",
        ),
        (
            json!([{"id": "a", "tools": ["function_calling"]}]),
            "[0].tools: expected a map, found a list",
        ),
        (
            json!([{"id": " "}]),
            "[0].id: the key is required and must not be empty",
        ),
        (
            json!([{"id": 7}]),
            "[0].id: expected a string, found the number 7",
        ),
        (
            json!("gpt"),
            "model configuration: expected a list, found the string 'gpt'",
        ),
    ] {
        let error = ModelConfig::list_from_value(&value).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error = ModelConfig::from_value(&json!([])).unwrap_err().to_string();
    assert_eq!(error, "id: the key is required and must not be empty");
}

#[test]
fn h2_malformed_and_deeply_nested_text_is_an_error() {
    let error = ModelConfig::from_json("{\"id\":").unwrap_err();
    assert!(matches!(error, ModelConfigError::Json { .. }));
    let error = ModelConfig::from_toml("id = ").unwrap_err();
    assert!(matches!(error, ModelConfigError::Toml { .. }));
    let deep = "[".repeat(10_000);
    assert!(ModelConfig::list_from_json(&deep).is_err());
    assert!(ModelConfig::list_from_toml(&format!("models = {deep}")).is_err());
}
