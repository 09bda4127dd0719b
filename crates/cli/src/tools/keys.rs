use clap::Args;
use pillion_client::Client;
use pillion_wire::{ToolKeyEntry, ToolKeyList};

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
    let body = client.raw().tool_keys()?;
    output.print(&body, |list: ToolKeyList| {
        let row = |ToolKeyEntry { tool, service, key }| [tool, service, key];
        table(["TOOL", "SERVICE", "KEY"], list.tools.into_iter().map(row))
    })
}

impl ToolKeyTarget {
    pub(super) fn set_key(&self, client: &Client) -> CommandResult {
        client.raw().set_tool_key(&self.name, &key_from_input()?)?;
        print_result(&format!("stored the key of {} in the vault", self.name))
    }

    pub(super) fn remove_key(&self, client: &Client) -> CommandResult {
        client.raw().remove_tool_key(&self.name)?;
        print_result(&format!("removed the key of {} from the vault", self.name))
    }
}
