//! The text at the end of each command's help: examples and exit codes.

use clap::Command;

/// The examples of each command, one per line.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "pillion serve --config /etc/pillion/pillion.toml",
            "pillion tools call calculator '{\"expression\": \"6 * 7\"}'",
            "pillion servers add weather --url https://mcp.example.com/mcp",
            "pillion mcp-stdio",
        ],
    ),
    (
        "serve",
        &[
            "pillion serve",
            "pillion serve --config /etc/pillion/pillion.toml",
            "pillion serve --config /etc/pillion/pillion.toml --take-over",
        ],
    ),
    (
        "check",
        &[
            "pillion check --config /etc/pillion/pillion.toml",
            "pillion check",
        ],
    ),
    (
        "tools",
        &["pillion tools list", "pillion tools call get_time"],
    ),
    (
        "tools keys",
        &["pillion tools keys", "pillion tools keys --json"],
    ),
    (
        "tools set-key",
        &["pillion tools set-key web_search < key.txt"],
    ),
    ("tools remove-key", &["pillion tools remove-key web_search"]),
    (
        "tools list",
        &[
            "pillion tools list",
            "pillion tools list --category math --json",
        ],
    ),
    (
        "tools show",
        &[
            "pillion tools show calculator",
            "pillion tools show calculator --json",
        ],
    ),
    (
        "tools schemas",
        &[
            "pillion tools schemas",
            "pillion tools schemas --category math",
        ],
    ),
    (
        "tools call",
        &[
            "pillion tools call calculator expression='6 * 7'",
            "pillion tools call calculator '{\"expression\": \"6 * 7\"}'",
            "pillion tools call cancel_order '{\"number\": 8}' --user ada --wait 120",
            "pillion tools call calculator - < arguments.json",
        ],
    ),
    (
        "chat",
        &[
            "pillion chat",
            "pillion chat 'What time is it in Tokyo?' --model gpt-4-turbo",
            "pillion chat --resume 01a202b1-8b10-74cc-982e-dcae537c06e0",
            "pillion chat --json 'Roll 2d6' | jq -r 'select(.type == \"done\") | .approvals[].id'",
        ],
    ),
    (
        "models",
        &["pillion models list", "pillion models show gpt-4-turbo"],
    ),
    (
        "models list",
        &["pillion models list", "pillion models list --json"],
    ),
    ("models show", &["pillion models show gpt-4-turbo"]),
    (
        "providers",
        &[
            "pillion providers list",
            "pillion providers set-key openai < key.txt",
        ],
    ),
    (
        "providers list",
        &["pillion providers list", "pillion providers list --json"],
    ),
    (
        "providers set-key",
        &["pillion providers set-key openai < key.txt"],
    ),
    (
        "providers remove-key",
        &["pillion providers remove-key openai"],
    ),
    ("calls", &["pillion calls list", "pillion calls stats"]),
    (
        "calls list",
        &[
            "pillion calls list --status error --limit 5",
            "pillion calls list --tool calculator --from 2026-11-21T18:00:00Z --json",
        ],
    ),
    (
        "calls show",
        &["pillion calls show 01a20126-6441-7502-8f83-e6cc45d24570"],
    ),
    (
        "calls stats",
        &[
            "pillion calls stats",
            "pillion calls stats --server weather",
        ],
    ),
    (
        "approvals",
        &[
            "pillion approvals list",
            "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b",
        ],
    ),
    (
        "approvals list",
        &[
            "pillion approvals list",
            "pillion approvals list --status denied --tool cancel_order",
            "pillion approvals list --json | jq -r '.approvals[].id'",
        ],
    ),
    (
        "approvals show",
        &["pillion approvals show 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b"],
    ),
    (
        "approvals approve",
        &[
            "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --user ada",
            "pillion approvals approve 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --arguments '{\"to\": \"bob\"}'",
        ],
    ),
    (
        "approvals deny",
        &["pillion approvals deny 01a200bf-11d2-7f4e-9d3e-6c4f0e1f2a3b --reason 'Not today'"],
    ),
    (
        "events",
        &[
            "pillion events",
            "pillion events --types call,approval.requested --json",
        ],
    ),
    (
        "packs",
        &[
            "pillion packs list",
            "pillion packs remove tabletop scenes cave",
        ],
    ),
    (
        "packs list",
        &["pillion packs list", "pillion packs list --json"],
    ),
    (
        "packs show",
        &[
            "pillion packs show tabletop scenes",
            "pillion packs show tabletop characters --after Bo --limit 100 --json",
        ],
    ),
    (
        "packs remove",
        &[
            "pillion packs remove tabletop scenes cave",
            "pillion packs remove tabletop characters 'Aria Stone'",
        ],
    ),
    (
        "pins",
        &[
            "pillion pins list --changed",
            "pillion pins accept weather forecast",
        ],
    ),
    (
        "pins list",
        &[
            "pillion pins list",
            "pillion pins list --server weather --changed",
        ],
    ),
    (
        "pins diff",
        &[
            "pillion pins diff weather forecast",
            "pillion pins diff files read --user alice",
        ],
    ),
    ("pins accept", &["pillion pins accept weather forecast"]),
    (
        "servers add",
        &[
            "pillion servers add weather --url https://mcp.example.com/mcp --bearer-env WEATHER_TOKEN",
            "pillion servers add notes --config /etc/pillion/pillion.toml --command npx -- -y notes-server",
        ],
    ),
    (
        "servers list",
        &["pillion servers list", "pillion servers list --json"],
    ),
    ("servers show", &["pillion servers show weather"]),
    (
        "servers update",
        &[
            "pillion servers update weather --timeout-ms 5000",
            "pillion servers update weather --rate-limit per_minute=10,per_day=500",
        ],
    ),
    ("servers remove", &["pillion servers remove weather"]),
    ("servers enable", &["pillion servers enable weather"]),
    ("servers disable", &["pillion servers disable weather"]),
    ("servers connect", &["pillion servers connect weather"]),
    (
        "servers disconnect",
        &["pillion servers disconnect weather"],
    ),
    ("servers reconnect", &["pillion servers reconnect weather"]),
    (
        "servers test",
        &[
            "pillion servers test weather",
            "pillion servers test --url https://mcp.example.com/mcp",
        ],
    ),
    (
        "servers credentials",
        &["pillion servers credentials list weather"],
    ),
    (
        "servers credentials set",
        &[
            "pillion servers credentials set weather --user alice < token",
            "pillion servers credentials set weather --user bob --type basic --username bob --file password",
        ],
    ),
    (
        "servers credentials list",
        &["pillion servers credentials list weather"],
    ),
    (
        "servers credentials remove",
        &["pillion servers credentials remove weather --user alice"],
    ),
    (
        "servers tools",
        &[
            "pillion servers tools weather",
            "pillion servers tools weather --user alice",
        ],
    ),
    (
        "auth login",
        &["pillion auth login notion --config /etc/pillion/pillion.toml"],
    ),
    (
        "auth logout",
        &["pillion auth logout notion --config /etc/pillion/pillion.toml"],
    ),
    (
        "tokens create",
        &[
            "pillion tokens create ci --scope execute --expires-days 90 --config /etc/pillion/pillion.toml",
            "pillion tokens create bot --scope execute --tools 'get_time,far_*' --config /etc/pillion/pillion.toml",
        ],
    ),
    (
        "tokens list",
        &["pillion tokens list --config /etc/pillion/pillion.toml"],
    ),
    (
        "tokens revoke",
        &["pillion tokens revoke ci --config /etc/pillion/pillion.toml"],
    ),
    (
        "vault",
        &["pillion vault rotate --config /etc/pillion/pillion.toml"],
    ),
    (
        "vault rotate",
        &["pillion vault rotate --config /etc/pillion/pillion.toml"],
    ),
    (
        "mcp-stdio",
        &[
            "pillion mcp-stdio",
            "pillion mcp-stdio --socket /run/pillion/pillion.sock --user ada",
            "pillion mcp-stdio --standalone --config /etc/pillion/pillion.toml",
        ],
    ),
    (
        "mcp probe",
        &["pillion mcp probe http://127.0.0.1:8000/mcp"],
    ),
    (
        "mcp list",
        &["pillion mcp list http://127.0.0.1:8000/mcp tools"],
    ),
    (
        "mcp call",
        &[
            "pillion mcp call http://127.0.0.1:8000/mcp roll dice=2d6",
            "pillion mcp call echo message=hello -- npx -y @modelcontextprotocol/server-everything",
        ],
    ),
    (
        "mcp read",
        &["pillion mcp read http://127.0.0.1:8000/mcp file:///notes.txt"],
    ),
    (
        "mcp prompt",
        &["pillion mcp prompt http://127.0.0.1:8000/mcp greet name=Ada"],
    ),
    ("store check", &["pillion store check"]),
    (
        "store backup",
        &["pillion store backup /var/lib/pillion/copy.db"],
    ),
    (
        "store migrate",
        &["pillion store migrate --config /etc/pillion/pillion.toml"],
    ),
];

const EXIT_CODES: &str = "Exit codes: 0 on success, 1 on failure, 2 if the command line or the \
                          configuration is invalid.";

const EXIT_CODES_OF_MCP: &str = "Exit codes: 0 on success, 1 if the tool or the server failed, 2 if \
                                 the command line or the configuration is invalid, 130 after \
                                 SIGINT, 143 after SIGTERM.";

/// Adds examples and exit codes to the help of every command.
pub(super) fn add_examples(command: Command) -> Command {
    added(command, "")
}

fn added(command: Command, names: &str) -> Command {
    let mut sections = Vec::new();
    if let Some(own) = command.get_after_help() {
        sections.push(own.to_string());
    }
    if let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == names) {
        sections.push(format!("Examples:\n  {}", examples.join("\n  ")));
    }
    if !sections
        .iter()
        .any(|section| section.contains("Exit codes:"))
    {
        let codes = match names.starts_with("mcp ") {
            true => EXIT_CODES_OF_MCP,
            false => EXIT_CODES,
        };
        sections.push(codes.to_owned());
    }
    let command = command.after_help(sections.join("\n\n"));
    command.mut_subcommands(|below| {
        let names = format!("{names} {}", below.get_name());
        added(below, names.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &Command, names: &str, see: &mut impl FnMut(&str, &Command)) {
        see(names, command);
        for below in command.get_subcommands() {
            let names = format!("{names} {}", below.get_name());
            if below.get_name() != "help" {
                each(below, names.trim_start(), see);
            }
        }
    }

    /// Splits a line into words, like a shell.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![];
        let mut word = String::new();
        let mut is_quoted = false;
        for letter in line.chars().chain([' ']) {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.extend(Some(std::mem::take(&mut word))),
                letter => word.push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_a_description_an_example_and_exit_codes() {
        each(&super::super::command(), "", &mut |names, command| {
            let about = command.get_about().map(ToString::to_string);
            assert!(about.is_some_and(|about| !about.contains('\n')), "{names}");
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("Examples:"), "{names}: no example");
            assert!(help.contains("Exit codes:"), "{names}: no exit codes");
        });
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let mut count = 0;
        each(&super::super::command(), "", &mut |names, command| {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let Some(example) = line.trim().strip_prefix("pillion ") else {
                    continue;
                };
                let end = example.find(['|', '<', '>']).unwrap_or(example.len());
                let given = [vec!["pillion".to_owned()], words(&example[..end])].concat();
                let parsed = super::super::command().try_get_matches_from(given);
                assert!(parsed.is_ok(), "{names}: {line}: {:?}", parsed.err());
                count += 1;
            }
        });
        assert!(count >= EXAMPLES.len(), "{count}");
        for (names, _) in EXAMPLES {
            let mut is_there = false;
            each(&super::super::command(), "", &mut |known, _| {
                is_there |= known == *names;
            });
            assert!(is_there, "{names} is no command");
        }
    }
}
