/// Rows under their heads, each column as wide as its widest cell. A cell's control
/// characters are spaces: what a tool or a user is called must not move the cursor.
pub(super) fn table<const COLUMNS: usize>(
    heads: &[&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    let mut lines = vec![heads.map(str::to_owned)];
    let plain = |cell: &String| cell.replace(char::is_control, " ");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_cannot_move_the_cursor() {
        let rows = [["a\u{1b}[2Jb".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["NAME", "N"], &rows), "NAME    N\na [2Jb  1");
    }
}
