use super::*;
use crate::tool::{CallContext, FnTool, JsonObject, ToolDefinition, ToolFuture, ToolOutput};
use serde_json::{Value, json};

fn tool(name: &str, category: &str) -> Arc<dyn Tool> {
    let builder = ToolDefinition::builder(name, "A test").category(category);
    let run = |_, _| async { Ok(ToolOutput::text("ok")) };
    Arc::new(FnTool::new(builder.build().unwrap(), run))
}

#[test]
fn b1_a_duplicate_is_rejected_unless_replace_is_set() {
    let registry = ToolRegistry::new();
    registry.register(tool("test", "a")).unwrap();
    let error = registry.register(tool("test", "b")).unwrap_err();
    assert_eq!(error.to_string(), "Tool 'test' already registered");
    let old = registry.replace(tool("test", "b")).unwrap().unwrap();
    assert_eq!(old.definition().category(), "a");
    assert_eq!(registry.get("test").unwrap().definition().category(), "b");
    assert_eq!(registry.len(), 1);
}

#[test]
fn b1_a_tool_replaces_another_tool_that_is_replaceable() {
    let registry = ToolRegistry::new();
    let put = |category: &str, over: &str| {
        let may_replace = |holder: &RegisteredTool| holder.definition().category() == over;
        let replaced_tool = registry.register_preferred(tool("test", category), may_replace)?;
        Ok::<_, RegistryError>(replaced_tool.map(|it| it.definition().category().to_owned()))
    };
    assert_eq!(put("a", "unused"), Ok(None));
    assert_eq!(put("b", "a"), Ok(Some("a".to_owned())));
    assert!(put("c", "a").is_err());
    assert_eq!(registry.get("test").unwrap().definition().category(), "b");
}

#[test]
fn b2_order_categories_and_removal() {
    let registry = ToolRegistry::new();
    for (name, category) in [("one", "math"), ("two", "fun"), ("three", "math")] {
        registry.register(tool(name, category)).unwrap();
    }
    assert_eq!(registry.categories(), ["math", "fun"]);
    let math = registry.tools(Some("math"));
    let names: Vec<_> = math.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!(names, ["one", "three"]);
    assert_eq!(registry.tools(Some("fun")).len(), 1);
    assert!(!registry.unregister("nope"));
    assert!(registry.unregister("one"));
    let listed: Vec<_> = registry.names().iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["two", "three"]);
    let global = ToolRegistry::global();
    assert!(Arc::ptr_eq(&global, &ToolRegistry::global()));
}

#[test]
fn b2_many_threads_register_and_look_up_at_once() {
    let registry = Arc::new(ToolRegistry::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let registry = &registry;
            scope.spawn(move || {
                for number in 0..50 {
                    let name = format!("t{thread}_{number}");
                    registry.register(tool(&name, "x")).unwrap();
                    assert!(registry.contains(&name));
                }
            });
        }
    });
    assert_eq!(registry.len(), 400);
}

#[test]
fn b3_defaults_can_be_registered_twice() {
    let registry = ToolRegistry::new();
    let defaults = || [tool("a", "x"), tool("b", "x")];
    assert_eq!(registry.register_missing(defaults()).unwrap().len(), 2);
    assert_eq!(registry.register_missing(defaults()).unwrap().len(), 0);
    assert_eq!(registry.len(), 2);
}

#[test]
fn b4_mcp_tools_are_listed_separately() {
    struct Remote(ToolDefinition);
    impl Tool for Remote {
        fn definition(&self) -> &ToolDefinition {
            &self.0
        }
        fn origin(&self) -> ToolOrigin {
            ToolOrigin::Mcp {
                server_label: "dmcp".into(),
                server_url: "https://x.example/sse".into(),
            }
        }
        fn call(self: Arc<Self>, _: JsonObject, _: CallContext) -> ToolFuture {
            Box::pin(async { Ok(ToolOutput::value(Value::Null)) })
        }
    }
    let odd = |name: &str| {
        let schema = json!({"properties": {"a": {"$ref": "https://x.example/s"}}});
        let builder = ToolDefinition::builder(name, "A test").schema(schema);
        builder.build().unwrap()
    };
    let registry = ToolRegistry::new();
    registry.register(tool("native", "x")).unwrap();
    registry.register(Arc::new(Remote(odd("remote")))).unwrap();
    assert_eq!(registry.mcp_tools()[0].name().as_str(), "remote");
    assert!(registry.mcp_tools()[0].schema().unwrap().is_none());
    assert_eq!(registry.native_tools()[0].name().as_str(), "native");

    let native = FnTool::new(odd("n2"), |_, _| async { Ok(ToolOutput::text("")) });
    let error = registry.register(Arc::new(native)).unwrap_err();
    let is_schema_error = matches!(error, RegistryError::InvalidSchema { .. });
    assert!(is_schema_error, "{error}");
}

#[test]
fn h3_aliases_find_their_tool_and_are_removed_with_it() {
    let registry = ToolRegistry::new();
    registry.register(tool("get_time", "utility")).unwrap();
    registry.set_alias("time_tool", "get_time").unwrap();
    let found = registry.get("time_tool").unwrap();
    assert_eq!(found.name().as_str(), "get_time");
    assert_eq!(registry.len(), 1);
    assert!(registry.set_alias("x", "nope").is_err());
    assert!(registry.set_alias("get_time", "get_time").is_err());
    registry.unregister("get_time");
    assert!(!registry.contains("time_tool"));
}

#[test]
fn many_tools_are_removed_at_once() {
    let registry = ToolRegistry::new();
    for name in ["a", "b", "c", "d"] {
        registry.register(tool(name, "x")).unwrap();
        registry.set_alias(&format!("{name}2"), name).unwrap();
    }
    registry.put(tool("b", "standby"), |_| false).unwrap();
    registry.unregister_all(["b", "c", "nothing", "a"]);
    let listed = registry.names();
    let names: Vec<_> = listed.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["b", "d"]);
    let replacement = registry.get("b").unwrap();
    assert_eq!(replacement.definition().category(), "standby");
    assert!(registry.contains("b2") && registry.contains("d2"));
    assert!(!registry.contains("a2") && !registry.contains("c2"));
}

struct Unoffered(ToolDefinition);
impl Tool for Unoffered {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }
    fn is_offered(&self) -> bool {
        false
    }
    fn call(self: Arc<Self>, _: JsonObject, _: CallContext) -> ToolFuture {
        Box::pin(async { Ok(ToolOutput::text("not really")) })
    }
}

fn unoffered(name: &str) -> Arc<dyn Tool> {
    Arc::new(Unoffered(tool(name, "web").definition().clone()))
}

#[test]
fn b2_a_tool_that_is_not_offered_is_unlisted_and_yields_its_name() {
    let unoffered = || unoffered("search");
    let registry = ToolRegistry::new();
    registry.register(unoffered()).unwrap();
    registry.set_alias("find", "search").unwrap();
    assert!(registry.contains("search") && registry.contains("find"));
    assert!(registry.is_empty() && registry.names().is_empty());
    assert!(!registry.is_taken("search") && !registry.is_taken("find"));
    assert!(registry.tools(None).is_empty() && registry.native_tools().is_empty());
    assert!(registry.categories().is_empty());
    assert!(registry.register(unoffered()).is_err());

    registry.register(tool("search", "better")).unwrap();
    assert_eq!(registry.categories(), ["better"]);
    assert!(registry.register(unoffered()).is_err());
    assert!(registry.contains("find"));
}

#[test]
fn b1_a_tool_waits_until_its_name_is_free() {
    let registry = ToolRegistry::new();
    let category = || Some(registry.get("a")?.definition().category().to_owned());
    registry.register(tool("a", "others")).unwrap();
    let first = registry.put(tool("a", "first"), |_| false).unwrap();
    assert_eq!(first.outcome, RegistrationState::OnStandby);
    let second = registry.put(tool("a", "second"), |_| false).unwrap();
    assert!(Arc::ptr_eq(&second.replaced_tool.unwrap(), &first.entry));
    registry.set_alias("b", "a").unwrap();
    assert_eq!(category().as_deref(), Some("others"));
    assert!(!registry.withdraw(&first.entry));
    assert!(registry.unregister("a"));
    assert_eq!(category().as_deref(), Some("second"));
    assert!(registry.contains("b"));

    let is_second = |it: &Arc<RegisteredTool>| Arc::ptr_eq(it, &second.entry);
    let third = registry.put(tool("a", "third"), is_second).unwrap();
    assert_eq!(third.outcome, RegistrationState::Replaced);
    // A replaced tool cannot be withdrawn.
    assert!(!registry.withdraw(&second.entry));
    assert_eq!(category().as_deref(), Some("third"));
    assert!(registry.withdraw(&third.entry));
    assert!(!registry.contains("a") && !registry.contains("b"));
    let last = registry.put(tool("a", "last"), |_| false).unwrap();
    assert_eq!(last.outcome, RegistrationState::Added);
    // A withdrawn standby tool is not registered later.
    let other = registry.put(tool("a", "other"), |_| false).unwrap();
    assert!(!registry.withdraw(&other.entry));
    assert!(registry.unregister("a") && !registry.contains("a"));
}

#[test]
fn b2_a_tool_that_is_not_offered_gets_its_name_back() {
    let registry = ToolRegistry::new();
    registry.register(unoffered("search")).unwrap();
    registry.register(tool("search", "better")).unwrap();
    registry.replace(tool("search", "best")).unwrap();
    assert!(registry.unregister("search"));
    assert!(registry.contains("search") && registry.is_empty());
    assert!(registry.unregister("search"));
    assert!(!registry.contains("search"));
}
