//! `$select`: which properties a response contains, and in what order.

use lazuli_model::limits::SELECT_NAMES_MAX;

/// A parsed `$select`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// As sent, decoded: `odata.metadata` of the response echoes it, even if it is empty.
    text: Box<str>,
    projection: Option<Projection>,
}

/// The properties a `$select` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    pub partition_key: bool,
    pub row_key: bool,
    pub timestamp: bool,
    /// Custom properties in ordinal order, without duplicates.
    custom: Vec<Box<str>>,
}

/// Why a `$select` is refused: 400 `InvalidInput`, "One of the request inputs is not valid."
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("more than 255 names are selected")]
    TooManyNames,
}

impl Select {
    /// Parses the decoded text: names between commas, with optional spaces (T-4.42). An empty text
    /// and `*` select everything (T-1.39).
    pub fn parse(text: &str) -> Result<Self, SelectError> {
        let mut projection = Projection::default();
        let mut everything = true;
        let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
        for (index, name) in names.enumerate() {
            if index >= SELECT_NAMES_MAX {
                return Err(SelectError::TooManyNames);
            }
            everything = false;
            match name {
                "*" => {
                    everything = true;
                    break;
                }
                "PartitionKey" => projection.partition_key = true,
                "RowKey" => projection.row_key = true,
                "Timestamp" => projection.timestamp = true,
                custom => projection.custom.push(custom.into()),
            }
        }
        projection.custom.sort_unstable();
        projection.custom.dedup();
        Ok(Self { text: text.into(), projection: (!everything).then_some(projection) })
    }

    /// The text as sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is selected; `None` means everything.
    pub fn projection(&self) -> Option<&Projection> {
        self.projection.as_ref()
    }
}

impl Projection {
    /// Every selected custom property in ordinal order with its value, `None` where the entity
    /// lacks it (T-4.44).
    ///
    /// The service shows the keys and Timestamp first, then custom properties by name: the order of
    /// its OData library, which matches the recordings (T-4.45).
    pub fn pick<'s, 'p, V: Copy>(
        &'s self,
        properties: impl Iterator<Item = (&'p str, V)>,
    ) -> impl Iterator<Item = (&'s str, Option<V>)> {
        let mut values = vec![None; self.custom.len()];
        for (name, value) in properties {
            let found = self.custom.binary_search_by(|c| (**c).cmp(name));
            if let Some(slot) = found.ok().and_then(|index| values.get_mut(index)) {
                *slot = Some(value);
            }
        }
        self.custom.iter().map(|name| &**name).zip(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn picked(text: &str, properties: &[(&str, i32)]) -> Vec<(String, Option<i32>)> {
        let select = Select::parse(text).unwrap();
        let projection = select.projection().unwrap();
        projection
            .pick(properties.iter().copied())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn selected_properties_come_by_name_and_missing_ones_as_nothing() {
        let got = picked("z, a,m,RowKey,a", &[("m", 1), ("z", 2), ("PartitionKeyX", 3)]);
        let expect = [("a", None), ("m", Some(1)), ("z", Some(2))];
        assert_eq!(got, expect.map(|(n, v)| (n.to_owned(), v)));
    }

    #[test]
    fn keys_and_timestamp_are_told_from_custom_properties() {
        let select = Select::parse("baz,PartitionKey,RowKey").unwrap();
        let projection = select.projection().unwrap();
        assert!(projection.partition_key && projection.row_key && !projection.timestamp);
    }

    #[test]
    fn an_empty_text_or_a_star_selects_everything() {
        for text in ["", " ", "*", "a,*", ","] {
            let select = Select::parse(text).unwrap();
            assert_eq!(select.projection(), None, "{text:?}");
            assert_eq!(select.text(), text);
        }
    }

    #[test]
    fn at_most_255_names_are_taken() {
        let names = |n| vec!["a"; n].join(",");
        assert!(Select::parse(&names(255)).is_ok());
        assert_eq!(Select::parse(&names(256)), Err(SelectError::TooManyNames));
    }
}
