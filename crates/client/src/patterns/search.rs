//! Searches for inconsistencies page by page, so that an interrupted search can continue (P-0.5).

use crate::entity::{Entity, Loaded};
use crate::error::Error;
use crate::page_token::PageToken;
use crate::query::Query;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::str::FromStr;

/// Rows of a page that are checked concurrently.
pub(super) const AT_ONCE: usize = 16;

/// Where a search continues. Its text can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchToken {
    /// The number of the table or container.
    part: usize,
    /// The page within it; `None` for the first.
    page: Option<String>,
}

impl fmt::Display for SearchToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part)?;
        self.page.as_ref().map_or(Ok(()), |page| write!(f, ":{page}"))
    }
}

impl FromStr for SearchToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (part, page) = match text.split_once(':') {
            Some((part, page)) => (part, Some(page.to_owned())),
            None => (text, None),
        };
        let bad = |_| Error::config("this is not the token of a search");
        Ok(Self { part: part.parse().map_err(bad)?, page })
    }
}

/// The result of a page of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPage<F> {
    /// The inconsistencies.
    pub findings: Vec<F>,
    /// How many rows or blobs were checked.
    pub looked_at: u64,
    /// Where to continue; `None` at the end.
    pub next: Option<SearchToken>,
}

/// The result of one page of one part of a search.
pub(super) struct PartPage<F> {
    pub(super) findings: Vec<F>,
    pub(super) looked_at: u64,
    /// The next page, if the part has one.
    pub(super) next: Option<String>,
}

/// A search of several tables or containers.
pub(super) trait Search: Sync {
    type Finding;

    /// The number of parts.
    fn parts(&self) -> usize;

    /// Checks one page of a part: the first, or the one that the previous page named.
    fn page(
        &self,
        part: usize,
        page: Option<&str>,
    ) -> impl Future<Output = Result<PartPage<Self::Finding>, Error>> + Send;
}

/// One page of a search.
pub(super) async fn page<S: Search>(
    search: &S,
    resume: Option<&SearchToken>,
) -> Result<SearchPage<S::Finding>, Error> {
    let (part, page) = resume.map_or((0, None), |token| (token.part, token.page.as_deref()));
    if part >= search.parts() {
        return Ok(SearchPage { findings: Vec::new(), looked_at: 0, next: None });
    }
    let PartPage { findings, looked_at, next } = search.page(part, page).await?;
    let next = match next {
        Some(page) => Some(SearchToken { part, page: Some(page) }),
        None => Some(SearchToken { part: part + 1, page: None }),
    };
    let next = next.filter(|token| token.part < search.parts());
    Ok(SearchPage { findings, looked_at, next })
}

/// Runs a whole search; returns how much was checked.
pub(super) async fn all<S: Search>(
    search: &S,
    mut each: impl FnMut(S::Finding) -> Result<(), Error>,
) -> Result<u64, Error> {
    let (mut looked_at, mut token) = (0, None);
    loop {
        let found = page(search, token.as_ref()).await?;
        looked_at += found.looked_at;
        found.findings.into_iter().try_for_each(&mut each)?;
        token = found.next;
        if token.is_none() {
            return Ok(looked_at);
        }
    }
}

/// One page of a query: its rows, and the next page.
pub(super) async fn read(
    query: Query<Entity>,
    page: Option<&str>,
) -> Result<(Vec<Loaded<Entity>>, Option<String>), Error> {
    let resume = page.map(str::parse::<PageToken>).transpose()?;
    let Some(page) = query.resume(resume).pages().next_page().await? else {
        return Ok((Vec::new(), None));
    };
    let next = page.token().map(PageToken::to_string);
    Ok((page.into_items(), next))
}

/// One page of a query, whose rows `look` checks concurrently; findings are in the order of the rows.
pub(super) async fn rows<F, L: Future<Output = Result<Vec<F>, Error>>>(
    query: Query<Entity>,
    page: Option<&str>,
    look: impl Fn(Loaded<Entity>) -> L,
) -> Result<PartPage<F>, Error> {
    let (rows, next) = read(query, page).await?;
    let looked_at = rows.len() as u64;
    let looks: Vec<_> = rows.into_iter().map(look).collect();
    let found: Vec<Vec<F>> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    Ok(PartPage { findings: found.into_iter().flatten().collect(), looked_at, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_there_and_back() {
        for text in ["0", "2", "1:a:b", "1:"] {
            assert_eq!(text.parse::<SearchToken>().unwrap().to_string(), text);
        }
        for text in ["", "a", ":", "1a:b"] {
            assert!(text.parse::<SearchToken>().is_err(), "{text}");
        }
    }
}
