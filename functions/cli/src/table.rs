//! Tables in the layout of Flux's command line: columns padded to their width, a tab between them.

/// Renders a table with a header; without rows only the header.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|name| name.to_uppercase()).collect();
    let lines = || {
        std::iter::once(&header)
            .chain(rows)
            .filter(|line| !line.is_empty())
    };
    let columns = lines().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines() {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        text.push_str(&cells.join("\t"));
        // Flux ends rows with a tab, and the header with a space.
        text.push_str(if std::ptr::eq(line, &header) {
            " \n"
        } else {
            "\t\n"
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded() {
        let rows = [
            vec!["apps".to_owned(), "é".to_owned()],
            vec!["a".to_owned(), String::new()],
        ];
        assert_eq!(
            render(&["Name", "Ok"], &rows),
            "NAME\tOK \napps\té \t\na   \t  \t\n"
        );
    }
}
