//! Which exchanges are disturbed, and how (C-19.2).

use bytes::Bytes;
use http::{HeaderMap, Method};
use lazuli_testkit::seed::Seeded;
use lazuli_wire::connection_string::StorageService;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// One request that reached the proxy, and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// The service that it was sent to.
    pub service: StorageService,
    /// Its method.
    pub method: Method,
    /// Its path as sent, percent-encoded, with the account.
    pub path: String,
    /// Its query as sent, without the question mark.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The fault that the proxy caused.
    pub fault: Fault,
    /// The status of the service's answer; `None` if it has not answered, or did not get the request.
    pub status: Option<u16>,
}

impl Exchange {
    /// Whether it is an entity group transaction.
    pub fn is_batch(&self) -> bool {
        self.service == StorageService::Table && self.path.ends_with("/$batch")
    }

    /// The operations in it: those of a transaction, else one.
    pub fn operations(&self) -> usize {
        if !self.is_batch() {
            return 1;
        }
        let part = b"application/http";
        self.body.windows(part.len()).filter(|window| window.eq_ignore_ascii_case(part)).count()
    }
}

/// The fault of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No fault.
    Pass,
    /// The service never sees the request; the connection ends without an answer.
    DropRequest,
    /// The service carries the request out; the connection ends without an answer.
    DropReply,
    /// The service carries the request out; the connection ends in the middle of the answer's body, or, if
    /// it has none, before the answer.
    CutReply,
    /// The service never sees the request; the answer is 503 `ServerBusy`, with this many seconds in `Retry-After`.
    Busy {
        /// Seconds to wait.
        retry_after: Option<u32>,
    },
    /// The service carries the request out; the answer is delayed by this time, on the test's clock if there is one.
    Delay(Duration),
    /// The client crashes before this request arrives: neither it nor any later request arrives.
    CrashBefore,
    /// The client crashes after the service has carried the request out: neither the answer nor any later request
    /// arrives.
    CrashAfter,
}

/// Which of the exchanges that match a rule are disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// All.
    Always,
    /// The first ones, this many.
    First(u64),
    /// One: the first is number zero.
    Nth(u64),
    /// One in this many, chosen by the seed.
    OneIn(usize),
}

type Test = Box<dyn Fn(&Exchange) -> bool + Send>;

/// The exchanges that a rule applies to: all, unless restricted.
#[derive(Default)]
#[must_use = "a match does nothing before it is given to a proxy"]
pub struct Match {
    service: Option<StorageService>,
    method: Option<Method>,
    path: Option<String>,
    that: Option<Test>,
}

impl Match {
    /// Every exchange.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those of this service.
    pub fn service(self, service: StorageService) -> Self {
        Self { service: Some(service), ..self }
    }

    /// Those with this method, such as `Method::PUT`.
    pub fn method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Those whose path contains `text`.
    pub fn path_contains(self, text: impl Into<String>) -> Self {
        Self { path: Some(text.into()), ..self }
    }

    /// Those for which `test` returns true.
    pub fn that(self, test: impl Fn(&Exchange) -> bool + Send + 'static) -> Self {
        Self { that: Some(Box::new(test)), ..self }
    }

    fn matches(&self, exchange: &Exchange) -> bool {
        self.service.is_none_or(|service| service == exchange.service)
            && self.method.as_ref().is_none_or(|method| *method == exchange.method)
            && self.path.as_ref().is_none_or(|text| exchange.path.contains(text))
            && self.that.as_ref().is_none_or(|test| test(exchange))
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Match")
            .field("service", &self.service)
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

struct Rule {
    which: Match,
    when: When,
    what: Fault,
    matched: u64,
}

/// The rules of a proxy, and their progress.
pub(crate) struct Script {
    /// Faults of the next requests, whatever they are. They take precedence over the rules.
    next: VecDeque<Fault>,
    rules: Vec<Rule>,
    random: Seeded,
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: VecDeque::new(), rules: Vec::new(), random: Seeded::new(seed) }
    }

    pub(crate) fn add(&mut self, which: Match, when: When, what: Fault) {
        self.rules.push(Rule { which, when, what, matched: 0 });
    }

    pub(crate) fn set_next(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.next = faults.into_iter().collect();
    }

    pub(crate) fn clear(&mut self) {
        self.next.clear();
        self.rules.clear();
    }

    /// The fault of `exchange`: every rule counts it, the first one that applies decides.
    pub(crate) fn fault(&mut self, exchange: &Exchange) -> Fault {
        if let Some(fault) = self.next.pop_front() {
            return fault;
        }
        let mut decided = None;
        for rule in self.rules.iter_mut().filter(|rule| rule.which.matches(exchange)) {
            let number = rule.matched;
            rule.matched += 1;
            let applies = match rule.when {
                When::Always => true,
                When::First(count) => number < count,
                When::Nth(nth) => number == nth,
                When::OneIn(count) => self.random.one_in(count),
            };
            if applies {
                decided.get_or_insert(rule.what);
            }
        }
        decided.unwrap_or(Fault::Pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(method: Method, path: &str) -> Exchange {
        Exchange {
            service: StorageService::Table,
            method,
            path: path.to_owned(),
            query: String::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            fault: Fault::Pass,
            status: None,
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides_and_all_count() {
        let mut script = Script::new(0);
        script.add(Match::any().method(Method::PUT), When::Nth(1), Fault::DropReply);
        script.add(Match::any().path_contains("/T("), When::First(3), Fault::DropRequest);
        script.add(Match::any().service(StorageService::Queue), When::Always, Fault::CutReply);
        let put = exchange(Method::PUT, "/a/T(1)");
        let faults: Vec<_> = (0..4).map(|_| script.fault(&put)).collect();
        let expected = [Fault::DropRequest, Fault::DropReply, Fault::DropRequest, Fault::Pass];
        assert_eq!(faults, expected);
        script.set_next([Fault::Pass, Fault::CutReply]);
        let get = exchange(Method::GET, "/a/U(1)");
        let faults: Vec<_> = (0..3).map(|_| script.fault(&get)).collect();
        assert_eq!(faults, [Fault::Pass, Fault::CutReply, Fault::Pass]);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let faults = |seed| {
            let mut script = Script::new(seed);
            script.add(Match::any(), When::OneIn(3), Fault::DropReply);
            let get = exchange(Method::GET, "/");
            (0..60).map(|_| script.fault(&get) == Fault::DropReply).collect::<Vec<_>>()
        };
        assert_eq!(faults(7), faults(7));
        assert_ne!(faults(7), faults(8));
        let hits = faults(7).into_iter().filter(|hit| *hit).count();
        assert!((8..35).contains(&hits), "{hits}");
    }

    #[test]
    fn operations_of_a_transaction_are_counted() {
        let mut batch = exchange(Method::POST, "/a/$batch");
        batch.body = Bytes::from_static(
            b"--c\r\nContent-Type: application/http\r\n\r\n--c\r\nContent-Type: application/http\r\n",
        );
        assert_eq!((batch.is_batch(), batch.operations()), (true, 2));
        assert_eq!(exchange(Method::POST, "/a/T").operations(), 1);
    }
}
