//! What Azure charges for queries: dated, replaceable data.

use serde::Deserialize;

/// The prices that the release ships with.
const BUILT_IN: &str = include_str!("../../prices.toml");

/// Entities in one page of the service.
const PAGE_ENTITIES: u64 = lazuli_model::limits::PAGE_ITEMS_MAX as u64;

/// A price table, as in `prices.toml`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The day on which the prices were valid.
    pub(crate) dated: String,
    pub(crate) currency: String,
    /// The price of 10,000 transactions.
    per_10000_transactions: f64,
    /// Entities that Azure examines before it ends a page without reaching its end.
    scanned_per_page: u64,
}

/// Why a price table cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the price table is wrong: {0}")]
pub struct PricesError(String);

impl Prices {
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let wrong = |reason: &str| PricesError(reason.to_owned());
        let prices: Self = toml::from_str(text).map_err(|error| PricesError(error.to_string()))?;
        if !(prices.per_10000_transactions.is_finite() && prices.per_10000_transactions >= 0.0) {
            return Err(wrong("per_10000_transactions must be a number from 0 up"));
        }
        if prices.scanned_per_page == 0 {
            return Err(wrong("scanned_per_page must be at least 1"));
        }
        Ok(prices)
    }

    /// Round trips of a query that examines and returns this much.
    pub(crate) fn pages(&self, examined: u64, returned: u64) -> u64 {
        let scanned = examined.div_ceil(self.scanned_per_page.max(1));
        returned.div_ceil(PAGE_ENTITIES).max(scanned).max(1)
    }

    pub(crate) fn of_transactions(&self, transactions: u64) -> f64 {
        without_noise(transactions as f64 * self.per_10000_transactions / 10_000.0)
    }
}

/// The number rounded to twelve digits: rounding errors of binary fractions, as in
/// 3.6000000000000005e-8, are not part of a price.
fn without_noise(price: f64) -> f64 {
    format!("{price:.11e}").parse().unwrap_or(price)
}

impl Default for Prices {
    /// The table of the release, which a test parses.
    fn default() -> Self {
        Self::parse(BUILT_IN).unwrap_or(Self {
            dated: String::new(),
            currency: String::new(),
            per_10000_transactions: 0.0,
            scanned_per_page: 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prices_of_the_release_can_be_read() {
        let prices = Prices::parse(BUILT_IN).unwrap();
        assert_eq!(prices, Prices::default());
        assert!(prices.of_transactions(10_000) > 0.0);
        assert_eq!(prices.dated.len(), "2026-01-01".len());
    }

    #[test]
    fn a_price_has_no_more_digits_than_the_table_gives_it() {
        let prices = Prices { per_10000_transactions: 0.00036, ..Prices::default() };
        let text = |transactions| prices.of_transactions(transactions).to_string();
        assert_eq!(text(1), "0.000000036");
        assert_eq!(text(7), "0.000000252");
        assert_eq!(text(123_457), "0.004444452");
        assert_eq!(text(0), "0");
        assert!(prices.of_transactions(u64::MAX).is_finite());
    }

    #[test]
    fn pages_end_by_what_is_returned_or_scanned() {
        let prices = Prices { scanned_per_page: 10_000, ..Prices::default() };
        assert_eq!(prices.pages(0, 0), 1);
        assert_eq!(prices.pages(1000, 1000), 1);
        assert_eq!(prices.pages(1001, 1001), 2);
        assert_eq!(prices.pages(50_001, 3), 6);
    }

    #[test]
    fn a_wrong_table_is_refused() {
        let without = BUILT_IN.replace("per_10000_transactions", "price");
        assert!(Prices::parse(&without).is_err());
        let negative = BUILT_IN.replace("per_10000_transactions = ", "per_10000_transactions = -");
        assert!(Prices::parse(&negative).is_err());
    }
}
