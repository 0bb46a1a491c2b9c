//! The switch for extensions: what a request must do to get more than the service's own protocol.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use http::HeaderValue;
use lazuli_wire::error_code::ErrorCode;

/// Which requests get extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtensionsMode {
    /// Requests that ask for them.
    #[default]
    Asked,
    /// Every request.
    Always,
    /// None: a request that asks is refused.
    Never,
}

/// The header in which a response names the extensions it used.
const USED: &str = "x-lazuli-used";

const UNKNOWN_VALUE: &str = "The value of x-lazuli-extensions must be 'on' or 'off'.";
const NEVER: &str = "This server offers no extensions: it was started with --extensions never.";

/// Whether a request with this `x-lazuli-extensions` header gets extensions.
pub(crate) fn are_asked_for(header: Option<&HeaderValue>, mode: ExtensionsMode) -> ApiResult<bool> {
    let Some(value) = header else { return Ok(mode == ExtensionsMode::Always) };
    let refused = |text| Err(ApiError::with_text(ErrorCode::InvalidHeaderValue, text));
    match (value.as_bytes().trim_ascii(), mode) {
        (b"on", ExtensionsMode::Never) => refused(NEVER),
        (b"on", _) => Ok(true),
        (b"" | b"off", _) => Ok(mode == ExtensionsMode::Always),
        _ => refused(UNKNOWN_VALUE),
    }
}

/// The extensions that a response used.
#[derive(Debug, Default)]
pub(crate) struct Used(Vec<&'static str>);

impl Used {
    pub(crate) fn add(&mut self, name: &'static str) {
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// Adds a name to a reply that may already name others.
    pub(crate) fn also(reply: &mut Reply, name: &'static str) {
        match reply.more.iter_mut().find(|(header, _)| *header == USED) {
            Some((_, names)) => {
                names.push_str(", ");
                names.push_str(name);
            }
            None => reply.more.push((USED, name.to_owned())),
        }
    }

    /// The header of `reply`, if it has one: a batch part has it, and the batch response repeats it.
    pub(crate) fn header_of(reply: &Reply) -> Option<(&'static str, String)> {
        reply.more.iter().find(|(header, _)| *header == USED).cloned()
    }

    /// Names them in `reply`, if any were used.
    pub(crate) fn mark(self, reply: &mut Reply) {
        if !self.0.is_empty() {
            reply.more.push((USED, self.0.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn a_header_or_the_server_asks() {
        use ExtensionsMode::{Always, Asked, Never};
        let ask = |text: Option<&'static str>, mode| {
            let value = text.map(HeaderValue::from_static);
            are_asked_for(value.as_ref(), mode).map_err(|error| error.code)
        };
        let invalid = Err(ErrorCode::InvalidHeaderValue);
        for (text, asked) in [(None, false), (Some("on"), true), (Some("off"), false)] {
            assert_eq!(ask(text, Asked), Ok(asked), "{text:?}");
            assert_eq!(ask(text, Always), Ok(true), "{text:?}");
        }
        assert_eq!(
            [ask(Some(""), Asked), ask(None, Never), ask(Some("off"), Never)],
            [Ok(false); 3]
        );
        assert_eq!(ask(Some("on"), Never), invalid);
        for mode in [Asked, Always, Never] {
            assert_eq!(ask(Some("yes"), mode), invalid);
            assert_eq!(ask(Some("ON"), mode), invalid);
        }
    }

    ///
    #[test]
    fn each_extension_is_named_once() {
        let (mut used, mut reply) = (Used::default(), Reply::default());
        for name in ["startswith", "reverse", "startswith"] {
            used.add(name);
        }
        used.mark(&mut reply);
        Used::default().mark(&mut reply);
        assert_eq!(reply.more, [("x-lazuli-used", "startswith, reverse".to_owned())]);
    }
}
