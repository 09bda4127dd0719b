/// Returns the program and arguments of a fake MCP server with the stdio transport. Flags in the
/// arguments, and the names of called tools, trigger faults; see the script.
#[must_use]
pub fn fake_stdio(flags: &[&str]) -> (&'static str, Vec<String>) {
    let script = include_str!("fake_stdio/server.py");
    let arguments = ["-c", script].into_iter().chain(flags.iter().copied());
    ("python3", arguments.map(str::to_owned).collect())
}
