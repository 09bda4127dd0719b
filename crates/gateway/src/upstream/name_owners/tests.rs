use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pillion_config::{McpSection, McpServerSection, ServerSettings};
use pillion_core::tool::{ToolName, ToolOrigin};
use pillion_mcp_client::ServerConfig;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::json;
use serde_json::value::RawValue;

use super::NameOwners;
use crate::connections::Connections;
use crate::credentials::UserCredentials;
use crate::pins::Pins;
use crate::upstream::offer::{ListedTools, check_tools};
use crate::upstream::{Listeners, Upstreams};

/// A server's label and, if configured, its prefix.
type Configured = (&'static str, Option<&'static str>);

fn section(label: &str, prefix: Option<&str>) -> McpServerSection {
    let server = ServerConfig::new(label, "http://127.0.0.1:1/").unwrap();
    let settings = ServerSettings {
        tool_prefix: prefix.map(str::to_owned),
        ..ServerSettings::default()
    };
    McpServerSection::new(settings, server, label)
}

fn owners(servers: &[Configured]) -> NameOwners {
    let sections = servers
        .iter()
        .map(|(label, prefix)| section(label, *prefix));
    NameOwners::new(&sections.collect::<Vec<_>>())
}

#[test]
fn a_name_belongs_to_the_server_with_the_longest_prefix() {
    for servers in [
        [("shop", None), ("shop_admin", None), ("files", Some(""))],
        [("files", Some("")), ("shop_admin", None), ("shop", None)],
    ] {
        let owners = owners(&servers);
        for (name, owner) in [
            ("shop_add", Some("shop")),
            ("shop_admin", Some("shop")),
            ("shop_admin_refund", Some("shop_admin")),
            ("shopping", None),
            ("read", None),
        ] {
            assert_eq!(owners.owner(name), owner, "{name}");
            assert!(owner.is_none_or(|owner| owners.may_offer(owner, name)));
            assert_eq!(owners.may_offer("files", name), owner.is_none(), "{name}");
        }
        assert!(!owners.may_offer("shop", "shop_admin_refund"));
        assert!(!owners.may_offer("shop_admin", "shop_add"));
    }
}

#[test]
fn servers_share_a_configured_prefix_but_no_default_prefix() {
    let shared = owners(&[("one", Some("x_")), ("two", Some("x_")), ("x", None)]);
    assert!(shared.may_offer("one", "x_a") && shared.may_offer("two", "x_a"));
    assert!(!shared.may_offer("x", "x_a"));
    assert!(shared.takes_precedence("one", "two", "x_a"));
    assert!(!shared.takes_precedence("two", "one", "x_a"));
    // Both labels have the default prefix `a_b_`.
    let accidental = owners(&[("a b", None), ("a_b", None), ("other", Some("a_b_"))]);
    assert!(accidental.may_offer("a b", "a_b_c"));
    assert!(!accidental.may_offer("a_b", "a_b_c") && !accidental.may_offer("other", "a_b_c"));
}

#[test]
fn a_disabled_server_keeps_its_names() {
    let mut disabled = section("shop_admin", None);
    disabled.settings.enabled = false;
    let owners = NameOwners::new(&[section("shop", None), disabled]);
    assert_eq!(owners.owner("shop_admin_refund"), Some("shop_admin"));
    assert!(!owners.may_offer("shop", "shop_admin_refund"));
}

const SERVERS: [Configured; 9] = [
    ("shop", None),
    ("shop_admin", None),
    ("shop_admin_eu", None),
    ("any", Some("")),
    ("all", Some("")),
    ("short", Some("sh")),
    ("twin", Some("shop_admin_")),
    ("time", None),
    ("get", None),
];

const TOOLS: [&str; 14] = [
    "add",
    "refund",
    "admin_refund",
    "eu_refund",
    "admin_eu_refund",
    "shop_admin_refund",
    "shop_admin_eu_refund",
    "op_add",
    "shop_add",
    "calculator",
    "get_weather",
    "weather",
    "tool",
    "time_tool",
];

/// Servers, each with its tools.
type Servers = Vec<(Configured, Vec<&'static str>)>;

/// The servers of one test case, and the events: in which order they list their tools.
fn cases() -> impl Strategy<Value = (Servers, Vec<(usize, bool)>)> {
    let subset = subsequence(SERVERS.to_vec(), 2..=5).prop_shuffle();
    let servers = subset.prop_flat_map(|servers| {
        let tools = vec(subsequence(TOOLS.to_vec(), 1..=8), servers.len());
        tools.prop_map(move |tools| servers.iter().copied().zip(tools).collect())
    });
    // Each event is one `tools/list` response: the server's index, and whether the server lists all
    // of its tools or none.
    (servers, vec((0..5_usize, any::<bool>()), 1..16))
}

/// The upstream servers of one test case, whose lists are accepted one after another.
struct Lists {
    upstreams: Upstreams,
    before: Vec<Vec<ToolName>>,
    runtime: tokio::runtime::Runtime,
}

impl Lists {
    fn new(servers: &[(Configured, Vec<&str>)]) -> Self {
        let sections = servers
            .iter()
            .map(|((label, prefix), _)| section(label, *prefix));
        let listeners = Listeners {
            events: Arc::default(),
            connections: Connections::default(),
            telemetry: None,
        };
        let upstreams = Upstreams::new(
            &sections.collect::<Vec<_>>(),
            McpSection::default(),
            crate::tools::registry().unwrap(),
            listeners,
            Pins::default(),
            UserCredentials::default(),
        );
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            before: vec![Vec::new(); servers.len()],
            upstreams,
            runtime: runtime.enable_all().build().unwrap(),
        }
    }

    /// Accepts a list of a server.
    fn accept(&mut self, index: usize, tools: &[&str]) {
        let server = &self.upstreams.servers()[index];
        let raw = tools.iter().map(|name| {
            let tool = json!({"name": name, "inputSchema": {"type": "object"}});
            RawValue::from_string(tool.to_string()).unwrap()
        });
        let raw_tools: Arc<Vec<_>> = Arc::new(raw.collect());
        let (checked, definitions) = self.runtime.block_on(check_tools(server, &raw_tools));
        let names = definitions.iter().map(|definition| definition.name.clone());
        server.listed_names.add(names);
        let list = ListedTools {
            upstreams: &self.upstreams,
            server,
            raw_tools: &raw_tools,
        };
        let registered = list.register(checked, &HashSet::new(), &self.before[index]);
        self.before[index] = registered.iter().map(|(name, _)| name.clone()).collect();
        let mut offered = self.upstreams.server_tools.tools.write();
        offered.retain(|_, tool| !Arc::ptr_eq(tool.server(), server));
        offered.extend(registered);
    }

    /// Returns the label of the server that has the registered name.
    fn holder(&self, name: &str) -> Option<String> {
        match self.upstreams.registry.get(name)?.origin() {
            ToolOrigin::Mcp { server_label, .. } => Some(server_label.clone()),
            _ => Some("the sidecar".to_owned()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_owner_of_a_name_never_depends_on_who_is_up((servers, events) in cases()) {
        let mut lists = Lists::new(&servers);
        let natives: Vec<String> = {
            let registry = &lists.upstreams.registry;
            let native = registry.names().into_iter().map(|name| name.to_string());
            let hidden = ["get_weather", "weather", "time_tool", "weather_tool", "web_search"];
            native.chain(hidden.map(str::to_owned)).collect()
        };
        let mut of_clients: HashMap<&str, ToolName> = HashMap::new();
        for (index, lists_tools) in events {
            let index = index % servers.len();
            let ((label, prefix), tools) = &servers[index];
            lists.accept(index, if lists_tools { tools } else { &[] });
            for native in &natives {
                let holder = lists.holder(native);
                prop_assert!(holder.is_none_or(|holder| holder == "the sidecar"), "{native}");
            }
            // Each name is held by an owner, and an owner that has just listed a tool holds the
            // tool's name.
            let owners = &lists.upstreams.owners;
            for (name, tool) in lists.upstreams.tools() {
                prop_assert!(owners.may_offer(&tool.server().label, name.as_str()));
            }
            for tool in tools.iter().filter(|_| lists_tools) {
                let section = section(label, *prefix);
                let name = format!("{}{tool}", section.tool_prefix());
                let is_sole = owners.owner(&name) == Some(label) && *label != "twin";
                if is_sole && !natives.contains(&name) {
                    prop_assert_eq!(lists.holder(&name), Some((*label).to_owned()));
                }
            }
            // No name that MCP clients see moves from one tool to another.
            for name in TOOLS {
                let Some(tool) = lists.upstreams.find_registered_name(name) else { continue };
                let owner = owners.owner(name).map(str::to_owned);
                let server = lists.holder(tool.as_str());
                prop_assert!(owner.is_none() || owner == server, "{name}: {tool}");
                let none_is_unlisted = lists.upstreams.servers().iter().all(|server| {
                    !server.listed_names.is_unknown()
                        || server.configured_prefix.as_ref().is_some_and(|it| !it.is_empty())
                        || Some(&server.label) == lists.holder(tool.as_str()).as_ref()
                });
                prop_assert!(none_is_unlisted);
                let first = of_clients.entry(name).or_insert_with(|| tool.clone());
                prop_assert_eq!(&*first, &tool);
            }
        }
    }
}
