use pillion_gateway::pins::visible_line;

/// Formats rows below column headings, with aligned columns. Invisible characters are escaped, so
/// that the name of a tool or user can neither control the terminal nor imitate another name.
pub(super) fn format_table<const COLUMNS: usize>(
    headings: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(
        rows.into_iter()
            .map(|row| row.map(|cell| visible_line(&cell))),
    );
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let format_line = |cells: &[String; COLUMNS]| {
        let padded_cells: Vec<_> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded_cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(format_line).collect::<Vec<_>>().join("\n")
}

/// Returns the text of a table cell for an optional value.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Truncates a text to `max_chars` characters, followed by `suffix`.
pub(super) fn truncate(text: &str, max_chars: usize, suffix: &str) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}{suffix}", &text[..end]),
    }
}

/// Returns the text of a table cell for a user; a user who is not verified is marked.
pub(super) fn format_user(user: Option<&str>, is_verified: bool) -> String {
    match user {
        Some(user) if is_verified => user.to_owned(),
        Some(user) => format!("{user} (claimed)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_control_characters_are_escaped() {
        let rows = [["a\u{1b}\u{202e}\nb".to_owned(), "1".to_owned()]];
        let expected_table = "NAME               N\na\\u{1b}\\u{202e} b  1";
        assert_eq!(format_table(["NAME", "N"], rows), expected_table);
    }
}
