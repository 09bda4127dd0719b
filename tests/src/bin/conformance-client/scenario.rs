//! The scenarios by name, and the scenarios that only use tools.

mod auth;
mod rounds;

use pillion_mcp_client::McpClient;
use serde_json::{Value, json};

use crate::run::{Failure, Run};

/// Runs the scenario.
///
/// # Errors
/// The failure of the scenario; in some scenarios, the suite expects the client to fail.
pub async fn play(run: &Run) -> Result<(), Failure> {
    if run.scenario.starts_with("auth/") {
        return auth::play(run).await;
    }
    let client = match run.scenario.as_str() {
        "elicitation-sep1034-client-defaults" => rounds::accepting_as_proposed(run.server()?),
        "sep-2322-client-request-state" => rounds::busy_during_request(run.server()?),
        _ => McpClient::new(run.server()?),
    };
    match run.scenario.as_str() {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            tools(&client).await.map(drop)?;
        }
        "tools_call" => {
            tools(&client).await?;
            call(&client, "add_numbers", &json!({"a": 2, "b": 3})).await?;
        }
        "sse-retry" => {
            tools(&client).await?;
            call(&client, "test_reconnection", &json!({})).await?;
        }
        "elicitation-sep1034-client-defaults" => {
            tools(&client).await?;
            call(&client, "test_client_elicitation_defaults", &json!({})).await?;
        }
        "sep-2322-client-request-state" => {
            tools(&client).await?;
            call(&client, "test_mrtr_echo_state", &json!({})).await?;
            call(&client, "test_mrtr_no_state", &json!({})).await?;
            call(&client, "test_mrtr_no_result_type", &json!({})).await?;
        }
        "json-schema-2020-12-preservation" => return_the_schema(&client).await?,
        "http-custom-headers" => call_listed_tools(&client, &run.context).await?,
        "http-invalid-tool-headers" => call_what_is_listed(&client).await?,
        "http-standard-headers" => one_of_each_method(&client).await?,
        unknown => return Err(Failure::UnknownScenario(unknown.to_owned())),
    }
    client.disconnect().await;
    Ok(())
}

async fn tools(client: &McpClient) -> Result<Vec<Value>, Failure> {
    let tools = client.list_tools().await?;
    tools.iter().map(|tool| parse(tool.get())).collect()
}

async fn call(client: &McpClient, tool: &str, arguments: &Value) -> Result<Value, Failure> {
    let result = parse(client.call_tool(tool, arguments).await?.get())?;
    if result["isError"] == true {
        return Err(Failure::Unexpected(result.to_string()));
    }
    Ok(result)
}

fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::Unexpected(text.to_owned()))
}

fn text_of<'a>(value: &'a Value, key: &str) -> Result<&'a str, Failure> {
    let text = value[key].as_str();
    text.ok_or_else(|| Failure::Unexpected(value.to_string()))
}

async fn return_the_schema(client: &McpClient) -> Result<(), Failure> {
    let tools = tools(client).await?;
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let schema = tool.map(|tool| &tool["inputSchema"]);
    let arguments = json!({ "schema": schema });
    call(client, "json_schema_echo", &arguments).await.map(drop)
}

/// Makes the calls in the suite's context.
async fn call_listed_tools(client: &McpClient, context: &Value) -> Result<(), Failure> {
    tools(client).await?;
    for tool_call in context["toolCalls"].as_array().into_iter().flatten() {
        call(client, text_of(tool_call, "name")?, &tool_call["arguments"]).await?;
    }
    Ok(())
}

/// Calls every tool in the client's list, which should not contain the malformed tools.
async fn call_what_is_listed(client: &McpClient) -> Result<(), Failure> {
    for tool in tools(client).await? {
        call(
            client,
            text_of(&tool, "name")?,
            &json!({"region": "us-west1"}),
        )
        .await?;
    }
    Ok(())
}

async fn one_of_each_method(client: &McpClient) -> Result<(), Failure> {
    for tool in tools(client).await? {
        call(client, text_of(&tool, "name")?, &json!({})).await?;
    }
    for resource in client.list_resources().await? {
        let resource = parse(resource.get())?;
        client.read_resource(text_of(&resource, "uri")?).await?;
    }
    for prompt in client.list_prompts().await? {
        let prompt = parse(prompt.get())?;
        client
            .get_prompt(text_of(&prompt, "name")?, &json!({}))
            .await?;
    }
    Ok(())
}
