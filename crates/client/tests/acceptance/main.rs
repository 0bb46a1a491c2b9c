//! The acceptance scenarios of `docs/spec/client.md`, section 21: `cs_07_…` is CS-7.
//!
//! Each runs against a server of its own in this process. With `LAZULI_CONNECTION_STRING` set they run
//! against that service instead: the real binary, or, with `LAZULI_PEER=azurite`, Azurite, whose known
//! faults are listed in `peer.rs` (CS-23).

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]

mod batches;
mod cancel;
mod connecting;
mod every_verb;
mod histories;
mod interop;
mod lost_answers;
mod old_python;
mod peer;
mod reading;
mod rivals;
mod typed;
mod types;

/// Makes a test of each scenario: a function that takes a peer.
macro_rules! scenarios {
    ($($name:ident)*) => {
        mod scenario {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    crate::peer::run(stringify!($name), super::$name).await;
                }
            )*
        }
    };
}
use scenarios;
