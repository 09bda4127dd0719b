/// The program, and the arguments that begin with it, of an MCP server over its standard
/// streams which does wrong what it is told to: by further arguments, and by the tools that
/// are called. The script says which there are.
#[must_use]
pub fn fake_stdio(flags: &[&str]) -> (&'static str, Vec<String>) {
    let script = include_str!("fake_stdio/server.py");
    let arguments = ["-c", script].into_iter().chain(flags.iter().copied());
    ("python3", arguments.map(str::to_owned).collect())
}
