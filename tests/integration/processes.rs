//! Reads the processes of the machine from `/proc`.

use std::collections::HashMap;
use std::path::Path;

/// The ID of a process and of its parent.
struct Process {
    id: u32,
    parent: u32,
    state: char,
}

fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| read(&entry.ok()?.path()))
        .collect()
}

/// Reads a process; returns `None` if the directory is not that of a process, or the process has
/// ended.
fn read(path: &Path) -> Option<Process> {
    let id = path.file_name()?.to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(path.join("stat")).ok()?;
    // The state and the parent follow the name, which may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some(Process {
        id,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
    })
}

/// Returns all descendants of a process. Ended processes that were not waited for are
/// included.
pub fn descendants(id: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process.id);
    }
    let mut found = children.remove(&id).unwrap_or_default();
    let mut next = 0;
    while let Some(id) = found.get(next) {
        found.extend(children.remove(id).unwrap_or_default());
        next += 1;
    }
    found
}

/// Returns the command line of a process; empty if the process has ended.
pub fn command_line(id: u32) -> String {
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Returns the processes whose command line contains all of these words.
pub fn started_with(words: &[&str]) -> Vec<u32> {
    let ids = all().into_iter().map(|process| process.id);
    ids.filter(|&id| {
        let line = command_line(id);
        words.iter().all(|word| line.contains(word))
    })
    .collect()
}

/// Returns whether the process exists. An ended process counts if this process has to wait for it;
/// init waits for others, which is slow in some containers.
pub fn exists(id: u64) -> bool {
    read(Path::new(&format!("/proc/{id}")))
        .is_some_and(|process| process.state != 'Z' || process.parent == std::process::id())
}
