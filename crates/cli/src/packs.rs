use clap::Args;
use pillion_client::Client;
use pillion_wire::{PackEntry, StoredItemEntry, route};

use super::dispatch::{CommandResult, RunCommand};
use super::output::{JsonOption, print_body, print_diagnostic, print_result};
use super::sidecar::{build_query_parameters, decode};
use super::table::format_table;
use super::typed;
use pillion_gateway::pins::visible;

commands! {
    /// Lists the tool packs and their stored data, and removes stored data
    #[command(after_help = examples![
        "pillion packs list",
        "pillion packs remove tabletop scenes cave",
    ])]
    pub(super) enum PacksCommand: Client {
        /// Lists the packs, with their contents and the number of stored entries
        #[command(after_help = examples!["pillion packs list", "pillion packs list --json"])]
        List(JsonOption) => list_packs,
        Show(ShowPackItems),
        Remove(RemovePackItem),
    }
}

/// The pack and the kind of entries.
#[derive(Debug, Args)]
struct PackKind {
    /// The pack's name
    pack: String,
    /// The kind of entries, as `pillion packs list` names it
    kind: String,
}

/// Lists the stored entries of one kind, such as scenes
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion packs show tabletop scenes",
    "pillion packs show tabletop characters --after Bo --limit 100 --json",
])]
pub(super) struct ShowPackItems {
    #[command(flatten)]
    pack_kind: PackKind,
    /// Maximum number of entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only entries whose names sort after this name
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    #[command(flatten)]
    output: JsonOption,
}

/// Removes a stored entry of a pack
#[derive(Debug, Args)]
#[command(after_help = examples![
    "pillion packs remove tabletop scenes cave",
    "pillion packs remove tabletop characters 'Aria Stone'",
])]
pub(super) struct RemovePackItem {
    #[command(flatten)]
    pack_kind: PackKind,
    /// The entry's name
    name: String,
    #[command(flatten)]
    output: JsonOption,
}

fn list_packs(output: &JsonOption, client: &Client) -> CommandResult {
    let response = client.request(route::LIST_PACKS, []).send()?;
    output.print(&response, |list| {
        let headings = ["PACK", "STORED", "TOOLS", "RESOURCES", "STREAMS"];
        format_table(headings, list.packs.iter().map(format_pack_row))
    })
}

impl RunCommand<Client> for ShowPackItems {
    fn run(self, client: &Client) -> CommandResult {
        let PackKind { pack, kind } = self.pack_kind;
        let limit = Some(self.limit.to_string());
        let page_query = build_query_parameters([("limit", limit), ("after", self.after)]);
        let request = client.request(route::LIST_PACK_ITEMS, [&pack, &kind]);
        let response = request.query(page_query).send()?;
        if self.output.json {
            return print_body(&response);
        }
        let list = decode(&response)?;
        let rows = list.items.iter().map(format_item_row);
        let exit_code = print_result(&format_table(["NAME", "FACTS"], rows))?;
        if let Some(next) = list.next {
            let name = visible(&next);
            print_diagnostic(&format!("there are more entries: pass --after '{name}'"));
        }
        Ok(exit_code)
    }
}

impl RunCommand<Client> for RemovePackItem {
    fn run(self, client: &Client) -> CommandResult {
        let PackKind { pack, kind } = self.pack_kind;
        let item_path = [pack.as_str(), &kind, &self.name];
        let response = client.request(route::REMOVE_PACK_ITEM, item_path).send()?;
        if self.output.json {
            return print_body(&response);
        }
        let name = visible(&self.name);
        print_result(&format!("{name}: removed from {pack} {kind}"))
    }
}

fn format_pack_row(pack: &PackEntry) -> [String; 5] {
    let stored_counts: Vec<_> = pack
        .stored_items
        .iter()
        .map(|items| match items.max {
            Some(max) => format!("{} {}/{max}", items.kind, items.count),
            None => format!("{} {}", items.kind, items.count),
        })
        .collect();
    [
        pack.name.clone(),
        stored_counts.join(", "),
        pack.tools.join(", "),
        pack.resources.join(", "),
        pack.streams.join(", "),
    ]
}

fn format_item_row(item: &StoredItemEntry) -> [String; 2] {
    let details: Vec<_> = item
        .details
        .iter()
        .map(|(detail, value)| format!("{detail}={}", typed::to_text(value)))
        .collect();
    [item.name.clone(), details.join("  ")]
}
