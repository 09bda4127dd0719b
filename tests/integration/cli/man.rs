//! The manual pages in `docs/man`, one for each command, are generated from the program's
//! `--help`. `PILLION_WRITE_DOCS=1` writes the pages.

use std::collections::BTreeMap;
use std::fs;

use clap::Command;
use clap_mangen::Man;
use pillion_testkit::checkout;

/// The text that the generator puts before each section.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

const EXIT_STATUS: &str = r#".SH "EXIT STATUS"
0 on success, 1 on failure, 2 if the command line or the configuration is invalid;
130 and 143 if SIGINT or SIGTERM ended \fBpillion mcp\fR.
"#;

const FILES: &str = r".SH FILES
.TP
.I /run/pillion/pillion.sock
The socket of a sidecar that root runs, and of the service
.IR pillion.service .
.TP
.I $XDG_RUNTIME_DIR/pillion/pillion.sock
The socket of any other sidecar.
.TP
.I /etc/pillion/pillion.toml
The configuration of the service; every setting stands in it with its default.
.TP
.I /etc/pillion/environment
Variables of the service's environment, such as secrets that the configuration names; root's alone.
.TP
.I /usr/share/doc/pillion/docs
The documentation, where the package is installed.
";

/// Returns the text of each manual page, by file name.
fn pages() -> BTreeMap<String, String> {
    let mut command = pillion::command().disable_help_subcommand(true);
    command.build();
    let mut pages = BTreeMap::new();
    add(&command, None, &mut pages);
    pages
}

fn add(command: &Command, parent: Option<&str>, pages: &mut BTreeMap<String, String>) {
    let name = name(command);
    let below: Vec<_> = subcommands(command).collect();
    let related: Vec<_> = parent
        .map(str::to_owned)
        .into_iter()
        .chain(below.iter().map(|below| self::name(below)))
        .collect();
    pages.insert(format!("{name}.1"), page(command, &related));
    for below in below {
        add(below, Some(&name), pages);
    }
}

/// Returns the commands below a command, without the generated `help`.
pub(super) fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let below = command.get_subcommands();
    below.filter(|below| below.get_name() != "help")
}

/// Returns the name of a command's page, such as `pillion-mcp-call`.
fn name(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    name.replace(' ', "-")
}

fn page(command: &Command, related: &[String]) -> String {
    let man = Man::new(command.clone())
        .source(format!("pillion {}", env!("CARGO_PKG_VERSION")))
        .manual("Pillion");
    let mut text = Vec::new();
    man.render_title(&mut text).unwrap();
    man.render_name_section(&mut text).unwrap();
    man.render_synopsis_section(&mut text).unwrap();
    man.render_description_section(&mut text).unwrap();
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text).unwrap();
    }
    man.render_options_section(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut text = PREAMBLE.to_owned() + &text.replace(PREAMBLE, "");
    if let Some(help) = command.get_after_help() {
        text.push_str(&examples(&help.to_string()));
    }
    text.push_str(EXIT_STATUS);
    if matches!(name(command).as_str(), "pillion" | "pillion-serve") {
        text.push_str(FILES);
    }
    if !related.is_empty() {
        let related: Vec<_> = related
            .iter()
            .map(|page| format!(".BR {} (1)", page.replace('-', "\\-")))
            .collect();
        text.push_str(".SH \"SEE ALSO\"\n");
        text.push_str(&related.join(" ,\n"));
        text.push('\n');
    }
    text
}

/// Returns the examples in a help text: indented lines, which the generator would otherwise join.
fn examples(help: &str) -> String {
    let mut section = String::from(".SH EXAMPLES\n.nf\n");
    for line in help.lines() {
        if let Some(example) = line.strip_prefix("  ") {
            let example = example
                .replace('\\', "\\e")
                .replace('-', "\\-")
                .replace('\'', "\\(aq");
            section.push_str(&example);
            section.push('\n');
        }
    }
    section.push_str(".fi\n");
    section
}

#[test]
fn the_manual_pages_match_the_help_of_the_program() {
    let folder = checkout().join("docs/man");
    let pages = pages();
    if std::env::var_os("PILLION_WRITE_DOCS").is_some() {
        for (name, text) in &pages {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let committed: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    for name in &committed {
        let known = name.to_str().is_some_and(|name| pages.contains_key(name));
        assert!(known, "{} is the page of no command", name.display());
    }
    assert_eq!(committed.len(), pages.len(), "a page is missing");
    for (name, text) in &pages {
        let committed = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(
            &committed, text,
            "{name} is not what --help says: PILLION_WRITE_DOCS=1 cargo test"
        );
    }
}
