//! The tokens for `/metrics` on listeners that are open to the network.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderMap};
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The accepted tokens; they can be replaced while requests are served.
#[derive(Default)]
pub struct Tokens(Mutex<Vec<String>>);

impl Tokens {
    /// A new token: 32 random bytes in base64url.
    pub fn generate() -> io::Result<String> {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| io::Error::other("the system has no random bytes"))?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    pub fn replace(&self, tokens: Vec<String>) {
        let tokens = tokens.into_iter().filter(|token| !token.is_empty()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Whether the request carries one of the tokens, as `Authorization: Bearer`. Compares in
    /// constant time.
    pub(crate) fn permit(&self, headers: &HeaderMap) -> bool {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, given)) = header.and_then(|value| value.split_once(' ')) else {
            return false;
        };
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_given =
            |token: &String| verify_slices_are_equal(token.as_bytes(), given.as_bytes()).is_ok();
        scheme.eq_ignore_ascii_case("bearer") && tokens.iter().any(is_given)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let [one, other] = [(); 2].map(|()| Tokens::generate().unwrap());
        assert_eq!(one.len(), 43);
        assert_ne!(one, other);
    }

    #[test]
    fn a_token_is_one_of_those_that_are_known() {
        let tokens = Tokens::default();
        let permits = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            tokens.permit(&headers)
        };
        assert!(!permits("Bearer "), "no token permits nothing");
        tokens.replace(vec!["one".to_owned(), String::new(), "two".to_owned()]);
        assert!(permits("Bearer one") && permits("bearer two"));
        for bad in ["Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", ""] {
            assert!(!permits(bad), "{bad}");
        }
        assert!(!tokens.permit(&HeaderMap::new()));
        assert_eq!(format!("{tokens:?}"), "Tokens(..)");
    }
}
