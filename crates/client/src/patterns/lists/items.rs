//! The text of a list: sorted items, each once (P-4.1).

/// An item in a list: a comma is escaped as in keys (C-4.5); line feeds are escaped by the template.
pub(super) fn quote(item: &str) -> String {
    item.replace(',', "~2C")
}

/// The items of a text, separated by commas or line feeds.
pub(super) fn split(text: &str, separator: char) -> Vec<String> {
    text.split(separator).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Joins items into a text.
pub(super) fn join(items: &[String], separator: char) -> String {
    let mut text = items.join(separator.encode_utf8(&mut [0; 4]));
    if separator == '\n' && !text.is_empty() {
        text.push(separator);
    }
    text
}

/// Adds or removes an item. False if nothing changes.
pub(super) fn set(items: &mut Vec<String>, item: &str, is_in: bool) -> bool {
    match (items.binary_search_by(|known| known.as_str().cmp(item)), is_in) {
        (Ok(at), false) => {
            items.remove(at);
            true
        }
        (Err(at), true) => {
            items.insert(at, item.to_owned());
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_hold_an_item_once() {
        // P-4.1.
        let mut items = split("000152,000178", ',');
        assert!(set(&mut items, "000160", true) && !set(&mut items, "000160", true));
        assert_eq!(join(&items, ','), "000152,000160,000178");
        assert_eq!(join(&items, '\n'), "000152\n000160\n000178\n");
        assert_eq!(split(&join(&items, '\n'), '\n'), items);
        assert!(set(&mut items, "000152", false) && !set(&mut items, "000152", false));
        assert_eq!((split("", ','), join(&[], '\n')), (Vec::new(), String::new()));
        assert_eq!(quote("a,b"), "a~2Cb");
    }
}
