use std::collections::{HashMap, HashSet};

use pillion_wire::ToolCallEntry;

/// The column of the tool name.
const TOOL_COLUMN: usize = 2;

/// Returns the rows of calls, each below its parent call and indented. Root calls keep their order;
/// the calls of one parent are sorted by start time. A call without its parent in the list is a
/// root call.
pub(super) fn rows(
    calls: &[ToolCallEntry],
    row: impl Fn(&ToolCallEntry) -> [String; 7],
) -> Vec<[String; 7]> {
    let listed_ids: HashSet<_> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut children: HashMap<&str, Vec<&ToolCallEntry>> = HashMap::new();
    let mut roots = Vec::new();
    for call in calls {
        let parent = call.parent_id.as_deref();
        match parent.filter(|id| listed_ids.contains(id)) {
            Some(parent) => children.entry(parent).or_default().push(call),
            None => roots.push(call),
        }
    }
    let mut rows = Vec::with_capacity(calls.len());
    // The next call is last.
    let mut stack: Vec<_> = roots.into_iter().rev().map(|call| (0, call)).collect();
    while let Some((depth, call)) = stack.pop() {
        let mut cells = row(call);
        if depth > 0 {
            cells[TOOL_COLUMN] = format!("{}└ {}", "  ".repeat(depth - 1), cells[TOOL_COLUMN]);
        }
        rows.push(cells);
        // The list is newest first, so the oldest call is on top of the stack.
        let made_by_call = children.remove(call.id.as_str()).unwrap_or_default();
        stack.extend(made_by_call.into_iter().map(|child| (depth + 1, child)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn p_calls_are_listed_below_their_parent_call() {
        let call = |id: &str, parent: Option<&str>| {
            let entry = json!({
                "id": id, "toolName": id, "parentId": parent, "arguments": {}, "status": "success",
                "startedAt": "",
            });
            serde_json::from_value::<ToolCallEntry>(entry).unwrap()
        };
        // In the order of the list: newest first.
        let calls = [
            call("b2", Some("b")),
            call("a3", Some("a1")),
            call("b1", Some("b")),
            call("b", None),
            call("a2", Some("a")),
            call("lost", Some("elsewhere")),
            call("a1", Some("a")),
            call("a", None),
        ];
        let row = |call: &ToolCallEntry| {
            let mut row: [String; 7] = Default::default();
            row[TOOL_COLUMN].clone_from(&call.tool_name);
            row
        };
        let shown: Vec<_> = rows(&calls, row)
            .into_iter()
            .map(|row| row[TOOL_COLUMN].clone())
            .collect();
        assert_eq!(
            shown,
            ["b", "└ b1", "└ b2", "lost", "a", "└ a1", "  └ a3", "└ a2"]
        );
    }
}
