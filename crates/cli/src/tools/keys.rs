use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolKeyEntry, route};

use crate::dispatch::CommandResult;
use crate::output::{JsonOption, print_result};
use crate::providers::key_from_input;
use crate::table::table;

/// The tool of `pillion tools set-key` and `remove-key`.
#[derive(Debug, Args)]
pub(super) struct ToolKeyTarget {
    /// The tool's name
    name: String,
}

pub(super) fn list_keys(output: &JsonOption, client: &Client) -> CommandResult {
    let response = client.request(route::LIST_TOOL_KEYS, []).send()?;
    output.print(&response, |list| {
        let row = |ToolKeyEntry { tool, service, key }| [tool, service, key];
        table(["TOOL", "SERVICE", "KEY"], list.tools.into_iter().map(row))
    })
}

impl ToolKeyTarget {
    pub(super) fn set_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::SET_TOOL_KEY, [&self.name]);
        request.send_bytes(&key_from_input()?)?;
        print_result(&format!("stored the key of {} in the vault", self.name))
    }

    pub(super) fn remove_key(&self, client: &Client) -> CommandResult {
        let request = client.request(route::REMOVE_TOOL_KEY, [&self.name]);
        request.send()?;
        print_result(&format!("removed the key of {} from the vault", self.name))
    }
}
