//! The pages of a list.

use maud::Markup;

use super::{pagination, with_query};
use crate::form::FormFields;

/// The rows of a list that one page shows.
pub(crate) struct Rows<'a, T> {
    pub(crate) shown: &'a [T],
    pub(crate) links: Markup,
}

/// Returns the rows of the page that the query parameter `key` selects, and the links to other
/// pages.
pub(crate) fn select_rows<'a, T>(
    rows: &'a [T],
    rows_per_page: usize,
    url: &str,
    query: &FormFields,
    key: &str,
) -> Rows<'a, T> {
    let page: usize = query
        .text(key)
        .and_then(|page| page.parse().ok())
        .unwrap_or(0);
    let start = page.saturating_mul(rows_per_page).min(rows.len());
    let end = rows.len().min(start + rows_per_page);
    let page_url = |page: usize| {
        let page_text = page.to_string();
        // The other parameters of the URL, such as the name of a token, stay.
        let other_parameters = query.iter().filter(|(name, _)| *name != key);
        with_query(url, other_parameters.chain([(key, page_text.as_str())]))
    };
    let first = (start > 0).then(|| page_url(0));
    let next = (end < rows.len()).then(|| page_url(page + 1));
    Rows {
        shown: &rows[start..end],
        links: pagination(first, next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_pages() {
        let rows: Vec<_> = (0..45).collect();
        let page = |query: &str| {
            let query = FormFields::parse(query.as_bytes()).unwrap();
            let page = select_rows(&rows, 20, "access", &query, "tokens");
            (page.shown.to_vec(), page.links.into_string())
        };
        let (shown, links) = page("name=a&tokens=1");
        assert_eq!(shown, rows[20..40]);
        assert!(links.contains("access?name=a&amp;tokens=2"), "{links}");
        assert!(links.contains("access?name=a&amp;tokens=0"), "{links}");
        assert_eq!(page("").0.len(), 20);
        assert_eq!(page("tokens=2").0, rows[40..]);
        assert!(page("tokens=18446744073709551615").0.is_empty());
    }
}
