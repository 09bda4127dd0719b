//! The processes of the machine, as the tests count them.

use std::collections::HashMap;
use std::path::Path;

/// A process and its parent.
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

/// None where it is no process, or has gone meanwhile.
fn read(path: &Path) -> Option<Process> {
    let id = path.file_name()?.to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(path.join("stat")).ok()?;
    // After the name, which may hold anything: the state, then the parent.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some(Process {
        id,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
    })
}

/// The processes that a process has started, and those that these have, down to the last. Whoever
/// has ended and was not waited for is among them.
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

/// How a process was started; nothing when it has ended.
pub fn command_line(id: u32) -> String {
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// The processes whose command line has all of this in it.
pub fn started_with(words: &[&str]) -> Vec<u32> {
    let ids = all().into_iter().map(|process| process.id);
    ids.filter(|&id| {
        let line = command_line(id);
        words.iter().all(|word| line.contains(word))
    })
    .collect()
}

/// Whether there is such a process. One that has ended counts if it is ours to wait for; others
/// wait for the system's first process, which takes its time in some containers.
pub fn exists(id: u64) -> bool {
    read(Path::new(&format!("/proc/{id}")))
        .is_some_and(|process| process.state != 'Z' || process.parent == std::process::id())
}
