use pillion_gateway::pins::visible_line;

/// Formats rows below column heads, with aligned columns. Invisible characters are escaped, so that
/// the name of a tool or user can neither control the terminal nor imitate another name.
pub(super) fn table<const COLUMNS: usize>(
    heads: &[&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    let mut lines = vec![heads.map(str::to_owned)];
    let plain = |cell: &String| visible_line(cell);
    lines.extend(rows.iter().map(|row| row.each_ref().map(plain)));
    let mut widths = [0; COLUMNS];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; COLUMNS]| {
        let cells = cells.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the cell of a user; a user who is not verified is marked.
pub(super) fn user(user: Option<&str>, is_verified: bool) -> String {
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
        let shown = "NAME               N\na\\u{1b}\\u{202e} b  1";
        assert_eq!(table(&["NAME", "N"], &rows), shown);
    }
}
