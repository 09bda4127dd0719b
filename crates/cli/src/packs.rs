use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use pillion_client::Client;
use pillion_wire::{PackEntry, StoredItemEntry, route};
use serde_json::Value;

use super::table::table;
use super::{CliError, SocketOption, decode, print, print_json};
use pillion_gateway::pins::visible;

/// `pillion packs`
#[derive(Debug, Args)]
pub(super) struct Packs {
    #[command(flatten)]
    socket: SocketOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the packs, with their contents and the number of stored entries
    List(List),
    /// Lists the stored entries of one kind, such as scenes
    Show(Show),
    /// Removes a stored entry of a pack
    Remove(Remove),
}

/// `pillion packs list`
#[derive(Debug, Args)]
struct List {
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// The pack and the kind of entries.
#[derive(Debug, Args)]
struct PackKindArgs {
    /// The pack's name
    pack: String,
    /// The kind of entries, as `pillion packs list` names it
    kind: String,
}

/// `pillion packs show`
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    of: PackKindArgs,
    /// Maximum number of entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only entries after this name
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

/// `pillion packs remove`
#[derive(Debug, Args)]
struct Remove {
    #[command(flatten)]
    of: PackKindArgs,
    /// The entry's name
    name: String,
    /// Prints the sidecar's response as JSON
    #[arg(long)]
    json: bool,
}

impl Packs {
    pub(super) fn apply(self) -> Result<ExitCode, CliError> {
        let client = self.socket.client(Duration::from_secs(30));
        match self.command {
            Command::List(list) => list.apply(&client),
            Command::Show(show) => show.apply(&client),
            Command::Remove(remove) => remove.apply(&client),
        }
    }
}

impl List {
    fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let response = client.request(route::LIST_PACKS, []).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = decode(&response)?;
        let rows: Vec<_> = list.packs.iter().map(pack_row).collect();
        let heads = ["PACK", "STORED", "TOOLS", "RESOURCES", "STREAMS"];
        print(&table(&heads, &rows))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.after.map(|after| ("after", after)));
        let PackKindArgs { pack, kind } = self.of;
        let request = client.request(route::LIST_PACK_ITEMS, [&pack, &kind]);
        let response = request.query(query).send()?;
        if self.json {
            print_json(&response.text())?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = decode(&response)?;
        let rows: Vec<_> = list.items.iter().map(entry_row).collect();
        print(&table(&["NAME", "FACTS"], &rows))?;
        if let Some(next) = list.next {
            super::print_diagnostic(&format!(
                "there are more entries: pass --after '{}'",
                visible(&next)
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Remove {
    fn apply(self, client: &Client) -> Result<ExitCode, CliError> {
        let PackKindArgs { pack, kind } = self.of;
        let item = [pack.as_str(), &kind, &self.name];
        let response = client.request(route::REMOVE_PACK_ITEM, item).send()?;
        if self.json {
            print_json(&response.text())?;
        } else {
            print(&format!(
                "{}: removed from {pack} {kind}",
                visible(&self.name)
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn pack_row(pack: &PackEntry) -> [String; 5] {
    let stored = pack.stored_items.iter().map(|kept| match kept.max {
        Some(max) => format!("{} {}/{max}", kept.kind, kept.count),
        None => format!("{} {}", kept.kind, kept.count),
    });
    [
        pack.name.clone(),
        stored.collect::<Vec<_>>().join(", "),
        pack.tools.join(", "),
        pack.resources.join(", "),
        pack.streams.join(", "),
    ]
}

fn entry_row(kept: &StoredItemEntry) -> [String; 2] {
    let details = kept.details.iter().map(|(detail, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("{detail}={value}")
    });
    [kept.name.clone(), details.collect::<Vec<_>>().join("  ")]
}
